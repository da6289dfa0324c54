// The small real checkpoints and the goldens of the shared data open, and their layouts are understood.

import Compute
import JSON
import Platform
import Support
import Testing

@testable import Checkpoint

/// The checkpoints of the shared data's folder `group`.
private func folders(_ group: String) throws -> [ModelFolder] {
  let place = try #require(TestData.shared) + "/" + group
  return try File.names(in: place).map { place + "/" + $0 }
    .filter { File.exists($0 + "/config.json") }.map { try ModelFolder(path: $0) }
}

/// An integer of config.json, which wrappers of several models nest in `text_config`.
private func setting(_ key: String, of folder: ModelFolder) -> Int? {
  (folder.config["text_config"] ?? folder.config)[key]?.intValue
}

@Suite(.enabled(if: TestData.shared != nil, "the shared data folder is absent"))
struct SharedModelsTests {
  @Test func `every matrix of every checkpoint loads with the configured or the stored layout`() throws {
    let all = try folders("models") + folders("goldens")
    try #require(!all.isEmpty)
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
    #expect(quantized > all.count)
    #expect(plainInQuantizedModel > 0)
  }

  @Test func `a down_proj whose width is no multiple of the group loads plain, others as they are stored`()
    throws
  {
    var (plain, quantized) = (0, 0)
    for folder in try folders("models") {
      guard let rule = folder.quantization.base, let hidden = setting("hidden_size", of: folder),
        let width = setting("intermediate_size", of: folder)
      else { continue }
      let layer = folder.weights.at("model.layers")[0]
      guard layer.has("mlp.down_proj.weight") else { continue }
      let down = try layer.linear("mlp.down_proj", rows: hidden, columns: width)
      if width % rule.groupSize == 0 {
        #expect(down.quantization == rule, "\(folder.name)")
        quantized += 1
      } else {
        #expect(down.quantization == nil && down.weight.shape == [hidden, width], "\(folder.name)")
        plain += 1
      }
    }
    #expect(plain > 0 && quantized > 0)
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
    let folder = try ModelFolder(path: place)
    func size(_ key: String) throws -> Int { try #require(setting(key, of: folder), "\(key)") }
    let (count, hidden) = (try size("num_experts"), try size("hidden_size"))
    let rows = try size("moe_intermediate_size")
    let layer = folder.weights.at("model.layers")[0]
    let module = "mlp.switch_mlp.gate_proj"
    let rule = try #require(firstLayerRule(folder, module))
    // Codes in words of 32 bits, a scale for each group.
    let words = hidden * rule.bits / 32
    let experts = try layer.linearStack(module, count: count, rows: rows, columns: hidden)
    try #require(experts.count == count)
    for expert in experts {
      #expect(expert.weight.shape == [rows, words])
      #expect(expert.scales?.shape == [rows, hidden / rule.groupSize])
      #expect(expert.quantization == rule)
    }
    let all = try layer.tensor(module + ".weight", shape: [count, rows, words])
    #expect(experts.flatMap { Array($0.weight.bytes) } == Array(all.bytes))
    // The router has a rule of its own.
    let router = try layer.linear("mlp.gate", rows: count, columns: hidden)
    #expect(router.quantization == firstLayerRule(folder, "mlp.gate"))
    #expect(router.quantization != rule)
  }

  /// What config.json says of a module of the first layer.
  private func firstLayerRule(_ folder: ModelFolder, _ module: String) -> Quantization? {
    guard case .quantized(let rule)? = folder.quantization.rule(for: "model.layers.0." + module) else {
      return nil
    }
    return rule
  }
}
