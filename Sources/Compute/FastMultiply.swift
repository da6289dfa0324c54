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
    _ matrix: WeightStorage, rows: Range<Int>, xRows: Int, from first: Int,
    target: UnsafeMutablePointer<Float>, yStride: Int, scratch: ScratchBuffer
  ) -> Bool {
    guard let int8 = activeInt8, let layout = Int8Layout(matrix), case .quantized(let packed) = matrix else {
      return false
    }
    let rowBytes = int8.rowBytes(packed.columns, layout.block)
    let quantized = int8Rows[layout.index].floats((first + xRows) * rowBytes / 4)
    let x = UnsafeRawPointer(quantized) + first * rowBytes
    guard packed.mode == .affine else {
      int8.multiplyFloating(
        packed.packed + rows.lowerBound * packed.rowBytes, packed.rowBytes,
        packed.scales + rows.lowerBound * packed.scaleRowBytes, packed.scaleRowBytes, packed.mode == .nvfp4,
        rows.count, x, rowBytes, xRows, packed.columns, target, yStride)
      return true
    }
    let isPanel = xRows >= Int8Kernels.panelRows
    let isRepacked = isPanel && packed.bits != layout.bits
    let rowSize = isRepacked ? packed.columns * layout.bits / 8 : packed.rowBytes
    let step = isPanel ? 16 : rows.count
    let panelFloats = isPanel ? int8.panelBytes(packed.columns, layout.block) / 4 : 0
    let panel = UnsafeMutableRawPointer(scratch.floats(panelFloats + (isRepacked ? step * rowSize / 4 : 0)))
    let repacked = panel + 4 * panelFloats
    for start in stride(from: rows.lowerBound, to: rows.upperBound, by: step) {
      let count = min(step, rows.upperBound - start)
      var w = packed.packed + start * packed.rowBytes
      if isRepacked {
        int8.repack(w, packed.bits, count * packed.columns, repacked)
        w = UnsafeRawPointer(repacked)
      }
      let (scales, biases) = (
        packed.scales + start * packed.scaleRowBytes, packed.biases + start * packed.scaleRowBytes
      )
      let out = target + (start - rows.lowerBound)
      if isPanel {
        // A thread's next tile begins where this one ends.
        let aheadRows = isRepacked ? 0 : min(step, packed.rows - start - count)
        int8.multiplyPanel(
          w, rowSize, scales, biases, packed.scaleRowBytes, packed.scaleFormat, layout.bits, packed.groupSize,
          count, x, rowBytes, xRows, packed.columns, out, yStride, panel, aheadRows)
      } else {
        int8.multiply(
          w, rowSize, scales, biases, packed.scaleRowBytes, packed.scaleFormat, packed.bits, packed.groupSize,
          count, x, rowBytes, xRows, packed.columns, out, yStride)
      }
    }
    return true
  }
}
