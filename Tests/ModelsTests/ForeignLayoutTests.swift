// Layouts of other tools with one thing changed: what does not fit is refused by name, before memory is taken for it.

import Checkpoint
import Compute
import JSON
import Models
import Platform
import Support
import Testing

/// A checkpoint of one file in memory, to be changed.
private struct EditedCheckpoint {
  var config: JSONObject
  var header: JSONObject
  var data: [UInt8]

  init(_ path: String) throws {
    config = try #require(try GoldenFolder.document(path + "/config.json").objectValue)
    let file = try File.read(path + "/model.safetensors", limit: 1 << 24)
    let length = file.prefix(8).reversed().reduce(0) { $0 << 8 | Int($1) }
    header = try #require(try JSONValue(parsing: Array(file[8..<8 + length])).objectValue)
    data = Array(file[(8 + length)...])
  }

  var weights: [UInt8] {
    let head = JSONValue.object(header).bytes
    return (0..<8).map { UInt8(truncatingIfNeeded: head.count >> (8 * $0)) } + head + data
  }

  /// Full names of tensors that end so.
  func names(_ ending: String) -> [String] { header.keys.filter { $0.hasSuffix(ending) } }

  /// Sets a value of the quantization's object, under one key or several.
  mutating func set(_ keys: String..., to value: JSONValue) {
    let name = "quantization_config"
    config[name] = Self.setting(keys[...], to: value, in: config[name])
  }

  private static func setting(
    _ keys: ArraySlice<String>, to value: JSONValue, in object: JSONValue?
  ) -> JSONValue {
    guard let key = keys.first else { return value }
    var members = object?.objectValue ?? JSONObject()
    members[key] = setting(keys.dropFirst(), to: value, in: members[key])
    return .object(members)
  }

  /// Takes a tensor's name away; its bytes stay, since a file has no gaps.
  mutating func drop(_ ending: String) {
    for name in names(ending).prefix(1) {
      header["dropped"] = header[name]
      header[name] = nil
    }
  }

  /// Overwrites the beginning of a tensor.
  mutating func write(_ bytes: [UInt8], to ending: String) throws {
    let name = try #require(names(ending).first)
    let start = try #require(header[name]?["data_offsets"]?[0]?.intValue)
    data.replaceSubrange(start..<start + bytes.count, with: bytes)
  }

  /// Gives a tensor half of its rows, each twice as long: as many elements in another shape.
  mutating func reshape(_ ending: String) throws {
    let name = try #require(names(ending).first)
    var members = try #require(header[name]?.objectValue)
    let shape = try #require(members["shape"]?.arrayValue).compactMap(\.intValue)
    try #require(shape.count == 2 && shape[0].isMultiple(of: 2))
    members["shape"] = [.int(shape[0] / 2), .int(2 * shape[1])]
    header[name] = .object(members)
  }
}

@Suite struct ForeignLayoutTests {
  /// How the edits of `formats/hostile/edits.json` are made, by their words.
  private static let edits: [String: @Sendable (inout EditedCheckpoint) throws -> Void] = [
    "drop model.layers.0.mlp.down_proj.qzeros": { $0.drop("mlp.down_proj.qzeros") },
    "quantization_config.checkpoint_format = \"marlin\"": { $0.set("checkpoint_format", to: "marlin") },
    "quantization_config.bits = 8": { $0.set("bits", to: 8) },
    "g_idx[0] = 99 in down_proj": { try $0.write([99, 0, 0, 0], to: "mlp.down_proj.g_idx") },
    "g_idx[0] = -1 in down_proj": { try $0.write([255, 255, 255, 255], to: "mlp.down_proj.g_idx") },
    "one scale of q_proj = inf": { try $0.write([0x00, 0x7C], to: "q_proj.scales") },
    "version = \"gemv_fast\"": { $0.set("version", to: "gemv_fast") },
    "one weight byte of gate_proj = 0x7f": { try $0.write([0x7F], to: "gate_proj.weight") },
    "drop one weight_scale_inv": { $0.drop("weight_scale_inv") },
    "weight_block_size [64, 64]": { $0.set("weight_block_size", to: [64, 64]) },
    "format \"marlin-24\"": { $0.set("format", to: "marlin-24") },
    "weight_shape [128, 1024] for q_proj": {
      try $0.write([128, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0], to: "q_proj.weight_shape")
    },
    "ignore += \"re:.*q_proj\" (tensors stay packed)": { $0.set("ignore", to: ["re:.*q_proj"]) },
    "weight_global_scale = 0": { try $0.write([0, 0, 0, 0], to: "weight_global_scale") },
    "quant_state bytes = \"{\"": { try $0.write([UInt8](repeating: 123, count: 8), to: "__nf4") },
    "quant_state blocksize 7": {
      try $0.write(
        Array("{\"quant_type\": \"nf4\", \"blocksize\": 7 , \"dtype\"".utf8), to: "__nf4")
    },
    "drop nested_absmax": { $0.drop("nested_absmax") },
    "one scale byte = 255": { try $0.write([255], to: "gate_up_proj_scales") },
    "axis = 0": { $0.set("quant_config", "weight_quant_params", "axis", to: 0) },
    "packing_format \"auto_round:foo\"": { $0.set("packing_format", to: "auto_round:foo") },
  ]

  private static let list: [JSONValue] =
    TestData.shared.flatMap { try? GoldenFolder.document($0 + "/formats/hostile/edits.json") }?.arrayValue
    ?? []

  @Test(.enabled(if: !list.isEmpty, "the shared data is not beside the package"))
  func `an edited layout is refused with the name of what was edited, or loads`() throws {
    let place = try #require(TestData.shared) + "/formats/layouts/"
    var made = 0
    for entry in Self.list {
      let words = try #require(entry["edit"]?.stringValue)
      guard let edit = Self.edits[words] else { continue }
      var checkpoint = try EditedCheckpoint(place + (try #require(entry["layout"]?.stringValue)))
      try edit(&checkpoint)
      made += 1
      let wanted = try #require(entry["names"]?.stringValue)
      let isRefused = entry["verdict"]?.stringValue == "refused"
      let error = try load(checkpoint)
      #expect((error != nil) == isRefused, "\(words): \(error ?? "loads")")
      if isRefused { #expect(error?.contains(wanted) == true, "\(words): \(error ?? "loads")") }
    }
    #expect(made == Self.edits.count)
  }

  @Test(.enabled(if: !list.isEmpty, "the shared data is not beside the package"))
  func `elements of another shape than the model's are refused by name`() throws {
    let place = try #require(TestData.shared) + "/formats/layouts/"
    for (layout, tensor) in [
      ("fp8-block128", "q_proj.weight"), ("bnb-nf4", "q_proj.weight"),
      ("ct-nvfp4a16", "q_proj.weight_scale"), ("hqq-4-g64", "q_proj.W_q"),
      ("bitnet-ternary", "q_proj.weight"),
    ] {
      var checkpoint = try EditedCheckpoint(place + layout)
      try checkpoint.reshape(tensor)
      let error = try load(checkpoint)
      // NF4's elements are a run of bytes, of whatever shape.
      #expect((error == nil) == (layout == "bnb-nf4"), "\(layout): \(error ?? "loads")")
      if let error { #expect(error.contains("q_proj"), "\(layout): \(error)") }
    }
  }

  /// What refuses the checkpoint; nil where it loads.
  private func load(_ checkpoint: EditedCheckpoint) throws -> String? {
    var error: String?
    try withCheckpoint(config: JSONValue.object(checkpoint.config).bytes, weights: checkpoint.weights) {
      path in
      do {
        _ = try Runner(path)
      } catch let found {
        error = "\(found)"
      }
    }
    return error
  }
}
