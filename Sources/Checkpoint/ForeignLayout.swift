// What config.json says of the quantized layouts of other tools, and the affine matrix that many of them become.
//
// GPTQ, AWQ, HQQ, bitnet, compressed-tensors' integers and bitsandbytes' 8 bits say `w = s · (q - z)` with one s and z per
// group, which is affine, `w = s · q + b` with `b = -z · s`. Their words are turned into MLX's (WeightMatrix.swift) when a
// model is opened; scales and biases are kept in float32, in which the product of a half-precision scale and a whole zero
// point is exact. Layouts that are MLX's words already stay in the file, and so do elements that are floats.

import Compute
import JSON

/// What config.json says of a layout. The tensors say the rest.
struct ForeignLayout: Sendable, Equatable {
  enum Method: Sendable, Equatable {
    /// Zero points are stored less one, or as they are; whether all of them are the middle of the range.
    case gptq(lessOne: Bool, symmetric: Bool)
    /// Rows of inputs in an order of eight of their own, or rows of outputs in plain order.
    case awq(byInputs: Bool)
    case compressed(symmetric: Bool)
    case bitsandbytes
    /// Floats of eight or four bits: of Hugging Face's `fp8`, of `fbgemm_fp8` and of `modelopt`.
    case floats
    case hqq
    case bitnet
  }

  /// A method, or an option of it, that has no reader here.
  struct Refusal: Error, Equatable {
    /// The key of the option and its value; nil for the method itself.
    var option: String?
  }

  let method: Method
  /// The method by its name in config.json.
  let name: String
  /// Where modules do not say it themselves.
  let bits: Int
  /// Inputs per scale; nil for a whole row.
  let groupSize: Int?
  /// Outputs and inputs per scale, where scales belong to blocks.
  let block: [Int]?
  /// What config.json asks for at run time that is computed exactly instead.
  let leftOut: [String]

  /// - Throws: `Refusal`.
  init(_ config: JSONObject) throws(Refusal) {
    name = config["quant_method"]?.stringValue ?? ""
    let groups = config["config_groups"]?.objectValue?.entries.map(\.value) ?? []
    let named =
      config["bits"] ?? config["w_bit"] ?? groups.lazy.compactMap { $0["weights"]?["num_bits"] }.first
      ?? config["quant_config"]?["weight_quant_params"]?["nbits"]
    let bits = named?.intValue ?? 4
    let size = (config["group_size"] ?? config["q_group_size"])?.intValue ?? 128
    // Beyond any row it is the whole row.
    groupSize = (1...1 << 30).contains(size) ? size : nil
    self.bits = min(max(1, bits), 32)
    switch name {
    case "gptq": method = try Self.gptq(config, bits)
    case "auto-round": method = try Self.autoRound(config, bits)
    case "awq": method = try Self.awq(config, bits)
    case "compressed-tensors", "sparseml": method = try Self.compressed(config, groups)
    case "bitsandbytes": method = .bitsandbytes
    case "fp8", "fbgemm_fp8": method = .floats
    case "modelopt":
      let algorithm = config["quant_algo"]?.stringValue ?? ""
      guard
        ["FP8", "FP8_PB_WO", "FP8_PER_CHANNEL_PER_TOKEN", "NVFP4", "MXFP8", "MIXED_PRECISION"]
          .contains(algorithm)
      else { throw Refusal(option: "quant_algo '\(algorithm)'") }
      method = .floats
    case "hqq":
      let parameters = config["quant_config"]?["weight_quant_params"]
      guard parameters?["axis"]?.intValue ?? 1 == 1 else { throw Refusal(option: "axis 0") }
      guard parameters?["view_as_float"]?.boolValue != true else {
        throw Refusal(option: "view_as_float true")
      }
      method = .hqq
    case "bitnet": method = .bitnet
    default: throw Refusal()
    }
    block = Self.block(config, groups)
    leftOut = Self.leftOut(config, groups)
  }

  /// A group may be a preset's name instead of its parameters.
  private static func compressed(_ config: JSONObject, _ groups: [JSONValue]) throws(Refusal) -> Method {
    let known = [
      "pack-quantized", "int-quantized", "float-quantized", "naive-quantized", "nvfp4-pack-quantized",
      "mxfp4-pack-quantized", "mxfp8-quantized", "mixed-precision", "dense",
    ]
    for format in ([config["format"]] + groups.map { $0["format"] }).compactMap({ $0?.stringValue })
    where !known.contains(format) { throw Refusal(option: "format '\(format)'") }
    if let sparsity = config["sparsity_config"]?["format"]?.stringValue, sparsity != "dense" {
      throw Refusal(option: "sparsity_config.format '\(sparsity)'")
    }
    if rotates(config["transform_config"]) {
      throw Refusal(option: "transform_config with online rotations")
    }
    return .compressed(symmetric: groups.allSatisfy { $0["weights"]?["symmetric"]?.boolValue ?? true })
  }

  /// Whether activations have to be rotated at run time: rotations of weights alone are folded into them.
  private static func rotates(_ config: JSONValue?) -> Bool {
    let groups = config?["config_groups"]?.objectValue?.entries.map(\.value) ?? []
    let places = groups.flatMap { $0["apply"]?.arrayValue ?? [] }.map { $0["location"]?.stringValue ?? "" }
    return places.contains { !["weight_input", "weight_output"].contains($0) }
  }

  private static func gptq(_ config: JSONObject, _ bits: Int) throws(Refusal) -> Method {
    let format = (config["checkpoint_format"] ?? config["format"])?.stringValue ?? "gptq"
    guard ["gptq", "gptq_v2"].contains(format) else { throw Refusal(option: "checkpoint_format '\(format)'") }
    guard config["is_marlin_format"]?.boolValue != true else {
      throw Refusal(option: "is_marlin_format true")
    }
    guard [2, 3, 4, 8].contains(bits) else { throw Refusal(option: "bits \(bits)") }
    return .gptq(lessOne: format == "gptq", symmetric: config["sym"]?.boolValue ?? true)
  }

  private static func autoRound(_ config: JSONObject, _ bits: Int) throws(Refusal) -> Method {
    guard [2, 3, 4, 8].contains(bits) else { throw Refusal(option: "bits \(bits)") }
    let symmetric = config["sym"]?.boolValue ?? true
    switch config["packing_format"]?.stringValue {
    case "auto_round:auto_gptq", "auto_gptq": return .gptq(lessOne: true, symmetric: symmetric)
    case "auto_round", "auto_round:exllamav2", "auto_round:tritonv2":
      return .gptq(lessOne: false, symmetric: symmetric)
    case "auto_round:auto_awq", "auto_awq", "auto_round:awq": return .awq(byInputs: true)
    case "auto_round:llm_compressor", "llm_compressor": return .compressed(symmetric: symmetric)
    case let other: throw Refusal(option: "packing_format '\(other ?? "")'")
    }
  }

  private static func awq(_ config: JSONObject, _ bits: Int) throws(Refusal) -> Method {
    let version = (config["version"] ?? config["format"])?.stringValue ?? "gemm"
    guard ["gemm", "gemv"].contains(version) else { throw Refusal(option: "version '\(version)'") }
    guard bits == 4 else { throw Refusal(option: "bits \(bits)") }
    return .awq(byInputs: version == "gemm")
  }

  private static func block(_ config: JSONObject, _ groups: [JSONValue]) -> [Int]? {
    if let block = config["weight_block_size"]?.arrayValue?.compactMap(\.intValue) { return block }
    for group in groups {
      guard let structure = group["weights"]?["block_structure"] else { continue }
      if let sizes = structure.arrayValue?.compactMap(\.intValue) { return sizes }
      // As "128x128".
      if let text = structure.stringValue { return text.split(separator: "x").compactMap { Int($0) } }
    }
    return nil
  }

  private static func leftOut(_ config: JSONObject, _ groups: [JSONValue]) -> [String] {
    var words: [String] = []
    let rounded = groups.contains { $0["input_activations"].map { !$0.isNull } ?? false }
    if rounded || config["activation_scheme"] != nil || config["activation_scale_ub"] != nil {
      words.append("rounding of activations")
    }
    if config["load_in_8bit"]?.boolValue == true { words.append("rounding of activations") }
    let caches = [config["kv_cache_scheme"], config["kv_cache_quant_algo"]]
    if caches.contains(where: { $0.map { !$0.isNull } ?? false }) {
      words.append("rounding of keys and values")
    }
    return words
  }
}

/// A matrix while its layout is changed.
struct ForeignMatrix {
  let rows, columns, bits: Int
  /// The inputs that share a scale in the affine matrix: those of the file's groups, or a part of them.
  let unit: Int
  /// The inputs of the file's groups.
  let groupSize: Int
  var words: [UInt32]
  var scales, biases: [Float]

  /// - Returns: nil where no kernel has groups of which the file's are multiples.
  init?(rows: Int, columns: Int, bits: Int, groupSize: Int) {
    guard rows > 0, columns > 0, columns % 32 == 0, (1...1 << 30).contains(groupSize),
      let unit = [128, 64, 32].first(where: { groupSize % $0 == 0 && columns % $0 == 0 })
    else { return nil }
    let (count, overflow) = rows.multipliedReportingOverflow(by: columns)
    guard !overflow, count <= 1 << 40 else { return nil }
    (self.rows, self.columns, self.bits, self.unit, self.groupSize) = (rows, columns, bits, unit, groupSize)
    words = [UInt32](repeating: 0, count: rows * (columns * bits / 32))
    scales = [Float](repeating: 0, count: rows * (columns / unit))
    biases = scales
  }

  var rowWords: Int { columns * bits / 32 }
  var groups: Int { (columns + groupSize - 1) / groupSize }

  /// Sets the scale and the zero point of a group of the file.
  mutating func set(row: Int, group: Int, scale: Float, zero: Float) {
    let first = group * groupSize / unit
    let end = min(columns, (group + 1) * groupSize) / unit
    for at in row * (columns / unit) + first..<row * (columns / unit) + end {
      (scales[at], biases[at]) = (scale, -zero * scale)
    }
  }

  /// Puts an element, which may lie in two words.
  mutating func put(row: Int, column: Int, _ value: UInt32) {
    let (word, shift) = (row * rowWords + column * bits / 32, column * bits % 32)
    words[word] |= value << UInt32(shift)
    if shift + bits > 32 { words[word + 1] |= value >> UInt32(32 - shift) }
  }

  /// The tensors as kernels take them.
  func tensors(name: String, bias: TensorView?) -> WeightTensors {
    let scaleShape = [rows, columns / unit]
    return WeightTensors(
      weight: TensorView(name: name, shape: [rows, rowWords], words: words),
      scales: TensorView(name: name + ".scales", shape: scaleShape, floats: scales),
      biases: TensorView(name: name + ".biases", shape: scaleShape, floats: biases), bias: bias,
      quantization: Quantization(mode: .affine, bits: bits, groupSize: unit), rows: rows, columns: columns)
  }
}

/// A tensor of 32-bit words.
struct StoredWords {
  private let tensor: TensorView

  init(_ tensor: TensorView) { self.tensor = tensor }

  /// Zero for a word that is not there, as in a tensor of another type.
  subscript(index: Int) -> UInt32 {
    guard index >= 0, 4 * index + 4 <= tensor.bytes.count else { return 0 }
    return UInt32(littleEndian: tensor.bytes.loadUnaligned(fromByteOffset: 4 * index, as: UInt32.self))
  }

  /// Element `index` of a bit stream that begins at word `start`.
  func field(_ index: Int, of bits: Int, in start: Int) -> UInt32 {
    bitsAt(index * bits, bits) { self[start + $0] }
  }

  /// Element `index` of a bit stream down a column of a matrix of `columns` columns.
  func field(_ index: Int, of bits: Int, column: Int, of columns: Int) -> UInt32 {
    bitsAt(index * bits, bits) { self[$0 * columns + column] }
  }

  private func bitsAt(_ at: Int, _ bits: Int, _ word: (Int) -> UInt32) -> UInt32 {
    let (index, shift) = (at / 32, at % 32)
    var value = UInt64(word(index))
    if shift + bits > 32 { value |= UInt64(word(index + 1)) << 32 }
    return UInt32(truncatingIfNeeded: value >> UInt64(shift)) & (1 << UInt32(bits) - 1)
  }
}
