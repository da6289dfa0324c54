// Products of activations with stacked weights, in parallel over tiles of output rows.
//
// Few rows of x (decode): weights are read once at full width, unpacked in registers where a fused kernel
// exists. Many rows (prefill): a tile of weight rows is unpacked once into a buffer that fits the
// second-level cache and is multiplied with all rows of x. Both give the same bits, because a kernel's output
// element depends on nothing but its own row of weights and its own row of x.

extension ComputeContext {
  /// `y = x · weightsᵀ + bias`: x `[n, columns]`, y `[n, rows]`, float32.
  ///
  /// - Parameter exactly: float32 activations in the fast mode too: for results that decide something.
  package func multiply(_ x: Rows, by weights: WeightStack, into y: Rows, exactly: Bool = false) {
    precondition(
      x.columns == weights.columns && y.columns == weights.rows && x.count == y.count,
      "multiply: shapes differ")
    guard x.count > 0 else { return }
    let quantized = exactly ? nil : quantize(x, for: weights)
    if quantized != nil { interleave(weights) }
    let tileRows = tileRows(outputs: weights.rows, columns: weights.columns, xRows: x.count)
    // Borrowed for all of the fork: tiles count no owners (`QuantizedRows`).
    weights.parts.withUnsafeBufferPointer { parts in
      pool.run(tiles: tiles(of: weights, tileRows: tileRows)) { tile, worker in
        multiplyTile(
          tile, of: parts, tileRows: tileRows, x: x, quantized: quantized, y: y,
          worker: worker)
      }
    }
  }

  /// Weight rows per tile: enough tiles that threads finish together, and an unpacked tile of at most 512 KiB.
  func tileRows(outputs: Int, columns: Int, xRows: Int) -> Int {
    let fair = outputs / (pool.threads * 8)
    let most = xRows > kernels.fusedRows ? (1 << 17) / max(1, columns) : 256
    return max(Self.panelRows, min(fair, most, 256) / Self.panelRows * Self.panelRows)
  }

  /// Tiles of at most `tileRows` rows; none spans two parts.
  func tiles(of weights: WeightStack, tileRows: Int) -> Int {
    weights.parts.reduce(0) { $0 + ($1.matrix.rows + tileRows - 1) / tileRows }
  }

  /// The outputs of tile `index` of the stack.
  ///
  /// - Parameter quantized: x for the fast mode's kernels; nil for the exact ones.
  func multiplyTile(
    _ index: Int, of parts: UnsafeBufferPointer<WeightStack.Part>, tileRows: Int, x: Rows,
    quantized: QuantizedRows?, y: Rows,
    worker: Int
  ) {
    var index = index
    for part in parts {
      let count = (part.matrix.rows + tileRows - 1) / tileRows
      guard index >= count else {
        let start = index * tileRows
        let rows = start..<min(start + tileRows, part.matrix.rows)
        multiplyTile(
          part, rows: rows, x: x, quantized: quantized, y: y, worker: worker)
        return
      }
      index -= count
    }
  }

  private func multiplyTile(
    _ part: WeightStack.Part, rows: Range<Int>, x: Rows, quantized: QuantizedRows?, y: Rows,
    worker: Int
  ) {
    let target = y.base + part.start + rows.lowerBound
    let isDone = quantized.map { quantized in
      multiplyInt8(
        part, rows: rows, x: quantized, xRows: x.count, target: target, yStride: y.stride,
        worker: worker)
    }
    switch part.matrix {
    case .dense(let matrix):
      multiplyDense(matrix, rows: rows, x: x, target: target, yStride: y.stride, worker: worker)
    case .quantized(let matrix) where isDone != true:
      multiplyQuantized(matrix, rows: rows, x: x, target: target, yStride: y.stride, worker: worker)
    case .quantized: break
    }
    guard let bias = part.bias else { return }
    for r in 0..<x.count { kernels.add(bias + rows.lowerBound, rows.count, target + r * y.stride) }
  }

  private func multiplyDense(
    _ matrix: Matrix, rows: Range<Int>, x: Rows, target: UnsafeMutablePointer<Float>, yStride: Int,
    worker: Int
  ) {
    let source = matrix.base + rows.lowerBound * matrix.rowBytes
    if matrix.format == FloatFormat.f32 {
      kernels.multiply(
        source, matrix.rowBytes, rows.count, x.base, x.stride, x.count, matrix.columns, target, yStride)
    } else if x.count <= kernels.fusedRows, let fused = kernels.multiplyHalf {
      fused(
        source, matrix.rowBytes, matrix.format, rows.count, x.base, x.stride, x.count, matrix.columns, target,
        yStride)
    } else {
      multiplyUnpacked(.dense(matrix), rows: rows, x: x, target: target, yStride: yStride, worker: worker)
    }
  }

  private func multiplyQuantized(
    _ matrix: QuantizedMatrix, rows: Range<Int>, x: Rows, target: UnsafeMutablePointer<Float>, yStride: Int,
    worker: Int
  ) {
    let scales = matrix.scales + rows.lowerBound * matrix.scaleRowBytes
    if x.count <= kernels.fusedRows, let mode = FloatingMode.code(of: matrix.mode),
      let fused = kernels.multiplyFloating
    {
      fused(
        matrix.packed + rows.lowerBound * matrix.rowBytes, matrix.rowBytes, scales, matrix.scaleRowBytes,
        mode,
        rows.count, x.base, x.stride, x.count, matrix.columns, target, yStride)
      return
    }
    let fused = matrix.bits == 4 ? kernels.multiply4 : matrix.bits == 8 ? kernels.multiply8 : nil
    guard x.count <= kernels.fusedRows, matrix.mode == .affine, let fused else {
      multiplyUnpacked(
        .quantized(matrix), rows: rows, x: x, target: target, yStride: yStride, worker: worker)
      return
    }
    fused(
      matrix.packed + rows.lowerBound * matrix.rowBytes, matrix.rowBytes, scales,
      matrix.biases + rows.lowerBound * matrix.scaleRowBytes, matrix.scaleRowBytes, matrix.scaleFormat,
      matrix.groupSize, rows.count,
      x.base, x.stride, x.count, matrix.columns, target, yStride)
  }

  private func multiplyUnpacked(
    _ matrix: WeightStorage, rows: Range<Int>, x: Rows, target: UnsafeMutablePointer<Float>, yStride: Int,
    worker: Int
  ) {
    let columns = matrix.columns
    // Few rows of x: unpack a handful of weight rows at a time, so that they are still in the first-level cache.
    let step = x.count <= 4 ? 4 : rows.count
    let stride = ScratchBuffer.stride(columns)
    let unpacked = workerScratch[worker].floats(step * stride)
    var first = rows.lowerBound
    while first < rows.upperBound {
      let count = min(step, rows.upperBound - first)
      for row in 0..<count { unpack(matrix, row: first + row, into: unpacked + row * stride) }
      kernels.multiply(
        unpacked, stride * 4, count, x.base, x.stride, x.count, columns, target + (first - rows.lowerBound),
        yStride
      )
      first += count
    }
  }
}
