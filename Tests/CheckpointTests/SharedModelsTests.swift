// The small real checkpoints and the goldens of the shared data open, and their layouts are understood.

import Compute
import JSON
import Platform
import Support
import Testing

@testable import Checkpoint

private func folders(_ group: String) throws -> [ModelFolder] {
  let place = try #require(TestData.shared) + "/" + group
  return try File.names(in: place).map { place + "/" + $0 }
    .filter { File.exists($0 + "/config.json") }.map { try ModelFolder(path: $0) }
}

@Suite(.enabled(if: TestData.shared != nil, "the shared data folder is absent"))
struct SharedModelsTests {
  @Test func `every matrix of every checkpoint loads with the configured or the stored layout`() throws {
    let all = try folders("models") + folders("goldens")
    #expect(all.count >= 50)
    var quantized = 0
    var plainInQuantizedModel = 0
    for folder in all {
      for name in folder.weights.names where name.utf8.reversed().starts(with: ".weight".utf8.reversed()) {
        let module = String(name.dropLast(7))
        guard let shape = folder.weights.shape(of: name), shape.count == 2 else { continue }
        guard let scales = folder.weights.shape(of: module + ".scales") else {
          let linear = try folder.weights.linear(module, rows: shape[0], columns: shape[1])
          #expect(linear.quantization == nil)
          if folder.quantization.base != nil { plainInQuantizedModel += 1 }
          continue
        }
        guard case .quantized(let rule)? = folder.quantization.rule(for: module) else {
          Issue.record("\(folder.name): \(module) has scales, but config.json gives no parameters")
          continue
        }
        let columns = scales[1] * rule.groupSize
        let linear = try folder.weights.linear(module, rows: shape[0], columns: columns)
        #expect(linear.quantization == rule, "\(folder.name): \(module)")
        #expect((linear.biases != nil) == (rule.mode == .affine))
        quantized += 1
      }
    }
    #expect(quantized > 500)
    #expect(plainInQuantizedModel > 0)
  }

  @Test func `a down_proj of odd width in a quantized checkpoint loads plain`() throws {
    let place = try #require(TestData.shared) + "/models/"
    let names = try File.names(in: place)
    var found = 0
    for name in names where File.exists(place + name + "/config.json") {
      let folder = try ModelFolder(path: place + name)
      guard folder.quantization.base != nil, folder.config["intermediate_size"]?.intValue == 172 else {
        continue
      }
      let layer = folder.weights.at("model.layers")[0]
      guard layer.has("mlp.down_proj.weight") else { continue }
      let down = try layer.linear("mlp.down_proj", rows: 64, columns: 172)
      #expect(down.quantization == nil)
      #expect(down.weight.shape == [64, 172])
      found += 1
    }
    #expect(found == 4)
  }

  @Test func `a sharded checkpoint has the tensors of the whole one`() throws {
    let place = try #require(TestData.shared) + "/models/"
    let sharded = try ModelFolder(path: place + "hf-stories260K-llama-sharded")
    let whole = try ModelFolder(path: place + "hf-stories260K-llama")
    #expect(sharded.weights.names.sorted() == whole.weights.names.sorted())
    #expect(sharded.weightBytes == whole.weightBytes)
    for name in whole.weights.names {
      let shape = try #require(whole.weights.shape(of: name))
      let a = try sharded.weights.tensor(name, shape: shape)
      let b = try whole.weights.tensor(name, shape: shape)
      #expect(a.dtype == b.dtype && a.bytes.elementsEqual(b.bytes), "\(name)")
    }
  }

  @Test func `the experts of a stack are slices of it`() throws {
    let place = try #require(TestData.shared) + "/goldens/qwen3moe-tiny-q4"
    let layer = try ModelFolder(path: place).weights.at("model.layers")[0]
    let experts = try layer.linearStack("mlp.switch_mlp.gate_proj", count: 8, rows: 64, columns: 128)
    #expect(experts.count == 8)
    #expect(experts[7].weight.shape == [64, 16])
    #expect(experts[7].scales?.shape == [64, 2])
    #expect(experts[7].quantization == Quantization(bits: 4, groupSize: 64))
    let all = try layer.tensor("mlp.switch_mlp.gate_proj.weight", shape: [8, 64, 16])
    #expect(experts.flatMap { Array($0.weight.bytes) } == Array(all.bytes))
    let gate = try layer.linear("mlp.gate", rows: 8, columns: 128)
    #expect(gate.quantization == Quantization(bits: 8, groupSize: 64))
  }
}
