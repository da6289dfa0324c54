// Looking up tensors: prefixes, shapes, types, and the tensors of quantized matrices.

import Compute
import JSON
import Support
import Testing

@testable import Checkpoint

private func map(_ tensors: [TestTensor], config: JSONValue = [:]) throws -> WeightMap {
  let folder = try TestFolder(["model.safetensors": safetensors(tensors), "config.json": config.bytes])
  return try ModelFolder(path: folder.path).weights
}

/// weight, scales and biases of a quantized matrix with consistent shapes.
private func quantized(
  _ name: String, rows: Int, columns: Int, bits: Int, group: Int, scales: String = "F16"
) -> [TestTensor] {
  var tensors = [
    TestTensor(name + ".weight", "U32", [rows, columns * bits / 32]),
    TestTensor(name + ".scales", scales, [rows, columns / group]),
  ]
  if scales != "U8" { tensors.append(TestTensor(name + ".biases", scales, [rows, columns / group])) }
  return tensors
}

/// The message of the error that `body` throws.
private func fault(_ body: () throws -> some Any) -> String {
  do {
    _ = try body()
    return "no error"
  } catch {
    return "\(error)"
  }
}

private let four64: JSONValue = ["quantization": ["group_size": 64, "bits": 4]]

@Suite struct WeightMapTests {
  @Test func `prefixes and indices make up the full name`() throws {
    let all = try map([
      TestTensor("model.layers.3.norm.weight", "F32", [2]), TestTensor("norm.weight", "F32", [1]),
    ])
    let layer = all.at("model.layers")[3]
    #expect(layer.prefix == "model.layers.3")
    #expect(layer.has("norm.weight"))
    #expect(!layer.has("weight"))
    #expect(layer.names == ["model.layers.3.norm.weight"])
    #expect(all.at("model").at("layers.3").at("norm").shape(of: "weight") == [2])
    #expect(all.at("").has("norm.weight"))
    #expect(try layer.vector("norm.weight", count: 2).name == "model.layers.3.norm.weight")
    #expect(!all.at("model.layers")[30].has("norm.weight"))
  }

  @Test func `a tensor must have the shape that its model expects`() throws {
    let all = try map([TestTensor("a.w", "F32", [2, 3])])
    #expect(try all.tensor("a.w", shape: [2, 3]).count == 6)
    #expect(try all.optionalTensor("a.v", shape: [2, 3]) == nil)
    #expect(
      fault { try all.given(["hidden_size": 3]).at("a").tensor("w", shape: [3, 2]) }
        == "model.safetensors: tensor 'a.w' is [2, 3], expected [3, 2]: config.json says hidden_size = 3. "
        + "Re-download the checkpoint or fix config.json.")
    #expect(
      fault { try all.given(["hidden_size": 3]).given(["head_dim": 2]).linear("a", rows: 1, columns: 1) }
        .hasSuffix("is missing. The checkpoint is incomplete or not of the model_type that config.json says.")
    )
    #expect(
      fault { try all.at("a").tensor("v", shape: [2, 3]) }.hasSuffix(
        "tensor 'a.v' is missing. The checkpoint is incomplete or not of the model_type that config.json says."
      ))
  }

  @Test func `a vector is one row of floats`() throws {
    let all = try map([
      TestTensor("f", "BF16", [2]), TestTensor("i", "I32", [2]), TestTensor("m", "F32", [1, 2]),
      TestTensor("x", "F8_E4M3", [2]),
    ])
    #expect(try all.vector("f", count: 2).dtype == .bf16)
    #expect(try all.optionalVector("none", count: 2) == nil)
    #expect(
      fault { try all.vector("i", count: 2) }
        == "model.safetensors: tensor 'i' has elements of type I32, expected F32, F16 or BF16.")
    #expect(fault { try all.vector("m", count: 2) }.contains("is [1, 2], expected [2]"))
    #expect(fault { try all.vector("x", count: 2) }.contains("has elements of type F8_E4M3"))
  }

  @Test func `a dense linear map takes its bias along`() throws {
    let all = try map([
      TestTensor("q.weight", "F16", [3, 2]), TestTensor("q.bias", "F16", [3]),
      TestTensor("o.weight", "F32", [2, 3]),
    ])
    let q = try all.linear("q", rows: 3, columns: 2)
    #expect(q.bias?.shape == [3])
    #expect(q.quantization == nil)
    #expect(q.rows == 3 && q.columns == 2)
    #expect(try all.linear("o", rows: 2, columns: 3).bias == nil)
    #expect(fault { try all.linear("q", rows: 2, columns: 3) }.contains("'q.bias' is [3], expected [2]"))
    #expect(
      fault { try all.linear("o", rows: 3, columns: 2) }.contains("'o.weight' is [2, 3], expected [3, 2]"))
    #expect(fault { try all.linear("k", rows: 1, columns: 1) }.contains("tensor 'k.weight' is missing"))
    #expect(try all.embedding("q", rows: 3, columns: 2).bias == nil)
  }
}

@Suite struct QuantizedWeightTests {
  @Test func `a matrix with scales is quantized, one without is plain`() throws {
    let all = try map(
      quantized("up", rows: 3, columns: 128, bits: 4, group: 64)
        + [TestTensor("down.weight", "BF16", [3, 172]), TestTensor("up.bias", "F16", [3])],
      config: four64)
    let up = try all.linear("up", rows: 3, columns: 128)
    #expect(up.quantization == Quantization(bits: 4, groupSize: 64))
    #expect(up.weight.shape == [3, 16])
    #expect(up.scales?.shape == [3, 2])
    #expect(up.biases?.name == "up.biases")
    #expect(up.bias?.name == "up.bias")
    #expect(try all.linear("down", rows: 3, columns: 172).quantization == nil)
  }

  @Test(arguments: [2, 3, 4, 5, 6, 8], [32, 64, 128])
  func `every bit width and group size is found from the shapes alone`(bits: Int, group: Int) throws {
    let all = try map(quantized("m", rows: 2, columns: 256, bits: bits, group: group))
    let m = try all.embedding("m", rows: 2, columns: 256)
    #expect(m.quantization == Quantization(bits: bits, groupSize: group))
  }

  @Test func `mixed widths follow the overrides, and the shapes where there is none`() throws {
    let config: JSONValue = [
      "quantization": [
        "group_size": 64, "bits": 4, "model.layers.0.v": ["group_size": 32, "bits": 6],
      ]
    ]
    let all = try map(
      quantized("model.layers.0.q", rows: 1, columns: 128, bits: 4, group: 64)
        + quantized("model.layers.0.v", rows: 1, columns: 128, bits: 6, group: 32)
        + quantized("model.layers.1.v", rows: 1, columns: 128, bits: 8, group: 64)
        + quantized("lm_head", rows: 1, columns: 128, bits: 3, group: 128), config: config)
    func found(_ name: String) throws -> Quantization? {
      try all.linear(name, rows: 1, columns: 128).quantization
    }
    #expect(try found("model.layers.0.q") == Quantization(bits: 4, groupSize: 64))
    #expect(try found("model.layers.0.v") == Quantization(bits: 6, groupSize: 32))
    #expect(try found("model.layers.1.v") == Quantization(bits: 8, groupSize: 64))
    #expect(try found("lm_head") == Quantization(bits: 3, groupSize: 128))
  }

  @Test func `the width that the stored tensors have under the configuration is not reinterpreted`() throws {
    // As 4 bit in groups of 128 these tensors would pass for 256 inputs.
    let all = try map(
      quantized("m", rows: 2, columns: 128, bits: 8, group: 64),
      config: ["quantization": ["group_size": 64, "bits": 8]])
    #expect(try all.linear("m", rows: 2, columns: 128).quantization == Quantization(bits: 8, groupSize: 64))
    #expect(
      fault { try all.linear("m", rows: 2, columns: 256) }.contains(
        "'m.weight' is [2, 32], expected [2, 64]: it holds 128 inputs, 256 are needed"))
    #expect(
      fault {
        try all.given(["hidden_size": 256]).given(["head_dim": 2]).linear("m", rows: 2, columns: 256)
      }.contains(": it holds 128 inputs, 256 are needed; config.json says hidden_size = 256, head_dim = 2."))
  }

  @Test(arguments: [
    ("mxfp4", 4, 32, Quantization(mode: .mxfp4, bits: 4, groupSize: 32)),
    ("mxfp8", 8, 32, Quantization(mode: .mxfp8, bits: 8, groupSize: 32)),
    ("nvfp4", 4, 16, Quantization(mode: .nvfp4, bits: 4, groupSize: 16)),
  ])
  func `float modes come from the configuration or from byte scales`(
    mode: String, bits: Int, group: Int, expected: Quantization
  ) throws {
    let tensors = quantized("m", rows: 2, columns: 64, bits: bits, group: group, scales: "U8")
    let named: JSONValue = [
      "quantization": ["group_size": .int(group), "bits": .int(bits), "mode": .string(mode)]
    ]
    for config in [named, [:], four64] {
      let m = try map(tensors, config: config).linear("m", rows: 2, columns: 64)
      #expect(m.quantization == expected)
      #expect(m.biases == nil)
      #expect(m.scales?.dtype == .u8)
    }
  }

  @Test func `a module that the configuration excludes is plain, even beside leftover scales`() throws {
    let all = try map(
      [TestTensor("lm_head.weight", "F16", [2, 64]), TestTensor("lm_head.scales", "F16", [2, 1])],
      config: ["quantization": ["group_size": 64, "bits": 4, "lm_head": false]])
    #expect(try all.linear("lm_head", rows: 2, columns: 64).quantization == nil)
  }

  @Test func `tensors that contradict each other are refused`() throws {
    func fault(_ tensors: [TestTensor], rows: Int = 2, columns: Int = 64) throws -> String {
      let all = try map(tensors, config: four64)
      return CheckpointTests.fault { try all.linear("m", rows: rows, columns: columns) }
    }
    let good = quantized("m", rows: 2, columns: 64, bits: 4, group: 64)
    #expect(try fault(good) == "no error")
    #expect(
      try fault([good[0]])
        == "model.safetensors: quantized tensor 'm.weight': its scales tensor is missing.")
    #expect(
      try fault([good[0], good[1]])
        == "model.safetensors: quantized tensor 'm.weight': its biases tensor is missing.")
    #expect(
      try fault([good[0], good[1], TestTensor("m.biases", "F16", [2, 2])]).contains(
        "is [2, 2], expected [2, 1]"))
    #expect(
      try fault([good[0], good[1], TestTensor("m.biases", "U8", [2, 1])]).contains("elements of type U8"))
    #expect(
      try fault([good[0], TestTensor("m.scales", "I32", [2, 1]), good[2]]).contains("elements of type I32"))
    #expect(
      try fault([good[0], TestTensor("m.scales", "F16", [1, 1]), good[2]]).contains(
        "is [1, 1], expected [2, 1]"))
    #expect(
      try fault([good[0], TestTensor("m.scales", "F16", [2]), good[2]]).contains("is [2], expected [2, 2]"))
    #expect(try fault(good, rows: 3).contains("'m.weight' is [2, 8], expected [3, 8]"))
    #expect(
      try fault([TestTensor("m.weight", "F16", [2, 64]), good[1], good[2]]).contains(
        "has elements of type F16, expected U32, because m.scales exists"))
    #expect(
      try fault([TestTensor("m.weight", "U32", [2, 7]), good[1], good[2]]).contains(
        "7 words and 1 scales per row fit no bit width and group size for 64 inputs"))
    #expect(try fault(good + [TestTensor("m.global_scale", "F32", [1])]).contains("per-tensor scale"))
  }

  @Test func `the experts of a stack are the slices of its tensors`() throws {
    let all = try map(
      [
        TestTensor("e.weight", "U32", [3, 2, 8]), TestTensor("e.scales", "F16", [3, 2, 1]),
        TestTensor("e.biases", "F16", [3, 2, 1]), TestTensor("e.bias", "F16", [3, 2]),
        TestTensor("d.weight", "F32", [2, 1, 4]), TestTensor("f", "F16", [2, 4, 1]),
      ], config: four64)
    let experts = try all.linearStack("e", count: 3, rows: 2, columns: 64)
    #expect(experts.map(\.weight.shape) == [[2, 8], [2, 8], [2, 8]])
    #expect(experts[1].weight.bytes.first == 64)
    #expect(experts[2].scales.map { Array($0.bytes) } == [8, 9, 10, 11])
    #expect(experts[2].bias.map { Array($0.bytes) } == [8, 9, 10, 11])
    #expect(experts[0].quantization == Quantization(bits: 4, groupSize: 64))
    let dense = try all.linearStack("d", count: 2, rows: 1, columns: 4)
    #expect(dense[1].weight.bytes.first == 16)
    let bare = try all.linearStack("f", count: 2, rows: 4, columns: 1)
    #expect(bare.map { $0.rows(2..<4).weight.bytes.first } == [4, 12])
    #expect(fault { try all.linear("f", rows: 4, columns: 1) }.contains("tensor 'f.weight' is missing"))
    #expect(fault { try all.linearStack("e", count: 4, rows: 2, columns: 64) }.contains("expected [4, 2"))
  }
}
