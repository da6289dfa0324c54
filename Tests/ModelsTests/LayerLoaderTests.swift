// Binding tensors under a prefix: what a family says once, and how it is told what does not fit.

import Checkpoint
import Compute
import Support
import Testing

@testable import Models

@Suite struct LayerLoaderTests {
  private func weights() throws -> LayerLoader {
    let folder = try ModelFolder(path: TestData.fixtures + "/models/llama3-tiny-q4")
    return LayerLoader(folder.weights, compute: try ComputeContext(threads: 1))
  }

  @Test func `the offset of norms holds further down, and for norms alone`() throws {
    let plain = try weights()
    var shifted = plain
    shifted.normOffset = 1
    let (name, count) = ("input_layernorm", 128)
    let stored = try plain.at("model.layers")[0].norm(name, count)
    let layer = shifted.given(["hidden_size": count]).at("model.layers")[0]
    #expect(try layer.norm(name, count) == stored.map { 1 + $0 })
    #expect(try layer.vector(name + ".weight", count) == stored)
  }

  @Test func `a bias that config.json promises and the checkpoint lacks is named`() throws {
    let attention = try weights().at("model.layers.0.self_attn")
    #expect(try attention.linear(["o_proj": 128], from: 128).rows == 128)
    let error = try #require(throws: ModelError.self) {
      try attention.linear(["o_proj": 128], from: 128, bias: true)
    }
    #expect(error.description.contains("o_proj.bias"), "\(error)")
  }

  @Test func `maps of one input are computed side by side`() throws {
    let attention = try weights().at("model.layers.0.self_attn")
    let names = ["q_proj": 128, "k_proj": 64] as KeyValuePairs
    #expect(try attention.linear(names, from: 128).rows == 128 + 64)
    let error = try #require(throws: ModelError.self) {
      try attention.linear(["q_proj": 128, "k_proj": 64 + 1], from: 128)
    }
    #expect(error.description.contains("self_attn.k_proj.weight"), "\(error)")
  }
}
