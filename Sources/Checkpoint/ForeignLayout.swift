// Quantized layouts of other tools, read without a conversion step: GPTQ, AWQ, compressed-tensors, bitsandbytes' 8 bits.
//
// All of them say `w = s · (q - z)` with one s and z per group, which is affine, `w = s · q + b` with `b = -z · s`. Their
// words are turned into MLX's (WeightMatrix.swift) when a model is opened; scales and biases are kept in float32, in
// which the product of a half-precision scale and a zero point is exact. Layouts that are MLX's words already stay in the
// file. So nothing is lost.

import Compute
import JSON

/// What config.json says of a layout.
struct ForeignLayout: Sendable, Equatable {
  enum Method: Sendable, Equatable {
    /// Zero points are stored less one, or as they are; whether all of them are the middle of the range.
    case gptq(lessOne: Bool, symmetric: Bool)
    /// Rows of inputs in an order of eight of their own, or rows of outputs in plain order.
    case awq(byInputs: Bool)
    case compressed(symmetric: Bool)
    case bitsandbytes
  }

  let method: Method
  /// Where modules do not say it themselves.
  let bits: Int
  /// Inputs per scale; nil for a whole row.
  let groupSize: Int?

  /// - Returns: nil for a method, or an option of it, that has no reader here.
  init?(_ config: JSONObject) {
    let bits = (config["bits"] ?? config["w_bit"])?.intValue ?? 4
    let size = (config["group_size"] ?? config["q_group_size"])?.intValue ?? 128
    // Beyond any row it is the whole row.
    groupSize = (1...1 << 30).contains(size) ? size : nil
    self.bits = bits
    let symmetric = config["sym"]?.boolValue ?? true
    switch config["quant_method"]?.stringValue {
    case "gptq":
      let format = (config["checkpoint_format"] ?? config["format"])?.stringValue ?? "gptq"
      guard ["gptq", "gptq_v2"].contains(format), config["is_marlin_format"]?.boolValue != true,
        [2, 3, 4, 8].contains(bits)
      else { return nil }
      method = .gptq(lessOne: format == "gptq", symmetric: symmetric)
    case "auto-round":
      guard [2, 3, 4, 8].contains(bits), let packing = config["packing_format"]?.stringValue else {
        return nil
      }
      switch packing {
      case "auto_round:auto_gptq", "auto_gptq": method = .gptq(lessOne: true, symmetric: symmetric)
      case "auto_round", "auto_round:exllamav2", "auto_round:tritonv2":
        method = .gptq(lessOne: false, symmetric: symmetric)
      case "auto_round:auto_awq", "auto_awq", "auto_round:awq": method = .awq(byInputs: true)
      default: return nil
      }
    case "awq":
      let version = (config["version"] ?? config["format"])?.stringValue ?? "gemm"
      guard ["gemm", "gemv"].contains(version), bits == 4 else { return nil }
      method = .awq(byInputs: version == "gemm")
    case "compressed-tensors":
      let groups = config["config_groups"]?.objectValue?.entries.map(\.value) ?? []
      let formats = [config["format"]] + groups.map { $0["format"] }
      guard
        formats.compactMap({ $0?.stringValue }).allSatisfy({
          ["pack-quantized", "int-quantized", "mxfp4-pack-quantized", "mixed-precision", "dense"].contains($0)
        })
      else { return nil }
      method = .compressed(symmetric: groups.allSatisfy { $0["weights"]?["symmetric"]?.boolValue ?? true })
    case "bitsandbytes":
      guard config["load_in_8bit"]?.boolValue == true else { return nil }
      method = .bitsandbytes
    default: return nil
    }
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
    guard rows > 0, columns > 0, columns % 32 == 0, groupSize > 0,
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

  /// Puts an element of 2, 4 or 8 bits.
  mutating func put(row: Int, column: Int, _ value: UInt32) {
    words[row * rowWords + column * bits / 32] |= value << UInt32(column * bits % 32)
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
