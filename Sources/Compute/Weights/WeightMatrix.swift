// One matrix of weights as kernels read it in place from the checkpoint: dense, or in one of MLX's quantized formats. Blocks
// of a GGUF file are turned into one of these first (`BlockRows`).
//
// Dense rows are f32, f16 or bf16. Affine rows:
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
//
// Layouts of other programs have float32 scales, [rows, columns/groupSize] rounded up, for groups of 32, 64, 128, ... or
// for a whole row:
//
//   fp8    E4M3 elements                                table  4 bits, indices of sixteen floats

import KernelTypes

/// `[rows, columns]`: rows are outputs of a linear map, or vocabulary entries of an embedding. Nothing guarantees any
/// alignment. `WeightStack` keeps the bytes: tiles copy this freely, and if a copy counted references, all kernel threads
/// would write to the same counters for each of some thousand tiles of a decode step.
enum WeightMatrix {
  case dense(FloatRows)
  case affine(QuantizedRows)
  case floating(FloatingRows)
  case blocks(BlockRows)

  /// Of affine weights.
  static let supportedBits = [2, 3, 4, 5, 6, 8]
  static let supportedGroupSizes = [32, 64, 128]

  /// - Throws: `unsupportedWeights` for dtypes, modes, widths and groups without kernels, and when sizes disagree.
  init(_ tensors: WeightTensors) throws(ComputeError) {
    if let format = tensors.blocks {
      self = .blocks(try Self.blocks(format, tensors))
      return
    }
    guard let quantization = tensors.quantization else {
      self = .dense(try Self.dense(tensors.weight))
      return
    }
    try Self.check(quantization, of: tensors.weight.name)
    let bytes = try QuantizedBytes(tensors, quantization)
    if let mode = quantization.mode.floating {
      var rows = FloatingRows(
        packed: bytes.packed, rowBytes: bytes.rowBytes, scales: bytes.scales,
        scaleRowBytes: bytes.scaleRowBytes, mode: mode, count: tensors.rows, columns: tensors.columns)
      rows.table = bytes.table
      if mode.hasFloatScales {
        let size = quantization.groupSize
        rows.scaleShift = size >= tensors.columns ? 31 : (size / 32).trailingZeroBitCount
      }
      self = .floating(rows)
    } else {
      let groups = Groups(
        scales: bytes.scales, biases: bytes.biases, rowBytes: bytes.scaleRowBytes, format: bytes.scaleFormat,
        size: quantization.groupSize)
      self = .affine(
        QuantizedRows(
          packed: bytes.packed, rowBytes: bytes.rowBytes, bits: quantization.bits, groups: groups,
          count: tensors.rows, columns: tensors.columns))
    }
  }

  var rows: Int {
    switch self {
    case .dense(let rows): rows.count
    case .affine(let rows): rows.count
    case .floating(let rows): rows.count
    case .blocks(let rows): rows.count
    }
  }

  var columns: Int {
    switch self {
    case .dense(let rows): rows.columns
    case .affine(let rows): rows.columns
    case .floating(let rows): rows.columns
    case .blocks(let rows): rows.columns
    }
  }

  /// Bytes a product with one row of activations reads.
  var byteCount: Int {
    switch self {
    case .dense(let rows): rows.count * rows.rowBytes
    case .affine(let rows): rows.count * (rows.rowBytes + 2 * rows.groups.rowBytes)
    case .floating(let rows): rows.count * (rows.rowBytes + rows.scaleRowBytes)
    case .blocks(let rows): Int(Double(rows.count * rows.columns) * rows.format.panelBits / 8)
    }
  }

  /// Where the first row lies, element by element and with its scales, and the bytes of a row there.
  var places: [(base: UnsafeRawPointer, rowBytes: Int)] {
    switch self {
    case .dense(let rows): [(rows.base, rows.rowBytes)]
    case .affine(let rows):
      [
        (rows.packed, rows.rowBytes), (rows.groups.scales, rows.groups.rowBytes),
        (rows.groups.biases, rows.groups.rowBytes),
      ]
    case .floating(let rows): [(rows.packed, rows.rowBytes), (rows.scales, rows.scaleRowBytes)]
    case .blocks(let rows): [(rows.base, rows.rowBytes)]
    }
  }

  /// As products in integers read it: for questions about its form, where blocks have none of their own.
  var outline: WeightMatrix {
    guard case .blocks(let rows) = self else { return self }
    return rows.outline
  }

  /// The weights in panels, where they are affine.
  var panelShape: PanelShape? {
    switch self {
    case .dense, .floating: nil
    case .affine(let rows): rows.panelShape
    case .blocks(let rows): rows.format.panelShape(rows.columns)
    }
  }

  /// Some rows in a form that kernels read, and which of that matrix's rows they are: blocks are turned into one in `scratch`.
  ///
  /// - Parameter exactly: with the values of the file; else for products in integers.
  func readable(
    _ rows: Range<Int>, exactly: Bool, _ scratch: Scratch
  ) -> (matrix: WeightMatrix, rows: Range<Int>) {
    guard case .blocks(let blocks) = self else { return (self, rows) }
    return (blocks.readable(rows, exactly: exactly, scratch), 0..<rows.count)
  }

  private static func blocks(
    _ format: BlockFormat, _ tensors: WeightTensors
  ) throws(ComputeError) -> BlockRows {
    let (rows, columns) = (tensors.rows, tensors.columns)
    let (size, overflow) = rows.multipliedReportingOverflow(by: columns / format.values * format.bytes)
    guard rows > 0, columns > 0, columns % format.values == 0, columns % 32 == 0, !overflow,
      tensors.weight.bytes.count == size, let base = tensors.weight.bytes.baseAddress,
      tensors.headRows == 0 || tensors.headRows % 2 == 0 && rows % tensors.headRows == 0
    else {
      throw .unsupportedWeights(
        tensor: tensors.weight.name,
        reason: "shape [\(rows), \(columns)] in \(tensors.weight.bytes.count) bytes of \(format.name)",
        supported: "rows of whole blocks, and heads of whole pairs")
    }
    return BlockRows(
      base: base, format: format, count: rows, columns: columns, headRows: tensors.headRows)
  }

  private static func dense(_ tensor: TensorView) throws(ComputeError) -> FloatRows {
    guard let format = tensor.dtype.floatFormat else { throw tensor.unsupportedDType }
    guard tensor.shape.count == 2, let base = tensor.bytes.baseAddress, tensor.bytes.count > 0,
      tensor.bytes.count == tensor.count * tensor.dtype.size
    else {
      throw .unsupportedWeights(
        tensor: tensor.name, reason: "shape \(tensor.shape) with \(tensor.bytes.count) bytes",
        supported: "non-empty matrices")
    }
    return FloatRows(
      base: base, rowBytes: tensor.shape[1] * tensor.dtype.size, format: format, count: tensor.shape[0],
      columns: tensor.shape[1])
  }

  private static func check(_ quantization: Quantization, of name: String) throws(ComputeError) {
    let (bits, size) = (quantization.bits, quantization.groupSize)
    let isSupported =
      quantization.mode.floating.map { bits == $0.bits && takesGroups(size, $0) }
      ?? (supportedBits.contains(bits) && supportedGroupSizes.contains(size))
    guard !isSupported else { return }
    throw .unsupportedWeights(
      tensor: name,
      reason: "quantization mode \(quantization.mode.rawValue), \(bits) bits, group size \(size)",
      supported: "affine with 2, 3, 4, 5, 6 or 8 bits and group size 32, 64 or 128, mxfp4, mxfp8 and nvfp4")
  }
}

/// Whether kernels of a floating mode read scales for groups of this size.
private func takesGroups(_ size: Int, _ mode: FloatingMode) -> Bool {
  guard mode.hasFloatScales else { return size == mode.groupSize }
  return size == .max || (size > 0 && size % 32 == 0 && (size / 32).nonzeroBitCount == 1)
}

/// The bytes of a quantized matrix, found to be as many as its shape needs.
private struct QuantizedBytes {
  let rowBytes: Int
  let scaleRowBytes: Int
  /// Of scales and biases alike; unused in the floating modes.
  let scaleFormat: FloatFormat
  let packed: UnsafeRawPointer
  let scales: UnsafeRawPointer
  /// Affine only; elsewhere as `scales`.
  let biases: UnsafeRawPointer
  /// In the mode `table` alone; elsewhere as `packed`.
  let table: UnsafeRawPointer

  init(_ tensors: WeightTensors, _ quantization: Quantization) throws(ComputeError) {
    let name = tensors.weight.name
    let isAffine = quantization.mode == .affine
    let biases = isAffine ? tensors.biases : tensors.scales
    guard let scales = tensors.scales, let biases, scales.dtype == biases.dtype,
      let format = Self.scaleFormat(quantization.mode, scales.dtype)
    else {
      throw .unsupportedWeights(
        tensor: name,
        reason: "scales of dtype \(tensors.scales?.dtype.rawValue ?? "none"), "
          + "biases of dtype \(tensors.biases?.dtype.rawValue ?? "none")",
        supported:
          "scales and biases of the same dtype F32, F16 or BF16; scales of U8 in the floating modes, "
          + "F32 in fp8 and table")
    }
    let (rows, columns, groupSize) = (tensors.rows, tensors.columns, quantization.groupSize)
    let hasFloatScales = quantization.mode.floating?.hasFloatScales == true
    guard rows > 0, columns > 0, columns % (hasFloatScales ? 32 : groupSize) == 0 else {
      throw .unsupportedWeights(
        tensor: name, reason: "shape [\(rows), \(columns)] in groups of \(groupSize)",
        supported: "columns that are a multiple of the group size")
    }
    // Groups of 16 make half a unit of 32 elements possible, always with 4 bits.
    rowBytes = columns * quantization.bits / 8
    let groups = columns / groupSize + (columns % groupSize == 0 ? 0 : 1)
    scaleRowBytes = groups * scales.dtype.size
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
    let hasTable = quantization.mode == .table
    guard let table = hasTable ? tensors.table?.bytes.baseAddress : packed,
      !hasTable || tensors.table?.bytes.count == 64
    else {
      throw .unsupportedWeights(
        tensor: name, reason: "elements without a table", supported: "a table of 16 floats")
    }
    scaleFormat = format
    self.packed = packed
    self.scales = scaleBase
    self.biases = biasBase
    self.table = table
  }

  /// How the scales of a mode are read; nil for a type that they cannot have.
  private static func scaleFormat(_ mode: Quantization.Mode, _ dtype: DType) -> FloatFormat? {
    guard let floating = mode.floating else { return dtype.floatFormat }
    return dtype == (floating.hasFloatScales ? .f32 : .u8) ? .f32 : nil
  }
}
