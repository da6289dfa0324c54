// The fast mode of matrix products: activations are quantized once per product and shared by all its tiles.

/// Quantized activations of the running product. Tiles read addresses alone: a buffer's owner more or less for each of
/// them would be a cache line that all threads write.
struct QuantizedRows {
  /// The addresses of the rows in each form that the weights need, else 0.
  fileprivate var bases = SIMD4<UInt>.zero
  /// The row that belongs to x's first.
  var first = 0
}

extension ComputeContext {
  /// Quantizes x into every form that `weights` needs; nil in exact mode.
  func quantize(_ x: Rows, for weights: WeightStack) -> QuantizedRows? {
    guard let int8 = activeInt8 else { return nil }
    var quantized = QuantizedRows()
    for part in weights.parts {
      guard let layout = Int8Layout(part.matrix), quantized.bases[layout.index] == 0 else { continue }
      let rowBytes = int8.rowBytes(x.columns, layout.block)
      let base = UnsafeMutableRawPointer(int8Rows[layout.index].floats(x.count * rowBytes / 4))
      quantized.bases[layout.index] = UInt(bitPattern: base)
      forEachRow(x.count, work: 4 * x.columns) { range in
        for r in range {
          int8.quantize(x.row(r), x.columns, layout.block, layout.evenOdd, base + r * rowBytes)
        }
      }
    }
    return quantized
  }

  /// The tile of outputs `rows` in the fast mode.
  ///
  /// - Returns: false when the weights have no integer kernel: the exact kernels take them.
  func multiplyInt8(
    _ part: WeightStack.Part, rows: Range<Int>, x quantized: QuantizedRows, xRows: Int,
    target: UnsafeMutablePointer<Float>, yStride: Int, worker: Int
  ) -> Bool {
    guard let int8 = activeInt8, let layout = Int8Layout(part.matrix),
      case .quantized(let packed) = part.matrix,
      let base = UnsafeRawPointer(bitPattern: quantized.bases[layout.index])
    else { return false }
    let rowBytes = int8.rowBytes(packed.columns, layout.block)
    let x = base + quantized.first * rowBytes
    guard packed.mode == .affine else {
      int8.multiplyFloating(
        packed.packed + rows.lowerBound * packed.rowBytes, packed.rowBytes,
        packed.scales + rows.lowerBound * packed.scaleRowBytes, packed.scaleRowBytes, packed.mode == .nvfp4,
        rows.count, x, rowBytes, xRows, packed.columns, target, yStride)
      return true
    }
    if let panels = part.panels, rows.upperBound <= part.copiedRows, let kernels = int8.interleaved {
      let panelBytes = kernels.panelBytes(packed.columns, packed.bits, packed.groupSize, packed.scaleFormat)
      let scratch = UnsafeMutableRawPointer(
        workerScratch[worker].floats(int8.panelBytes(packed.columns, layout.block) / 4))
      kernels.multiply(
        panels + rows.lowerBound / Self.panelRows * panelBytes, packed.scaleFormat, packed.bits,
        packed.groupSize, rows.count, x, rowBytes, xRows, packed.columns, target, yStride, scratch,
        rows.upperBound < part.copiedRows ? panelBytes : 0)
      return true
    }
    guard xRows >= Int8Kernels.panelRows else {
      int8.multiply(
        packed.packed + rows.lowerBound * packed.rowBytes, packed.rowBytes,
        packed.scales + rows.lowerBound * packed.scaleRowBytes,
        packed.biases + rows.lowerBound * packed.scaleRowBytes, packed.scaleRowBytes, packed.scaleFormat,
        packed.bits, packed.groupSize, rows.count, x, rowBytes, xRows, packed.columns, target, yStride)
      return true
    }
    for start in stride(from: rows.lowerBound, to: rows.upperBound, by: Self.panelRows) {
      let count = min(Self.panelRows, rows.upperBound - start)
      let whole = wholeRows(packed, from: start, count: count, layout, int8, worker: worker)
      // A thread's next tile begins where this one ends.
      let aheadRows = packed.bits == layout.bits ? min(Self.panelRows, packed.rows - start - count) : 0
      int8.multiplyPanel(
        whole.packed, whole.rowBytes, packed.scales + start * packed.scaleRowBytes,
        packed.biases + start * packed.scaleRowBytes, packed.scaleRowBytes, packed.scaleFormat, layout.bits,
        packed.groupSize, count, x, rowBytes, xRows, packed.columns, target + (start - rows.lowerBound),
        yStride, whole.scratch, aheadRows)
    }
    return true
  }

  /// Weight rows of a panel.
  static let panelRows = 16

  /// Rows of at most one panel as nibbles or bytes, in place or rewritten behind the scratch of the worker's panel kernels.
  func wholeRows(
    _ matrix: QuantizedMatrix, from start: Int, count: Int, _ layout: Int8Layout, _ int8: Int8Kernels,
    worker: Int
  ) -> (packed: UnsafeRawPointer, rowBytes: Int, scratch: UnsafeMutableRawPointer) {
    let packed = matrix.packed + start * matrix.rowBytes
    let panelFloats = int8.panelBytes(matrix.columns, layout.block) / 4
    guard matrix.bits != layout.bits else {
      return (packed, matrix.rowBytes, UnsafeMutableRawPointer(workerScratch[worker].floats(panelFloats)))
    }
    let rowBytes = matrix.columns * layout.bits / 8
    let scratch = UnsafeMutableRawPointer(
      workerScratch[worker].floats(panelFloats + Self.panelRows * rowBytes / 4))
    let repacked = scratch + 4 * panelFloats
    int8.repack(packed, matrix.bits, count * matrix.columns, repacked)
    return (UnsafeRawPointer(repacked), rowBytes, scratch)
  }
}
