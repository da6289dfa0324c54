// What adapters add to products: `y += factor · up · (down · x)` for some rows of a step.
//
// The exact x is read in the fast mode too: the pairs are a few hundredths of the weights, and what they say is small.
// An element of the result depends on its row of x and on the pairs, in one order of sums, whatever else is in the step.

import KernelTypes

extension ComputeContext {
  /// The pairs of an adapter for the maps of stacks that lie side by side in the output.
  ///
  /// - Parameters:
  ///   - stacks: with the order of their inputs, as `WeightTensors.order`.
  ///   - pairs: for each part of each stack in turn; nil for one that the adapter leaves as it is.
  /// - Returns: nil where there are none.
  /// - Throws: `unsupportedWeights` for tensors of another type than floats.
  package func makeLowRank(
    _ stacks: [(weights: WeightStack, order: [Int32]?)], _ pairs: [LowRankTensors?]
  ) throws(ComputeError) -> LowRankStack? {
    var pieces: [LowRankStack.Piece] = []
    var (index, start) = (0, 0)
    for (weights, order) in stacks {
      for part in weights.parts {
        defer { index += 1 }
        guard index < pairs.count, let tensors = pairs[index] else { continue }
        precondition(tensors.columns == weights.columns, "low rank: shapes differ")
        var piece = LowRankStack.Piece(
          tensors: tensors, start: start + part.start, rows: part.matrix.rows,
          factor: tensors.factor * part.factor)
        if tensors.magnitude != nil {
          piece.scales = scales(of: part, order: order, tensors)
          piece.bias = part.bias
        }
        pieces.append(piece)
      }
      start += weights.rows
    }
    return pieces.isEmpty ? nil : try LowRankStack(pieces, keeping: stacks.map(\.weights))
  }

  /// DoRA's factor of each output: its length over that of the row of `W + Δ`.
  private func scales(
    of part: WeightStack.Part, order: [Int32]?, _ tensors: LowRankTensors
  ) -> [Float] {
    var scales = [Float](repeating: 1, count: part.matrix.rows)
    scales.withUnsafeMutableBufferPointer { scales in
      forEachSum(part.matrix, 0..<part.matrix.rows, order: order, tensors) { index, row in
        scales[index] = Float(Self.scale(row, tensors, output: index))
      }
    }
    return scales
  }

  private static func scale(
    _ row: UnsafeMutablePointer<Float>, _ tensors: LowRankTensors, output: Int
  ) -> Double {
    var squares = 0.0
    for column in 0..<tensors.columns { squares += Double(row[column]) * Double(row[column]) }
    return Double(tensors.magnitude(output)) / max(squares.squareRoot(), 1e-30)
  }

  /// Calls `body` with rows of `W + Δ`, in the order of the weights' own inputs, on all threads.
  private func forEachSum(
    _ matrix: WeightMatrix, _ range: Range<Int>, order: [Int32]?, _ tensors: LowRankTensors,
    _ body: (_ index: Int, _ row: UnsafeMutablePointer<Float>) -> Void
  ) {
    let (columns, rank) = (tensors.columns, tensors.rank)
    guard let downFormat = tensors.down.dtype.floatFormat, let downBase = tensors.down.bytes.baseAddress,
      let upFormat = tensors.up.dtype.floatFormat, let upBase = tensors.up.bytes.baseAddress
    else { return }
    var down = [Float](repeating: 0, count: rank * columns)
    for k in 0..<rank {
      for column in 0..<columns {
        // Where the weights have their inputs in another order, so has this.
        let input = order.map { Int($0[column]) } ?? column
        down[k * columns + column] = Reference.element(downBase, downFormat, tensors.downIndex(k, input))
      }
    }
    let step = 16
    down.withUnsafeBufferPointer { down in
      pool.run(tiles: (range.count + step - 1) / step) { tile, worker in
        let row = workerScratch[worker].floats(ScratchBuffer.stride(columns))
        for index in tile * step..<min((tile + 1) * step, range.count) {
          let output = range.lowerBound + index
          let (source, rows) = matrix.readable(
            output..<output + 1, exactly: true, workerScratch[worker].aside)
          unpack(source, rows: rows, into: Output(base: row, stride: columns))
          for k in 0..<rank {
            let weight = tensors.factor * Reference.element(upBase, upFormat, tensors.upIndex(index, k))
            let line = k * columns
            for column in 0..<columns { row[column] += weight * down[line + column] }
          }
          body(index, row)
        }
      }
    }
  }

  /// Some rows of a matrix with what an adapter adds to them, as floats.
  ///
  /// - Parameters:
  ///   - range: of the matrix; the first of them is the pair's first output.
  /// - Throws: `unsupportedWeights` for layouts without kernels.
  package func merged(
    _ tensors: WeightTensors, rows range: Range<Int>, _ pairs: LowRankTensors
  ) throws(ComputeError) -> WeightTensors {
    let matrix = try WeightMatrix(tensors)
    let columns = tensors.columns
    var floats = [Float](repeating: 0, count: range.count * columns)
    floats.withUnsafeMutableBufferPointer { floats in
      forEachSum(matrix, range, order: tensors.order, pairs) { index, row in
        let scale = pairs.magnitude == nil ? 1 : Float(Self.scale(row, pairs, output: index))
        for column in 0..<columns {
          let input = tensors.order.map { Int($0[column]) } ?? column
          floats[index * columns + input] = scale * tensors.factor * row[column]
        }
      }
    }
    return WeightTensors(
      dense: TensorView(name: tensors.weight.name, shape: [range.count, columns], floats: floats))
  }

  /// Adds to the results of a product what the adapter adds.
  ///
  /// - Parameters:
  ///   - x: what the product has read, `[n, columns]`.
  ///   - y: its results, `[n, rows of all maps]`.
  ///   - strength: a factor of all that is added; 1 but for adapters that are to act less.
  package func add(_ pairs: LowRankStack, of x: Rows, strength: Float = 1, to y: Rows) {
    precondition(x.columns == pairs.columns && x.count == y.count, "low rank: shapes differ")
    guard x.count > 0 else { return }
    let inner = lowRankRows.rows(x.count, pairs.ranks + blockTokens)
    multiply(x, byDownOf: pairs, into: inner)
    for part in pairs.parts {
      let factor = part.factor * strength
      for r in 0..<x.count { kernels.scale(factor, part.rank, inner.row(r) + part.first) }
    }
    pairs.parts.withUnsafeBufferPointer { parts in
      let tiles = parts.reduce(0) { $0 + Self.stretches(of: $1) }
      let shares = Self.shares(of: x.count, besides: tiles, threads: pool.threads)
      pool.run(tiles: tiles * shares) { index, worker in
        var (tile, share, part) = (index / shares, index % shares, 0)
        while tile >= Self.stretches(of: parts[part]) {
          (tile, part) = (tile - Self.stretches(of: parts[part]), part + 1)
        }
        addStretch(
          tile, of: parts[part], pairs.format, inner,
          x.count * share / shares..<x.count * (share + 1) / shares, to: y, workerScratch[worker])
      }
    }
  }

  private static func stretches(of part: LowRankStack.Part) -> Int {
    (part.rows + LowRankStack.stretch - 1) / LowRankStack.stretch
  }

  /// `inner = x · downᵀ`, in tiles of few rows: there are not many.
  private func multiply(_ x: Rows, byDownOf pairs: LowRankStack, into inner: Rows) {
    let tileRows = 8
    let tiles = (pairs.ranks + tileRows - 1) / tileRows
    let shares = Self.shares(of: x.count, besides: tiles, threads: pool.threads)
    pool.run(tiles: tiles * shares) { index, worker in
      let (tile, share) = (index / shares, index % shares)
      let first = x.count * share / shares
      let count = x.count * (share + 1) / shares - first
      let rows = tile * tileRows..<min((tile + 1) * tileRows, pairs.ranks)
      let part = inner.rows(from: first, count: count)
      multiplyReadable(
        .dense(pairs.down), rows: rows, x.rows(from: first, count: count).activations,
        into: Output(base: part.base + rows.lowerBound, stride: part.stride), workerScratch[worker])
    }
  }

  /// The outputs of one stretch of a part for some rows.
  private func addStretch(
    _ index: Int, of part: LowRankStack.Part, _ format: FloatFormat, _ inner: Rows, _ rows: Range<Int>,
    to y: Rows, _ scratch: Scratch
  ) {
    let first = index * LowRankStack.stretch
    let width = min(LowRankStack.stretch, part.rows - first)
    let stored = part.up + format.bytes * part.rank * first
    let up: UnsafePointer<Float>
    if format == .f32 {
      up = stored.assumingMemoryBound(to: Float.self)
    } else {
      let floats = scratch.floats(part.rank * width)
      kernels.widen(stored, format, part.rank * width, floats)
      up = UnsafePointer(floats)
    }
    // Of factors and states the kernel reads the factors alone.
    let together = 4
    let room = together * (1 + blockTokens + LowRankStack.stretch)
    withUnsafeTemporaryAllocation(of: Float.self, capacity: room) { room in
      guard let ones = room.baseAddress else { return }
      room.initialize(repeating: 1)
      let (weights, sums) = (ones + together, ones + together * (1 + blockTokens))
      var r = rows.lowerBound
      while r < rows.upperBound {
        let count = rows.upperBound - r >= together ? together : 1
        for i in 0..<count {
          (sums + i * width).update(from: y.row(r + i) + part.start + first, count: width)
        }
        for k in stride(from: 0, to: part.rank, by: blockTokens) {
          let ranks = min(blockTokens, part.rank - k)
          for i in 0..<count {
            (weights + i * blockTokens).update(from: inner.row(r + i) + part.first + k, count: ranks)
          }
          kernels.accumulate(
            AttentionRows(
              count: count, seen: 0..<ranks, scores: weights, states: ones, factors: ones,
              weightScales: ones, sums: sums),
            FloatBlock(base: up + k * width, headDim: width))
        }
        for i in 0..<count {
          let out = y.row(r + i) + part.start + first
          out.update(from: sums + i * width, count: width)
          guard let scales = part.scales else { continue }
          for o in 0..<width {
            let bias = part.bias.map { $0[first + o] } ?? 0
            out[o] = scales[first + o] * (out[o] - bias) + bias
          }
        }
        r += count
      }
    }
  }

  /// Adds to rows of a table, which were looked up, what the adapter adds to them.
  package func add(_ pairs: LowRankStack, ofTableRows ids: ArraySlice<Int32>, strength: Float = 1, to y: Rows)
  {
    guard let part = pairs.parts.first, ids.count == y.count, y.count > 0 else { return }
    precondition(y.columns == pairs.columns, "low rank: shapes differ")
    let inner = lowRankRows.rows(y.count, part.rank + blockTokens)
    let size = pairs.format.bytes
    let line = workerScratch[0].floats(ScratchBuffer.stride(pairs.columns))
    for (r, id) in ids.enumerated() {
      precondition(id >= 0 && Int(id) < part.rows, "low rank: index out of range")
      let first = Int(id) / LowRankStack.stretch * LowRankStack.stretch
      let width = min(LowRankStack.stretch, part.rows - first)
      let weights = inner.row(r)
      for k in 0..<part.rank {
        let place = part.rank * first + k * width + Int(id) - first
        weights[k] = part.factor * strength * Reference.element(part.up, pairs.format, place)
        let source = pairs.down.rows(k..<k + 1).base
        if size == 4 {
          UnsafeMutableRawPointer(line).copyMemory(from: source, byteCount: 4 * pairs.columns)
        } else {
          kernels.widen(source, pairs.format, pairs.columns, line)
        }
        let out = y.row(r)
        for c in 0..<pairs.columns { out[c] += weights[k] * line[c] }
      }
    }
  }

  /// Adds to rows of experts what adapters add, row by row: there are few of an expert and an adapter together.
  ///
  /// - Parameters:
  ///   - x: the rows in the order of `routing`'s slots, and y the results of a product with them.
  ///   - pairs: of an expert, for a row of the step; nil where none.
  func add(
    _ x: Rows, _ routing: ExpertRouting, to y: Rows,
    _ pairs: (_ row: Int, _ expert: Int) -> (pairs: LowRankStack, strength: Float)?
  ) {
    pool.run(tiles: routing.slots.count) { index, worker in
      guard let (pairs, strength) = pairs(index / routing.perRow, routing.experts[index]) else { return }
      let (scratch, slot) = (workerScratch[worker], routing.slots[index])
      let inner = scratch.aside.rows(1, pairs.ranks + blockTokens)
      multiplyReadable(
        .dense(pairs.down), rows: 0..<pairs.ranks, x.rows(from: slot, count: 1).activations,
        into: Output(base: inner.base, stride: inner.stride), scratch)
      for part in pairs.parts {
        kernels.scale(part.factor * strength, part.rank, inner.base + part.first)
        for stretch in 0..<Self.stretches(of: part) {
          addStretch(
            stretch, of: part, pairs.format, inner, 0..<1, to: y.rows(from: slot, count: 1), scratch)
        }
      }
    }
  }
}

/// What an adapter adds to the experts of a layer.
package final class LowRankExperts {
  /// By expert, for `[gate | up]` and for the way back.
  let up, down: [LowRankStack?]

  init(up: [LowRankStack?], down: [LowRankStack?]) { (self.up, self.down) = (up, down) }

  package var byteCount: Int { (up + down).reduce(0) { $0 + ($1?.byteCount ?? 0) } }
}

extension ComputeContext {
  /// The pairs of an adapter for the experts of a layer.
  ///
  /// - Parameters: pairs by expert, each nil or empty where the adapter has none of that map.
  /// - Throws: `unsupportedWeights` for tensors of another type than floats, and for maps that are one in the file.
  package func makeLowRank(
    _ stack: ExpertStack, gates: [LowRankTensors?], ups: [LowRankTensors?], downs: [LowRankTensors?]
  ) throws(ComputeError) -> LowRankExperts {
    var (inner, outer): ([LowRankStack?], [LowRankStack?]) = ([], [])
    for expert in 0..<stack.count {
      let (gate, up) = (gates.element(expert), ups.element(expert))
      // Where the file has gate and up as one map, each has half of its outputs.
      let width = stack.up[expert].rows / (stack.activation.isGated ? 2 : 1)
      var pieces: [LowRankStack.Piece] = []
      let starts = stack.activation.isGated ? [(gate, 0), (up, width)] : [(up, 0)]
      for (pair, start) in starts {
        guard let pair else { continue }
        pieces.append(.init(tensors: pair, start: start, rows: width, factor: pair.factor))
      }
      inner.append(pieces.isEmpty ? nil : try LowRankStack(pieces, keeping: []))
      outer.append(
        try downs.element(expert).map { pair throws(ComputeError) in
          try LowRankStack(
            [.init(tensors: pair, start: 0, rows: stack.hidden, factor: pair.factor)], keeping: [])
        })
    }
    return LowRankExperts(up: inner, down: outer)
  }
}

extension [LowRankTensors?] {
  fileprivate func element(_ index: Int) -> LowRankTensors? { index < count ? self[index] : nil }
}
