// Which modules are quantized and how: the `quantization` object of config.json with its overrides.
//
//     "quantization": {"group_size": 64, "bits": 4, "mode": "affine",
//                      "model.layers.0.mlp.gate": {"group_size": 64, "bits": 8},
//                      "lm_head": false}

package import Compute
package import JSON

/// What config.json says about quantization. The tensors have the last word: see `resolve`.
package struct QuantizationConfig: Sendable, Equatable {
  /// What config.json says about one module.
  enum Rule: Sendable, Equatable {
    case plain
    case quantized(Quantization)
  }

  /// Applies where no override does; nil when the model is not quantized.
  package let base: Quantization?
  private let overrides: [ByteKey: Rule]
  /// The layout of another tool, whose modules say the rest by their tensors; nil for MLX's.
  let foreign: ForeignLayout?

  /// The method of another tool, by its name in config.json.
  package var method: String? { foreign?.name }

  /// What config.json asks for at run time that is computed exactly instead.
  package var leftOut: [String] { foreign?.leftOut ?? [] }

  /// Whether config.json names a mode, for all modules or for some.
  func names(_ mode: Quantization.Mode) -> Bool {
    base?.mode == mode
      || overrides.values.contains { if case .quantized(let rule) = $0 { rule.mode == mode } else { false } }
  }

  static let bitWidths = [2, 3, 4, 5, 6, 8]
  static let groupSizes = [16, 32, 64, 128]

  /// - Throws: `.foreignQuantization` for AWQ, GPTQ and the like; `.badValue` for widths that do not exist.
  ///
  /// - Parameter beside: what a file of its own says, for checkpoints whose config.json says nothing.
  package init(config: JSONValue, file: String, beside: JSONValue? = nil) throws(CheckpointError) {
    let places: [(String, JSONValue?)] = [
      ("quantization", config["quantization"]),
      ("text_config.quantization", config["text_config"]?["quantization"]),
      ("quantization_config", config["quantization_config"]),
      ("text_config.quantization_config", config["text_config"]?["quantization_config"]),
      ("compression_config", config["compression_config"]), ("quantization", beside),
    ]
    guard let (key, found) = places.first(where: { $0.1.map { !$0.isNull } ?? false }), let found else {
      base = nil
      overrides = [:]
      foreign = nil
      return
    }
    guard case .object(let object) = found else {
      throw .badValue(file: file, key: key, problem: "is \(found.kind), expected an object")
    }
    if let method = object["quant_method"]?.stringValue {
      // OpenAI's own layout of gpt-oss says by its names what is quantized (`WeightMap.blockStack`).
      base = nil
      overrides = [:]
      guard method != "mxfp4" else {
        foreign = nil
        return
      }
      do {
        foreign = try ForeignLayout(object)
      } catch {
        throw .foreignQuantization(file: file, method: method, option: error.option)
      }
      return
    }
    let base = try Self.parameters(object, default: nil, key: key, file: file)
    var overrides: [ByteKey: Rule] = [:]
    for (path, value) in object.entries {
      switch value {
      case .bool(false): overrides[ByteKey(path)] = .plain
      case .object(let inner):
        let rule = try Self.parameters(inner, default: base, key: key + "." + path, file: file)
        overrides[ByteKey(path)] = .quantized(rule)
      default: break
      }
    }
    (self.base, self.overrides) = (base, overrides)
    foreign = nil
  }

  private static func parameters(
    _ object: JSONObject, default base: Quantization?, key: String, file: String
  ) throws(CheckpointError) -> Quantization {
    // As in MLX, an override without a mode is affine, whatever the mode of the whole model.
    var mode = Quantization.Mode.affine
    if let value = object["mode"], !value.isNull {
      guard let known = Quantization.Mode.named.first(where: { $0.rawValue == value.stringValue }) else {
        let names = Quantization.Mode.named.map(\.rawValue).joined(separator: ", ")
        throw .badValue(
          file: file, key: key + ".mode",
          problem: "is \(CheckpointError.escaped(value.text)), expected one of \(names)")
      }
      mode = known
    }
    let bits = try number(
      object["bits"], allowed: bitWidths, default: base?.bits ?? (mode == .mxfp8 ? 8 : 4),
      key: key + ".bits", file: file)
    let groupSize = try number(
      object["group_size"], allowed: groupSizes, default: base?.groupSize ?? mode.defaultGroupSize,
      key: key + ".group_size", file: file)
    return Quantization(mode: mode, bits: bits, groupSize: groupSize)
  }

  private static func number(
    _ value: JSONValue?, allowed: [Int], default standard: Int, key: String, file: String
  ) throws(CheckpointError) -> Int {
    guard let value, !value.isNull else { return standard }
    guard let number = value.intValue, allowed.contains(number) else {
      let names = allowed.map(String.init).joined(separator: ", ")
      throw .badValue(
        file: file, key: key, problem: "is \(CheckpointError.escaped(value.text)), expected one of \(names)")
    }
    return number
  }

  /// The override for a module, else the base; nil when config.json says nothing about quantization.
  ///
  /// Converters disagree about the wrapper's prefixes in the keys, so the path is tried with and without.
  func rule(for path: String) -> Rule? {
    if !overrides.isEmpty {
      if let exact = overrides[ByteKey(path)] { return exact }
      var bare = Substring(path)
      for prefix in ["model.", "language_model.", "model."]
      where bare.utf8.starts(with: prefix.utf8) {
        bare = Substring(bare.utf8.dropFirst(prefix.utf8.count))
      }
      for prefix in ["", "model.", "language_model.", "language_model.model.", "model.language_model."] {
        if let found = overrides[ByteKey(prefix + bare)] { return found }
      }
    }
    return base.map(Rule.quantized)
  }

  /// The parameters of a matrix whose tensors hold `packed` 32-bit words and `groups` scales per row.
  ///
  /// When the configured parameters agree with the two tensors they hold, even if the matrix is not as wide
  /// as expected: then the width is what is wrong. When they disagree the shapes are right: the configured
  /// group size is kept if some bit width fits it, else the other group sizes are tried.
  ///
  /// - Returns: nil when no parameters explain the shapes of a matrix with `columns` inputs.
  static func resolve(
    configured: Quantization?, scalesAreBytes: Bool, packed: Int, groups: Int, columns: Int
  ) -> Quantization? {
    func explains(_ q: Quantization) -> Bool {
      let (words, overflow1) = packed.multipliedReportingOverflow(by: 32)
      let (inputs, overflow2) = groups.multipliedReportingOverflow(by: q.groupSize)
      let (stream, overflow3) = inputs.multipliedReportingOverflow(by: q.bits)
      return !overflow1 && !overflow2 && !overflow3 && words == stream
    }
    func isPossible(_ q: Quantization) -> Bool { (q.mode == .affine) != scalesAreBytes }

    if let configured, isPossible(configured), explains(configured) { return configured }
    let candidates: [Quantization]
    if scalesAreBytes {
      candidates = Quantization.Mode.named.filter { $0 != .affine }.map {
        Quantization(mode: $0, bits: $0 == .mxfp8 ? 8 : 4, groupSize: $0.defaultGroupSize)
      }
    } else {
      let sizes = [configured?.groupSize].compactMap(\.self) + groupSizes
      candidates = sizes.flatMap { size in bitWidths.map { Quantization(bits: $0, groupSize: size) } }
    }
    return candidates.first { candidate in
      let (inputs, overflow) = groups.multipliedReportingOverflow(by: candidate.groupSize)
      return !overflow && inputs == columns && explains(candidate)
    }
  }
}

extension Quantization.Mode {
  /// MLX's group size where the configuration gives none.
  var defaultGroupSize: Int {
    switch self {
    case .affine: 64
    case .mxfp4, .mxfp8: 32
    case .nvfp4: 16
    case .fp8, .table: 64
    }
  }
}
