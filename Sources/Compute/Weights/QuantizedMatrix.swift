// A matrix in one of MLX's quantized formats, read in place from the checkpoint.
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
//
// The floating modes pack tiny floats the same way and have one byte of scale per group and no bias,
// w = scale · element (OCP Microscaling Formats 1.0):
//
//   mxfp4  E2M1 elements, groups of 32, E8M0 scales     nvfp4  E2M1, groups of 16, E4M3 scales
//   mxfp8  E4M3 elements, groups of 32, E8M0 scales

import KernelTypes

/// `[rows, columns]` weights in groups; `WeightStack` keeps the bytes. Nothing guarantees any alignment of the tensors.
struct QuantizedMatrix {
  static let supportedBits = [2, 3, 4, 5, 6, 8]
  static let supportedGroupSizes = [32, 64, 128]

  let rows: Int
  let columns: Int
  let mode: Quantization.Mode
  let bits: Int
  let groupSize: Int
  /// Of scales and biases alike; unused in the floating modes.
  let scaleFormat: FloatFormat
  let rowBytes: Int
  let scaleRowBytes: Int
  let packed: UnsafeRawPointer
  let scales: UnsafeRawPointer
  /// Affine only; elsewhere as `scales`.
  let biases: UnsafeRawPointer

  /// - Throws: `unsupportedWeights` for modes, widths and groups without kernels, and when sizes disagree.
  init(_ tensors: WeightTensors, _ quantization: Quantization) throws(ComputeError) {
    let name = tensors.weight.name
    guard Self.isSupported(quantization) else {
      throw .unsupportedWeights(
        tensor: name,
        reason: "quantization mode \(quantization.mode.rawValue), \(quantization.bits) bits, "
          + "group size \(quantization.groupSize)",
        supported: "affine with 2, 3, 4, 5, 6 or 8 bits and group size 32, 64 or 128, "
          + "mxfp4, mxfp8 and nvfp4")
    }
    let isAffine = quantization.mode == .affine
    let biases = isAffine ? tensors.biases : tensors.scales
    guard let scales = tensors.scales, let biases, scales.dtype == biases.dtype,
      let format = isAffine ? scales.dtype.floatFormat : scales.dtype == .u8 ? .f32 : nil
    else {
      throw .unsupportedWeights(
        tensor: name,
        reason: "scales of dtype \(tensors.scales?.dtype.rawValue ?? "none"), "
          + "biases of dtype \(tensors.biases?.dtype.rawValue ?? "none")",
        supported: "scales and biases of the same dtype F32, F16 or BF16; scales of U8 in the floating modes")
    }
    mode = quantization.mode
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
    // Groups of 16 make half a unit of 32 elements possible, always with 4 bits.
    rowBytes = columns * bits / 8
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
  }

  /// Some rows as the kernels of affine weights take them.
  func operand(_ rows: Range<Int>) -> QuantizedRows {
    let groups = Groups(
      scales: scales, biases: biases, rowBytes: scaleRowBytes, format: scaleFormat, size: groupSize)
    let all = QuantizedRows(
      packed: packed, rowBytes: rowBytes, bits: bits, groups: groups, count: self.rows, columns: columns)
    return all.rows(from: rows.lowerBound, count: rows.count)
  }

  /// Some rows as the kernels of a floating mode take them.
  func operand(_ rows: Range<Int>, in mode: FloatingMode) -> FloatingRows {
    let all = FloatingRows(
      packed: packed, rowBytes: rowBytes, scales: scales, scaleRowBytes: scaleRowBytes, mode: mode,
      count: self.rows, columns: columns)
    return all.rows(from: rows.lowerBound, count: rows.count)
  }

  /// Affine weights in panels.
  var panelShape: PanelShape {
    PanelShape(bits: bits, groupSize: groupSize, scaleFormat: scaleFormat, columns: columns)
  }

  private static func isSupported(_ quantization: Quantization) -> Bool {
    switch (quantization.mode, quantization.bits, quantization.groupSize) {
    case (.affine, let bits, let size): supportedBits.contains(bits) && supportedGroupSizes.contains(size)
    case (.mxfp4, 4, 32), (.mxfp8, 8, 32), (.nvfp4, 4, 16): true
    default: false
    }
  }
}
