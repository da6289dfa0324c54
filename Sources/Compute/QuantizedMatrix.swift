// A matrix in MLX's affine quantization, read in place from the checkpoint.
//
// Groups of 32, 64 or 128 consecutive inputs of a row share a scale and a bias: w = scale · q + bias, with q
// unsigned in 0 ..< 2^bits. Scales are negative about half of the time. A row is one little-endian bit stream,
// lowest bit first; element i occupies the bits i·bits ..< (i+1)·bits:
//
//   4 bits   byte 0: |q1 q1 q1 q1 q0 q0 q0 q0|   byte 1: |q3 .. q2 ..|            8 elements per 32-bit word
//   8 bits   byte i: |qi|
//   2 bits   byte 0: |q3 q3 q2 q2 q1 q1 q0 q0|
//   3 bits   byte 0: |q2 q2 q1 q1 q1 q0 q0 q0|   byte 1: |q5 q4 q4 q4 q3 q3 q3 q2|   8 elements in 3 bytes
//   5 bits   8 elements are one 40-bit integer;   6 bits   4 elements are one 24-bit integer
//
// 32 elements fill exactly `bits` words, so a group is a whole number of words. Checkpoint tensors:
//
//   weight  U32 [rows, columns·bits/32]     scales, biases  f32|f16|bf16 [rows, columns/groupSize]

/// `[rows, columns]` weights in groups. Nothing guarantees any alignment of the tensors.
package struct QuantizedMatrix {
  package static let supportedBits = [2, 3, 4, 5, 6, 8]
  package static let supportedGroupSizes = [32, 64, 128]

  package let rows: Int
  package let columns: Int
  package let bits: Int
  package let groupSize: Int
  /// A code of `FloatFormat`, of scales and biases alike.
  let scaleFormat: Int
  let rowBytes: Int
  let scaleRowBytes: Int
  let packed: UnsafeRawPointer
  let scales: UnsafeRawPointer
  let biases: UnsafeRawPointer
  private let owners: (AnyObject, AnyObject, AnyObject)

  /// - Throws: `unsupportedWeights` for modes, widths and groups without kernels, and when sizes disagree.
  package init(_ tensors: WeightTensors, _ quantization: Quantization) throws(ComputeError) {
    let name = tensors.weight.name
    guard quantization.mode == .affine, Self.supportedBits.contains(quantization.bits),
      Self.supportedGroupSizes.contains(quantization.groupSize)
    else {
      throw .unsupportedWeights(
        tensor: name,
        reason: "quantization mode \(quantization.mode.rawValue), \(quantization.bits) bits, "
          + "group size \(quantization.groupSize)",
        supported: "mode affine with 2, 3, 4, 5, 6 or 8 bits and group size 32, 64 or 128")
    }
    guard let scales = tensors.scales, let biases = tensors.biases, scales.dtype == biases.dtype,
      let format = FloatFormat.code(of: scales.dtype)
    else {
      throw .unsupportedWeights(
        tensor: name,
        reason: "scales of dtype \(tensors.scales?.dtype.rawValue ?? "none"), "
          + "biases of dtype \(tensors.biases?.dtype.rawValue ?? "none")",
        supported: "scales and biases of the same dtype F32, F16 or BF16")
    }
    rows = tensors.rows
    columns = tensors.columns
    bits = quantization.bits
    groupSize = quantization.groupSize
    scaleFormat = format
    guard rows > 0, columns > 0, columns % groupSize == 0 else {
      throw .unsupportedWeights(
        tensor: name, reason: "shape [\(rows), \(columns)] in groups of \(groupSize)",
        supported: "columns that are a multiple of the group size")
    }
    rowBytes = columns / 32 * bits * 4
    scaleRowBytes = columns / groupSize * scales.dtype.size
    guard tensors.weight.bytes.count == rows * rowBytes, scales.bytes.count == rows * scaleRowBytes,
      biases.bytes.count == rows * scaleRowBytes, let packed = tensors.weight.bytes.baseAddress,
      let scaleBase = scales.bytes.baseAddress, let biasBase = biases.bytes.baseAddress
    else {
      throw .unsupportedWeights(
        tensor: name,
        reason: "\(tensors.weight.bytes.count) bytes of weights, \(scales.bytes.count) of scales and "
          + "\(biases.bytes.count) of biases for shape [\(rows), \(columns)]",
        supported: "\(rows * rowBytes) and twice \(rows * scaleRowBytes) bytes")
    }
    self.packed = packed
    self.scales = scaleBase
    self.biases = biasBase
    owners = (tensors.weight.owner, scales.owner, biases.owner)
  }
}
