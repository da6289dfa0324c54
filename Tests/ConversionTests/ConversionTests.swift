// Whole conversions: the bytes, config.json and index of mlx-lm, rules for modules, files that are taken up again.

import JSON
import Platform
import Support
import Testing

@testable import Checkpoint
@testable import Compute
@testable import Conversion

/// A folder that goes with the test.
private final class Scratch {
  let path: String

  init() throws {
    path = "/tmp/conversion-\(UInt64.random(in: 0...UInt64.max))"
    try File.makeFolders(path)
  }

  deinit { try? File.removeAll(path) }
}

/// A folder of which every matrix has been asked for, as a model does.
private func bound(_ path: String) throws -> ModelFolder {
  let folder = try ModelFolder(path: path)
  for name in folder.weights.names where name.hasSuffix(".weight") {
    guard let shape = folder.weights.shape(of: name), shape.count == 2 else {
      _ = try folder.weights.tensor(name, shape: folder.weights.shape(of: name) ?? [])
      continue
    }
    let module = String(name.dropLast(7))
    let groups = folder.weights.shape(of: module + ".scales")?.last
    let columns = groups.flatMap { groups in folder.quantization.base.map { groups * $0.groupSize } }
    _ = try folder.weights.linear(module, rows: shape[0], columns: columns ?? shape[1])
  }
  return folder
}

@discardableResult
private func convert(
  _ source: String, to output: String, _ options: ConversionOptions, threads: Int = 2,
  goOn: (Int, Int) -> Bool = { _, _ in true }
) throws -> ConversionPlan {
  let plan = try ConversionPlan(try bound(source), options)
  let conversion = try Conversion(plan, to: output)
  try conversion.writeWeights(try ComputeContext(threads: threads), goOn: goOn)
  try conversion.writeFiles()
  try conversion.finish(card: "a card")
  return plan
}

@Suite struct ConversionTests {
  private static let demo = TestData.fixtures + "/models/llama3-tiny-q4"

  // MARK: Against mlx-lm

  private static func options(_ value: JSONValue?) -> ConversionOptions {
    var options = ConversionOptions()
    options.bits = value?["bits"]?.intValue
    options.groupSize = value?["gs"]?.intValue
    options.mode = (value?["mode"]?.stringValue).flatMap { Quantization.Mode(rawValue: $0) }
    options.recipe = (value?["recipe"]?.stringValue).flatMap { ConversionOptions.Recipe(rawValue: $0) }
    if value?["dtype"] != nil { options.dtype = .f16 }
    return options
  }

  @Test(
    .enabled(if: TestData.shared != nil, "the shared data folder is absent"),
    arguments: [
      "q4-g32", "q8-g32-f16", "mxfp4", "mxfp8", "nvfp4", "mixed_2_6", "mixed_3_4", "mixed_3_6", "mixed_4_6",
    ])
  func `tensors, config and sizes are those of mlx-lm`(name: String) throws {
    let place = (try #require(TestData.shared)) + "/formats/convert"
    let golden = try #require(
      try JSONValue(parsing: try TestData.bytes(place + "/expected.json"))[name])
    let scratch = try Scratch()
    let output = scratch.path + "/out"
    try convert(place + "/source", to: output, Self.options(golden["options"]))
    let file = try Safetensors(path: output + "/model.safetensors")
    let expected = try #require(golden["tensors"]?.objectValue)
    #expect(file.count == expected.count)
    var wrong: [String] = []
    for index in 0..<file.count {
      let tensor = try #require(file.tensor(index))
      let entry = expected[tensor.name]
      let shape = entry?["shape"]?.arrayValue?.compactMap(\.intValue)
      let digest = SHA256.hexadecimal(SHA256.digest(Array(tensor.bytes)))
      if shape != tensor.shape || entry?["sha256"]?.stringValue != digest { wrong.append(tensor.name) }
    }
    #expect(wrong.isEmpty)
    let config = try JSONValue(parsing: try TestData.bytes(output + "/config.json"))
    #expect(config["quantization"] == golden["config"]?["quantization"])
    #expect(config["quantization_config"] == config["quantization"])
    #expect(config.objectValue?.keys == golden["config"]?.objectValue?.keys.sorted())
    let index = try JSONValue(parsing: try TestData.bytes(output + "/model.safetensors.index.json"))
    #expect(index["metadata"]?["total_size"] == golden["total_size"])
    #expect(index["metadata"]?["total_parameters"] == golden["total_parameters"])
  }

  @Test(.enabled(if: TestData.shared != nil, "the shared data folder is absent"))
  func `experts in OpenAI's layout stay, and config.json names them as mlx-lm does`() throws {
    let place = (try #require(TestData.shared)) + "/formats/layouts/mxfp4-gptoss-native"
    let scratch = try Scratch()
    try convert(place, to: scratch.path + "/out", ConversionOptions())
    let config = try JSONValue(parsing: try TestData.bytes(scratch.path + "/out/config.json"))
    let experts = config["quantization"]?["model.layers.0.mlp.experts.up_proj"] ?? config["quantization"]
    #expect(experts?["mode"] == "mxfp4" && experts?["bits"] == 4 && experts?["group_size"] == 32)
    let source = try bytes(place)
    for (name, data) in try bytes(scratch.path + "/out") where name.contains("_blocks") {
      #expect(source[name] == data)
    }
  }

  // MARK: Rules

  private func rules(_ options: ConversionOptions, type: String = "llama") throws -> QuantizationRules {
    let modules = (0..<16).map { "model.layers.\($0).mlp.down_proj" }
    return try QuantizationRules(options, types: [type], layers: 16, modules: modules)
  }

  @Test func `a mixed recipe gives more bits at both ends and to every third layer`() throws {
    var options = ConversionOptions()
    options.recipe = .mixed36
    let rules = try rules(options)
    let bits = (0..<16).map { layer in
      rules.quantization(of: "model.layers.\(layer).mlp.down_proj", columns: 128)?.bits
    }
    #expect(bits == [6, 6, 3, 3, 6, 3, 3, 6, 3, 3, 6, 3, 3, 6, 6, 6])
    #expect(rules.quantization(of: "model.layers.0.mlp.up_proj", columns: 128)?.bits == 3)
    #expect(rules.quantization(of: "lm_head", columns: 128)?.bits == 6)
  }

  @Test func `routers have eight bits, and what does not divide stays plain`() throws {
    let moe = try rules(ConversionOptions(), type: "qwen3_moe")
    #expect(
      moe.quantization(of: "model.layers.3.mlp.gate", columns: 128) == Quantization(bits: 8, groupSize: 64))
    #expect(
      try rules(ConversionOptions(), type: "deepseek_v3").quantization(
        of: "model.layers.3.mlp.gate", columns: 128) == nil)
    #expect(moe.quantization(of: "model.layers.3.mlp.up_proj", columns: 96) == nil)
    #expect(moe.quantization(of: "vision_tower.blocks.0.attn.qkv", columns: 128) == nil)
  }

  @Test func `the last rule that matches a module counts`() throws {
    var options = ConversionOptions()
    options.rules = try ["*_proj=6/32", "*.q_proj=plain", "lm_head=mxfp8"].map {
      try #require(ConversionOptions.ModuleRule($0))
    }
    let rules = try rules(options)
    #expect(
      rules.quantization(of: "model.layers.0.self_attn.v_proj", columns: 64)
        == Quantization(bits: 6, groupSize: 32))
    #expect(rules.quantization(of: "model.layers.0.self_attn.q_proj", columns: 64) == nil)
    #expect(
      rules.quantization(of: "lm_head", columns: 64) == Quantization(mode: .mxfp8, bits: 8, groupSize: 32))
    #expect(rules.quantization(of: "model.embed_tokens", columns: 64) == Quantization(bits: 4, groupSize: 64))
  }

  @Test(arguments: ["", "x", "x=", "=4", "x=7", "x=4/48", "x=4/", "x=4/64/2", "x=affine8", "x=1/64"])
  func `a text that is no rule is none`(text: String) {
    #expect(ConversionOptions.ModuleRule(text) == nil)
  }

  @Test func `options that contradict each other are refused`() {
    func problem(_ change: (inout ConversionOptions) -> Void) -> String? {
      var options = ConversionOptions()
      change(&options)
      do {
        _ = try options.base()
        return nil
      } catch {
        return "\(error)"
      }
    }
    #expect(problem { $0.bits = 8 } == nil)
    #expect(problem { $0.bits = 7 }?.contains("2, 3, 4, 5, 6 or 8") == true)
    #expect(problem { ($0.mode, $0.groupSize) = (.nvfp4, 32) }?.contains("groups of 16") == true)
    #expect(problem { ($0.mode, $0.recipe) = (.mxfp4, .mixed26) }?.contains("affine alone") == true)
    #expect(problem { ($0.bits, $0.recipe) = (4, .mixed26) }?.contains("recipe says the bits") == true)
    #expect(problem { ($0.bits, $0.recipe) = (3, .best) } == nil)
    #expect(problem { ($0.bits, $0.dequantizes) = (4, true) }?.contains("floats alone") == true)
  }

  // MARK: Files

  private func bytes(_ folder: String) throws -> [String: [UInt8]] {
    let found = try ModelFolder(path: folder)
    var all: [String: [UInt8]] = [:]
    for name in found.weights.names {
      let shape = try #require(found.weights.shape(of: name))
      all[name] = Array(try found.weights.tensor(name, shape: shape).bytes)
    }
    return all
  }

  @Test func `a folder in MLX's layout keeps every byte`() throws {
    let scratch = try Scratch()
    try convert(Self.demo, to: scratch.path + "/out", ConversionOptions())
    #expect(try bytes(scratch.path + "/out") == bytes(Self.demo))
    let (before, after) = (
      try ModelFolder(path: Self.demo).quantization, try ModelFolder(path: scratch.path + "/out").quantization
    )
    #expect(after.base == before.base)
  }

  @Test func `what is rounded already is rounded again only where that is asked for`() throws {
    let scratch = try Scratch()
    var options = ConversionOptions()
    options.bits = 8
    #expect(throws: ConversionError.self) { try convert(Self.demo, to: scratch.path + "/out", options) }
    #expect(!File.exists(scratch.path + "/out.partial"))
    options.requantizes = true
    let plan = try convert(Self.demo, to: scratch.path + "/out", options)
    #expect(plan.quantizationWords == "affine 8 bits in groups of 64")
  }

  @Test func `an interrupted conversion goes on, and gives the same bytes with any threads`() throws {
    let scratch = try Scratch()
    var options = ConversionOptions()
    options.dequantizes = true
    try convert(Self.demo, to: scratch.path + "/floats", options)
    options = ConversionOptions()
    (options.bits, options.groupSize, options.shardBytes) = (5, 32, 20_000)
    let source = scratch.path + "/floats"
    try convert(source, to: scratch.path + "/whole", options, threads: 1)
    let output = scratch.path + "/out"
    for share in 1..<4 {
      #expect(throws: ConversionError.self) {
        try convert(source, to: output, options) { done, all in 4 * done < share * all }
      }
      #expect(!File.exists(output) && File.exists(output + ".partial/convert.json"))
    }
    let kept = try File.names(in: output + ".partial").filter { $0.hasSuffix(".safetensors") }
    #expect(!kept.isEmpty)
    // Of another width: another conversion.
    var other = options
    other.bits = 6
    #expect(throws: ConversionError.self) { try convert(source, to: output, other) }
    try convert(source, to: output, options, threads: 3)
    #expect(try bytes(output) == bytes(scratch.path + "/whole"))
    #expect(throws: ConversionError.self) { try convert(source, to: output, options) }
  }

  @Test func `files of weights are cut where one would pass the limit`() throws {
    func output(_ bytes: Int) -> ConversionPlan.Output {
      .init(names: ["a\(bytes)"], dtypes: [.u8], shapes: [[bytes]], sources: [], form: nil, quantization: nil)
    }
    let shards = try ShardPlan.all([output(60), output(40), output(1), output(500), output(2)], limit: 100)
    #expect(shards.map(\.outputs) == [0..<2, 2..<3, 3..<4, 4..<5])
    #expect(shards[1].name == "model-00002-of-00004.safetensors")
    #expect(shards.allSatisfy { $0.header.count % 8 == 0 })
    #expect(try ShardPlan.all([output(60)], limit: 10).map(\.name) == ["model.safetensors"])
  }

  // MARK: Adapters

  private static let changed = "model.layers.1.self_attn.q_proj"

  private func floats(_ folder: String, _ name: String) throws -> [Float] {
    let file = try Safetensors(path: folder + "/model.safetensors")
    let index = try #require((0..<file.count).first { file.tensorName($0) == name })
    return try #require(file.tensor(index)).floats()
  }

  @Test(arguments: [false, true]) func `an adapter is added to its maps`(isPEFT: Bool) throws {
    let scratch = try Scratch()
    let (rows, columns, rank) = (128, 128, 4)
    let writer = AdapterWriter(
      [.init(name: Self.changed, rows: rows, columns: columns)], rank: rank, scale: 0.5, peft: isPEFT)
    try writer.write(to: scratch.path + "/adapter")
    var options = ConversionOptions()
    (options.dequantizes, options.dtype) = (true, .f32)
    try convert(Self.demo, to: scratch.path + "/plain", options)
    options.adapter = try AdapterFolder(path: scratch.path + "/adapter")
    try convert(Self.demo, to: scratch.path + "/fused", options)
    let name = Self.changed + ".weight"
    let (plain, fused) = (
      try floats(scratch.path + "/plain", name), try floats(scratch.path + "/fused", name)
    )
    let (a, b) = (writer.tensors[0].tensor.values, writer.tensors[1].tensor.values)
    for o in 0..<rows {
      for c in 0..<columns {
        let sum = (0..<rank).reduce(0.0) { sum, k in
          let down = isPEFT ? a[k * columns + c] : a[c * rank + k]
          let up = isPEFT ? b[o * rank + k] : b[k * rows + o]
          return sum + Double(down) * Double(up)
        }
        let found = Double(fused[o * columns + c] - plain[o * columns + c])
        #expect(abs(found - 0.5 * sum) < 1e-5)
      }
    }
    let other = "model.layers.0.self_attn.q_proj.weight"
    #expect(try floats(scratch.path + "/plain", other) == floats(scratch.path + "/fused", other))
  }

  @Test func `what an adapter leaves alone is copied, and the rest is stored as it was`() throws {
    let scratch = try Scratch()
    try AdapterWriter([.init(name: Self.changed, rows: 128, columns: 128)]).write(
      to: scratch.path + "/adapter")
    var options = ConversionOptions()
    options.adapter = try AdapterFolder(path: scratch.path + "/adapter")
    let output = scratch.path + "/fused"
    try convert(Self.demo, to: output, options)
    let (before, after) = (
      try Safetensors(path: Self.demo + "/model.safetensors"),
      try Safetensors(path: output + "/model.safetensors")
    )
    var differing: Set<String> = []
    for index in 0..<before.count {
      let tensor = try #require(before.tensor(index))
      let other = try #require((0..<after.count).first { after.tensorName($0) == tensor.name })
      let made = try #require(after.tensor(other))
      #expect(made.shape == tensor.shape && made.dtype == tensor.dtype)
      if !made.bytes.elementsEqual(tensor.bytes) { differing.insert(tensor.name) }
    }
    #expect(differing.contains(Self.changed + ".weight"))
    #expect(differing.allSatisfy { $0.hasPrefix(Self.changed) })
    #expect(try ModelFolder(path: output).quantization.base == ModelFolder(path: Self.demo).quantization.base)
  }

  @Test func `an adapter of another model is refused by name`() throws {
    let scratch = try Scratch()
    for map in [
      AdapterWriter.Map(name: "model.layers.9.self_attn.q_proj", rows: 128, columns: 128),
      AdapterWriter.Map(name: Self.changed, rows: 64, columns: 128),
    ] {
      try AdapterWriter([map]).write(to: scratch.path + "/adapter")
      var options = ConversionOptions()
      options.adapter = try AdapterFolder(path: scratch.path + "/adapter")
      do {
        try convert(Self.demo, to: scratch.path + "/fused", options)
        Issue.record("it was taken")
      } catch {
        #expect("\(error)".contains(map.name))
      }
    }
  }
}
