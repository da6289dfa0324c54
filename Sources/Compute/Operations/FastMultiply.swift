// The fast mode of matrix products: activations are quantized once per product and shared by all its tiles.

import KernelTypes

/// Quantized activations of the running product, and the kernels that take them. Tiles read addresses alone: to count a
/// buffer's owners for each of them would be a cache line that all threads write.
struct QuantizedInput {
  /// The context's: to copy all functions of the table for each tile takes 1 % of a decode step.
  fileprivate let kernels: UnsafePointer<Int8Kernels>
  /// The addresses of the rows in each form that the weights need, else 0.
  fileprivate var bases = SIMD8<UInt>.zero
  /// Bytes of a row in these forms.
  fileprivate var rowBytes = SIMD8<Int>.zero
  /// The row that belongs to x's first.
  var first = 0
  /// What the rows have lost before they were quantized; nil for whole ones.
  var outliers: Outliers?
}

extension Int8Kernels {
  /// Bytes of a quantized row; nil where weights that need this form are multiplied exactly.
  fileprivate func rowBytes(_ columns: Int, _ layout: Int8Layout) -> Int? {
    layout.isWide ? wide?.rowBytes(columns) : rowBytes(columns, layout.block)
  }

  fileprivate func quantize(
    _ x: UnsafePointer<Float>, _ columns: Int, _ layout: Int8Layout, into out: UnsafeMutableRawPointer
  ) {
    guard layout.isWide else { return quantize(x, columns, layout.block, layout.order, out) }
    wide?.quantize(x, columns, out)
  }
}

extension ComputeContext {
  /// Quantizes x into every form that `weights` needs; nil in exact mode.
  ///
  /// - Parameter outliers: takes the outliers of the rows, which are quantized without them.
  func quantize(
    _ x: Rows, for weights: WeightStack, sparing outliers: Outliers? = nil
  ) -> QuantizedInput? {
    guard let kernels = fastKernels else { return nil }
    let int8 = kernels.pointee
    var quantized = QuantizedInput(kernels: kernels)
    for part in weights.parts {
      guard let layout = part.layout, quantized.bases[layout.index] == 0,
        let rowBytes = int8.rowBytes(x.columns, layout)
      else { continue }
      let isDoubled = doubles(layout)
      let count = isDoubled ? 2 * x.count : x.count
      let base = UnsafeMutableRawPointer(int8Rows[layout.index].floats(count * rowBytes / 4))
      quantized.bases[layout.index] = UInt(bitPattern: base)
      quantized.rowBytes[layout.index] = rowBytes
      guard !isDoubled else {
        quantizeTwice(x, layout, int8, into: base, rowBytes: rowBytes)
        continue
      }
      forEachRow(x.count, work: 4 * x.columns) { range in
        guard let outliers else {
          for r in range {
            int8.quantize(x.row(r), x.columns, layout, into: base + r * rowBytes)
          }
          return
        }
        withUnsafeTemporaryAllocation(of: Float.self, capacity: x.columns) { row in
          guard let rest = row.baseAddress else { return }
          for r in range {
            self.kernels.splitOutliers(x.row(r), x.columns, rest, outliers.list(r))
            int8.quantize(rest, x.columns, layout, into: base + r * rowBytes)
          }
        }
      }
    }
    quantized.outliers = outliers?.indexed()
    return quantized
  }

  /// The tile of outputs `rows` in the fast mode.
  ///
  /// - Returns: false when the weights have no integer kernel: the exact kernels take them.
  func multiplyInt8(
    _ part: WeightStack.Part, rows: Range<Int>, x quantized: QuantizedInput, xRows: Int, into y: Output,
    _ scratch: Scratch
  ) -> Bool {
    guard let layout = part.layout,
      let base = UnsafeRawPointer(bitPattern: quantized.bases[layout.index])
    else { return false }
    let int8 = quantized.kernels
    let rowBytes = quantized.rowBytes[layout.index]
    let x = Int8Activations(base: base + quantized.first * rowBytes, rowBytes: rowBytes, count: xRows)
    let panels = part.panels(of: rows)
    // Of blocks that are in panels the form alone is needed.
    let (matrix, source) =
      panels == nil
      ? part.matrix.readable(rows, exactly: false, scratch.aside) : (part.matrix.outline, rows)
    switch matrix {
    case .dense, .blocks: return false
    case .floating(let all):
      guard let panels, let multiply = int8.pointee.interleaved?.floating?.multiply else {
        int8.pointee.multiplyFloating(all.rows(source), x, y)
        break
      }
      multiply(
        FloatingPanelRows(
          base: panels, mode: all.mode, columns: all.columns, count: rows.count,
          aheadBytes: part.aheadBytes(after: rows)), x, y)
    case .affine(let all):
      if let panels, let shape = part.matrix.panelShape, let multiply = int8.pointee.interleaved?.multiply {
        let weights = PanelRows(
          base: panels, shape: shape, count: rows.count, aheadBytes: part.aheadBytes(after: rows))
        let room = scratch.floats(int8.pointee.panelBytes(all.columns, layout.block) / 4)
        multiply(weights, x, y, UnsafeMutableRawPointer(room))
      } else if xRows < Panel.worthwhileRows {
        int8.pointee.multiply(all.rows(source), x, y)
      } else {
        multiplyPanels(all, rows: source, x, into: y, layout, int8.pointee, scratch)
      }
    }
    return true
  }

  /// Rows of weights by panels that are made for this product alone.
  private func multiplyPanels(
    _ all: QuantizedRows, rows: Range<Int>, _ x: Int8Activations, into y: Output, _ layout: Int8Layout,
    _ int8: Int8Kernels, _ scratch: Scratch
  ) {
    var y = y
    for start in stride(from: rows.lowerBound, to: rows.upperBound, by: Panel.width) {
      let end = min(start + Panel.width, rows.upperBound)
      let whole = wholeRows(all.rows(start..<end), layout, int8, scratch)
      // A thread's next tile begins where this one ends.
      let aheadRows = all.bits == layout.bits ? min(Panel.width, all.count - end) : 0
      int8.multiplyPanel(whole.rows, x, y, PanelScratch(base: whole.scratch, aheadRows: aheadRows))
      y.base += Panel.width
    }
  }

  /// Rows of at most one panel as nibbles or bytes, in place or rewritten after the scratch of the panel kernels.
  func wholeRows(
    _ weights: QuantizedRows, _ layout: Int8Layout, _ int8: Int8Kernels, _ scratch: Scratch
  ) -> (rows: QuantizedRows, scratch: UnsafeMutableRawPointer) {
    let panelFloats = int8.panelBytes(weights.columns, layout.block) / 4
    guard weights.bits != layout.bits else {
      return (weights, UnsafeMutableRawPointer(scratch.floats(panelFloats)))
    }
    var whole = weights
    whole.bits = layout.bits
    whole.rowBytes = weights.columns * layout.bits / 8
    let room = UnsafeMutableRawPointer(scratch.floats(panelFloats + Panel.width * whole.rowBytes / 4))
    let repacked = room + 4 * panelFloats
    int8.repack(weights.packed, weights.bits, weights.count * weights.columns, repacked)
    whole.packed = UnsafeRawPointer(repacked)
    return (whole, room)
  }
}
