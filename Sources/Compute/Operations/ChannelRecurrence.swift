// The delta rule with a decay for each element of a key (Kimi Delta Attention, arXiv:2510.26692), in the same chunks as
// `LinearRecurrence`. a is the decay of a position, ∘ goes element by element, and A_t is the product of the a since the
// last border:
//
//     S = S ∘ a          u = β (v - S k)          S = S + u kᵀ          o = S q
//
// The keys of a chunk decay as it goes on, k̃_j = k_j ∘ a_{j+1} ∘ ... ∘ a_t, so that no exponent grows and there is one
// exponential for each element of a row, not for each pair of rows:
//
//     u_t = β_t (v_t - S (k_t ∘ A_t) - Σ_{j<t} (k_t · k̃_j) u_j)
//     o_t = S (q_t ∘ A_t) + Σ_{j<=t} (q_t · k̃_j) u_j
//     S' = S ∘ A_31 + Σ_j u_j k̃_jᵀ

import KernelTypes

extension ComputeContext {
  /// Some rows of one chunk of one head. Scalar twin: `Reference.recur`.
  ///
  /// - Parameter first: positions of the chunk before them.
  func advanceChannels(
    _ tile: RecurrenceTile, _ input: RecurrenceInput, rows: Range<Int>, from first: Int, into out: Rows
  ) {
    let (shape, count, keyDim) = (tile.shape, rows.count, tile.shape.keyDim)
    let column = tile.keyHead * keyDim
    if first == 0 { tile.left.update(repeating: 1, count: keyDim) }
    // Queries and below them keys, by what is left of the state for them: so it is read once for all rows.
    for (t, row) in rows.enumerated() {
      tile.findDecays(input.decays.row(row) + column)
      Self.multiply(tile.left, by: tile.channels, keyDim)
      for (place, source) in [(t, input.queries), (count + t, input.keys)] {
        let side = tile.sides + place * keyDim
        side.update(from: source.row(row) + column, count: keyDim)
        Self.multiply(side, by: tile.left, keyDim)
      }
    }
    let state = tile.state(0)
    kernels.multiply(
      tile.matrix(state, rows: shape.valueDim, columns: keyDim),
      Activations(base: tile.sides, stride: keyDim, count: 2 * count),
      Output(base: tile.carried, stride: shape.valueDim))
    for (t, row) in rows.enumerated() {
      advanceChannels(tile, input, row: row, t, of: count, position: first + t, into: out)
    }
    if first + count == blockTokens { foldChannels(tile, into: state) }
  }

  /// One position.
  ///
  /// - Parameter t: its place among the `count` rows.
  private func advanceChannels(
    _ tile: RecurrenceTile, _ input: RecurrenceInput, row: Int, _ t: Int, of count: Int, position: Int,
    into out: Rows
  ) {
    let (keyDim, valueDim, head) = (tile.shape.keyDim, tile.shape.valueDim, tile.firstHead)
    let column = tile.keyHead * keyDim
    tile.findDecays(input.decays.row(row) + column)
    for j in 0..<position { Self.multiply(tile.keys + j * keyDim, by: tile.channels, keyDim) }
    (tile.keys + position * keyDim).update(from: input.keys.row(row) + column, count: keyDim)
    // The row's query and key themselves: their distance is that of their rows in different buffers.
    let keys = tile.matrix(tile.keys, rows: position + 1, columns: keyDim)
    for (place, source) in [(0, input.queries), (1, input.keys)] {
      kernels.multiply(
        keys, Activations(base: source.row(row) + column, stride: keyDim, count: 1),
        Output(base: tile.products + place * blockTokens, stride: blockTokens))
    }

    let values = tile.values(0)
    let (added, known) = (values + position * valueDim, tile.carried + (count + t) * valueDim)
    let strength = input.corrections?.row(row)[head] ?? 1
    added.update(from: input.values.row(row) + head * valueDim, count: valueDim)
    kernels.scale(strength, valueDim, added)
    kernels.scale(-strength, valueDim, known)
    kernels.add(known, valueDim, added)
    tile.weights(ofDecayed: tile.products + blockTokens, -strength)
    kernels.accumulate(tile.rows(added, seen: 0..<position), FloatBlock(base: values, headDim: valueDim))

    let result = tile.carried + t * valueDim
    tile.weights(ofDecayed: tile.products, 1)
    kernels.accumulate(
      tile.rows(result, seen: 0..<position + 1), FloatBlock(base: values, headDim: valueDim))
    (out.row(row) + head * valueDim).update(from: result, count: valueDim)
  }

  /// The chunk is full: the state becomes that at its end.
  private func foldChannels(_ tile: RecurrenceTile, into state: UnsafeMutablePointer<Float>) {
    let (keyDim, valueDim, values) = (tile.shape.keyDim, tile.shape.valueDim, tile.values(0))
    for d in 0..<valueDim {
      Self.multiply(state + d * keyDim, by: tile.left, keyDim)
      for j in 0..<blockTokens { tile.transposed[d * blockTokens + j] = values[j * valueDim + d] }
    }
    tile.folding.update(repeating: 1, count: valueDim)
    kernels.accumulate(tile.folded(state), FloatBlock(base: tile.keys, headDim: keyDim))
  }
}

extension RecurrenceTile {
  /// The decays of a position from their logarithms.
  fileprivate func findDecays(_ logarithms: UnsafePointer<Float>) {
    let count = shape.keyDim
    var c = 0
    while c + Portable.lanes <= count {
      Portable.store(exponential(Portable.load(logarithms, c)), channels, c)
      c += Portable.lanes
    }
    let rest = exponential(Portable.loadTail(logarithms, c, count - c))
    for lane in 0..<count - c { channels[c + lane] = rest[lane] }
  }
}
