// Products of activations with stacked weights, in parallel over tiles of output rows.
//
// Few rows of x (decode): weights are read once at full width, unpacked in registers where a fused kernel
// exists. Many rows (prefill): a tile of weight rows is unpacked once into a buffer that fits the
// second-level cache and is multiplied with all rows of x. Both give the same bits, because a kernel's output
// element depends on nothing but its own row of weights and its own row of x.

import KernelTypes

extension ComputeContext {
  /// `y = x · weightsᵀ + bias`: x `[n, columns]`, y `[n, rows]`, float32.
  ///
  /// - Parameter exactly: float32 activations in the fast mode too: for results that decide something.
  package func multiply(_ x: Rows, by weights: WeightStack, into y: Rows, exactly: Bool = false) {
    precondition(
      x.columns == weights.columns && y.columns == weights.rows && x.count == y.count,
      "multiply: shapes differ")
    guard x.count > 0 else { return }
    let outliers =
      weights.isAffine && mode == .fast && !exactly
      ? Outliers(outlierPlaces, rows: x.count, columns: x.columns) : nil
    multiply(x, exactly ? nil : quantize(x, for: weights, sparing: outliers), by: weights, into: y)
  }

  /// - Parameter quantized: x for the fast mode's kernels; nil for the exact ones.
  func multiply(_ x: Rows, _ quantized: QuantizedInput?, by weights: WeightStack, into y: Rows) {
    recorder?.add(x, of: weights.names)
    if quantized != nil { interleave(weights, rows: x.count) }
    var tileRows = tileRows(outputs: weights.rows, columns: weights.columns, xRows: x.count)
    if quantized?.outliers != nil, 4 * tileRows >= 3 * OutlierList.outputs {
      // Whole stretches of those outputs to which outliers are added at once.
      tileRows = (tileRows + OutlierList.outputs - 1) / OutlierList.outputs * OutlierList.outputs
    }
    let stretch = tileRows
    let tiles = tiles(of: weights, tileRows: stretch)
    let shares = Self.shares(of: x.count, besides: tiles, threads: pool.threads)
    // Borrowed for all of the fork: tiles count no owners (`QuantizedInput`).
    weights.parts.withUnsafeBufferPointer { parts in
      // The tiles of a decode step have no share of rows to work out.
      guard shares > 1 else {
        pool.run(tiles: tiles) { tile, worker in
          multiplyTile(
            tile, of: parts, tileRows: stretch, x: x, quantized: quantized, y: y, worker: worker)
        }
        return
      }
      pool.run(tiles: tiles * shares) { index, worker in
        let (tile, share) = (index / shares, index % shares)
        let start = x.count * share / shares
        let count = x.count * (share + 1) / shares - start
        var quantized = quantized
        quantized?.first = start
        multiplyTile(
          tile, of: parts, tileRows: stretch, x: x.rows(from: start, count: count), quantized: quantized,
          y: y.rows(from: start, count: count), worker: worker)
      }
    }
  }

  /// Every head by its own weights: `y[r, h] = x[r, h] · weights[h]ᵀ`, with float32 activations in both modes.
  ///
  /// - Parameters:
  ///   - x: heads side by side; the product takes the first elements of each.
  ///   - weights: one stack per head, all of one shape.
  ///   - y: heads side by side; the product fills the first elements of each.
  package func multiplyHeads(_ x: Rows, by weights: [WeightStack], into y: Rows) {
    guard let first = weights.first, x.count > 0 else { return }
    let (xHead, yHead) = (x.columns / weights.count, y.columns / weights.count)
    precondition(
      x.columns == weights.count * xHead && y.columns == weights.count * yHead && x.count == y.count
        && xHead >= first.columns && yHead >= first.rows
        && weights.allSatisfy { $0.columns == first.columns && $0.rows == first.rows },
      "multiply: shapes differ")
    let tileRows = tileRows(
      outputs: weights.count * first.rows, columns: first.columns, xRows: x.count)
    let tiles = tiles(of: first, tileRows: tileRows)
    pool.run(tiles: tiles * weights.count) { index, worker in
      let head = index / tiles
      weights[head].parts.withUnsafeBufferPointer { parts in
        multiplyTile(
          index % tiles, of: parts, tileRows: tileRows,
          x: x.columns(from: head * xHead, count: first.columns), quantized: nil,
          y: y.columns(from: head * yHead, count: first.rows), worker: worker)
      }
    }
  }

  /// Weight rows per tile: enough tiles that threads finish together, and an unpacked tile of at most 512 KiB.
  func tileRows(outputs: Int, columns: Int, xRows: Int) -> Int {
    let fair = outputs / (pool.threads * 8)
    let most = xRows > kernels.fusedRows ? (1 << 17) / max(1, columns) : 256
    return max(Panel.width, min(fair, most, 256) / Panel.width * Panel.width)
  }

  /// In how many shares rows of x are multiplied: one, unless there are so many threads that tiles of weights alone would leave
  /// some without work. A share has rows enough for the panels that are made for it.
  static func shares(of xRows: Int, besides tiles: Int, threads: Int) -> Int {
    let wanted = (2 * threads + tiles - 1) / max(1, tiles)
    return max(1, min(wanted, xRows / rowsPerShare))
  }
  private static let rowsPerShare = 64

  /// Tiles of at most `tileRows` rows; none spans two parts.
  func tiles(of weights: WeightStack, tileRows: Int) -> Int {
    weights.parts.reduce(0) { $0 + ($1.matrix.rows + tileRows - 1) / tileRows }
  }

  /// The outputs of tile `index` of the stack.
  ///
  /// - Parameter quantized: x for the fast mode's kernels; nil for the exact ones.
  func multiplyTile(
    _ index: Int, of parts: UnsafeBufferPointer<WeightStack.Part>, tileRows: Int, x: Rows,
    quantized: QuantizedInput?, y: Rows,
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
    _ part: WeightStack.Part, rows: Range<Int>, x: Rows, quantized: QuantizedInput?, y: Rows,
    worker: Int
  ) {
    let output = Output(base: y.base + part.start + rows.lowerBound, stride: y.stride)
    let scratch = workerScratch[worker]
    if let quantized, let outliers = quantized.outliers {
      return multiply(
        quantized, sparing: outliers, by: part, rows: rows, xRows: x.count, into: output, scratch)
    }
    var isDone = false
    if let quantized, let layout = part.layout {
      isDone =
        doubles(layout)
        ? multiplyTwice(part, rows: rows, x: quantized, xRows: x.count, into: output, scratch)
        : multiplyInt8(part, rows: rows, x: quantized, xRows: x.count, into: output, scratch)
    }
    if !isDone { multiplyExactly(part.matrix, rows: rows, x.activations, into: output, scratch) }
    finish(part, rows: rows, xRows: x.count, output)
  }

  /// What becomes of products: the part's factor and bias.
  func finish(_ part: WeightStack.Part, rows: Range<Int>, xRows: Int, _ y: Output) {
    if part.factor != 1 {
      for r in 0..<xRows { kernels.scale(part.factor, rows.count, y.base + r * y.stride) }
    }
    guard let bias = part.bias else { return }
    for r in 0..<xRows { kernels.add(bias + rows.lowerBound, rows.count, y.base + r * y.stride) }
  }

  /// Bytes of numbers that blocks are turned into at a time, for few rows of x: they are still in the first-level cache.
  private static let blockBytesAtOnce = 1 << 14

  private func multiplyExactly(
    _ matrix: WeightMatrix, rows: Range<Int>, _ x: Activations, into y: Output, _ scratch: Scratch
  ) {
    guard case .blocks(let blocks) = matrix else {
      return multiplyReadable(matrix, rows: rows, x, into: y, scratch)
    }
    let isFew = x.count <= kernels.fusedRows
    let step = isFew ? max(4, Self.blockBytesAtOnce / blocks.columns & ~3) : rows.count
    for start in stride(from: rows.lowerBound, to: rows.upperBound, by: step) {
      let some = start..<min(start + step, rows.upperBound)
      multiplyReadable(
        blocks.readable(some, exactly: true, scratch.aside), rows: 0..<some.count, x,
        into: Output(base: y.base + start - rows.lowerBound, stride: y.stride), scratch)
    }
  }

  /// The outputs of some rows of a matrix that is no blocks.
  func multiplyReadable(
    _ matrix: WeightMatrix, rows: Range<Int>, _ x: Activations, into y: Output, _ scratch: Scratch
  ) {
    let isFused = x.count <= kernels.fusedRows
    switch matrix {
    case .blocks: break
    case .dense(let all) where all.format == .f32: kernels.multiply(all.rows(rows), x, y)
    case .dense(let all):
      if isFused, let fused = kernels.multiplyHalf { return fused(all.rows(rows), x, y) }
      multiplyUnpacked(matrix, rows: rows, x, into: y, scratch)
    case .affine(let all):
      let fused = all.bits == 4 ? kernels.multiply4 : all.bits == 8 ? kernels.multiply8 : nil
      if isFused, let fused { return fused(all.rows(rows), x, y) }
      multiplyUnpacked(matrix, rows: rows, x, into: y, scratch)
    case .floating(let all):
      if isFused, let fused = kernels.multiplyFloating { return fused(all.rows(rows), x, y) }
      multiplyUnpacked(matrix, rows: rows, x, into: y, scratch)
    }
  }

  private func multiplyUnpacked(
    _ matrix: WeightMatrix, rows: Range<Int>, _ x: Activations, into y: Output, _ scratch: Scratch
  ) {
    // Few rows of x: unpack a handful of weight rows at a time, so that they are still in the first-level cache.
    let step = x.count <= 4 ? 4 : rows.count
    let stride = ScratchBuffer.stride(matrix.columns)
    let unpacked = scratch.floats(step * stride)
    var y = y
    for first in Swift.stride(from: rows.lowerBound, to: rows.upperBound, by: step) {
      let count = min(step, rows.upperBound - first)
      unpack(matrix, rows: first..<first + count, into: Output(base: unpacked, stride: stride))
      let weights = FloatRows(
        base: unpacked, rowBytes: stride * 4, format: .f32, count: count, columns: matrix.columns)
      kernels.multiply(weights, x, y)
      y.base += count
    }
  }
}
