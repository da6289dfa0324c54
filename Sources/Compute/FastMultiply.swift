// The fast mode of matrix products: activations are quantized once per product and shared by all its tiles.

extension ComputeContext {
  /// Quantizes x into every form that `weights` needs. Nothing in exact mode.
  func quantize(_ x: Rows, for weights: WeightStack) {
    guard let int8 = activeInt8 else { return }
    var done = 0
    for part in weights.parts {
      guard let layout = Int8Layout(part.matrix), done & 1 << layout.index == 0 else { continue }
      done |= 1 << layout.index
      let rowBytes = int8.rowBytes(x.columns, layout.block)
      let base = UnsafeMutableRawPointer(int8Rows[layout.index].floats(x.count * rowBytes / 4))
      forEachRow(x.count, work: 4 * x.columns) { range in
        for r in range {
          int8.quantize(x.row(r), x.columns, layout.block, layout.evenOdd, base + r * rowBytes)
        }
      }
    }
  }

  /// The tile of outputs `rows` in the fast mode, for the quantized activations from row `first` on.
  ///
  /// - Returns: false when the weights have no integer kernel: the exact kernels take them.
  func multiplyInt8(
    _ matrix: WeightMatrix, rows: Range<Int>, xRows: Int, from first: Int,
    target: UnsafeMutablePointer<Float>,
    yStride: Int, scratch: ScratchBuffer
  ) -> Bool {
    guard let int8 = activeInt8, let layout = Int8Layout(matrix), case .quantized(let packed) = matrix else {
      return false
    }
    let rowBytes = int8.rowBytes(packed.columns, layout.block)
    let quantized = int8Rows[layout.index].floats((first + xRows) * rowBytes / 4)
    let x = UnsafeRawPointer(quantized) + first * rowBytes
    // Building a panel costs about as much as four rows by the row kernel.
    let step = xRows <= 4 ? rows.count : 16
    let panel = UnsafeMutableRawPointer(scratch.floats(int8.panelBytes(packed.columns, layout.block) / 4))
    for first in stride(from: rows.lowerBound, to: rows.upperBound, by: step) {
      let count = min(step, rows.upperBound - first)
      let w = packed.packed + first * packed.rowBytes
      let (scales, biases) = (
        packed.scales + first * packed.scaleRowBytes, packed.biases + first * packed.scaleRowBytes
      )
      let out = target + (first - rows.lowerBound)
      if xRows <= 4 {
        int8.multiply(
          w, packed.rowBytes, scales, biases, packed.scaleRowBytes, packed.scaleFormat, packed.bits,
          packed.groupSize, count, x, rowBytes, xRows, packed.columns, out, yStride)
      } else {
        int8.multiplyPanel(
          w, packed.rowBytes, scales, biases, packed.scaleRowBytes, packed.scaleFormat, packed.bits,
          packed.groupSize, count, x, rowBytes, xRows, packed.columns, out, yStride, panel)
      }
    }
    return true
  }
}
