// Recurrences whose state is a matrix per head: the gated delta rule (arXiv:2412.06464), and the state space duality of
// Mamba 2 (arXiv:2405.21060), in which there is nothing to correct. S is `[values, keys]`, g the logarithm of the decay:
//
//     u = β (v - e^g S k)   or   u = v             what the state lacks of the value, or the value
//     S = e^g S + u kᵀ
//     o = S q
//
// Computed in chunks of 32 positions whose borders are those of blocks, 0, 32, 64, ... S is the state at the last
// border, and G_t the sum of g from there to t:
//
//     u_t = β_t (v_t - e^G_t S k_t - Σ_{j<t} e^(G_t - G_j) (k_t · k_j) u_j)
//     o_t = e^G_t S q_t + Σ_{j<=t} e^(G_t - G_j) (q_t · k_j) u_j
//     S' = e^G_31 S + Σ_j e^(G_31 - G_j) u_j k_jᵀ
//
// So a position needs the state at the border and the k, u and G of the positions since, and changes neither: a step of
// one row reads the state and writes nothing back, one of many rows is products of matrices, and both do the same
// arithmetic in the same order. The cache holds k, u and G beside the state (`StateCache.recent`). No exponent is
// positive, so that nothing overflows.

import KernelTypes

/// Sizes and rule of one layer's recurrence.
package struct RecurrenceShape: Sendable, Equatable {
  /// Heads of values, each with a state.
  package var heads: Int
  /// Heads of keys and queries, a divisor of `heads`: neighbouring heads of values share one, or every `keyHeads`-th.
  package var keyHeads: Int
  package var keyDim: Int
  package var valueDim: Int
  /// Each element of a key has a decay of its own (`ChannelRecurrence`); then every head has keys of its own.
  package var decaysChannels: Bool
  /// Whether a head of values has another head of keys than the one before it.
  package var alternatesKeys: Bool

  package init(
    heads: Int, keyHeads: Int, keyDim: Int, valueDim: Int, decaysChannels: Bool = false,
    alternatesKeys: Bool = false
  ) {
    (self.heads, self.keyHeads, self.keyDim) = (heads, keyHeads, keyDim)
    (self.valueDim, self.decaysChannels, self.alternatesKeys) = (valueDim, decaysChannels, alternatesKeys)
  }

  /// The head of keys that a head of values has.
  func keyHead(of head: Int) -> Int { alternatesKeys ? head % keyHeads : head / (heads / keyHeads) }

  /// Decays of a row.
  package var decayCount: Int { decaysChannels ? heads * keyDim : heads }

  /// Heads that a tile computes, with one copy of their keys: few enough that all threads have some.
  var tileHeads: Int {
    let shared = alternatesKeys ? 1 : heads / max(1, keyHeads)
    return (1...8).last { shared % $0 == 0 } ?? 1
  }
  fileprivate var tiles: Int { heads / tileHeads }
  /// Floats that a tile keeps of a position: a key, and a value and a decay of each head. The decays of channels are kept
  /// once, as what is left of the last border.
  var tileChannels: Int {
    keyDim + tileHeads * (valueDim + 1) + (decaysChannels ? (keyDim + blockTokens - 1) / blockTokens : 0)
  }

  /// What a sequence keeps of a layer with this recurrence.
  package func state(convolutionRows: Int, convolutionChannels: Int) -> StateShape {
    StateShape(
      convolutionRows: convolutionRows, convolutionChannels: convolutionChannels, heads: heads,
      keyDim: keyDim,
      valueDim: valueDim, recentChannels: tiles * tileChannels)
  }
}

/// What goes into a recurrence, row by row.
package struct RecurrenceInput {
  /// `[rows, keyHeads · keyDim]`.
  package var queries: Rows
  package var keys: Rows
  /// `[rows, heads · valueDim]`.
  package var values: Rows
  /// The logarithms of the decays, none of them positive, `[rows, heads]`, or `[rows, heads · keyDim]` of channels.
  package var decays: Rows
  /// β of the delta rule, `[rows, heads]`; nil where values are added as they are.
  package var corrections: Rows?

  package init(queries: Rows, keys: Rows, values: Rows, decays: Rows, corrections: Rows? = nil) {
    (self.queries, self.keys, self.values) = (queries, keys, values)
    (self.decays, self.corrections) = (decays, corrections)
  }
}

extension ComputeContext {
  /// Takes the states of a layer through the rows of the step, each span from where the last step left its sequence.
  /// Scalar twin: `Reference.recur`.
  ///
  /// - Parameters:
  ///   - layer: counted over the recurrent layers.
  ///   - out: `[rows, heads · valueDim]`; may be the values.
  package func recur(
    _ input: RecurrenceInput, shape: RecurrenceShape, layer: Int, of states: StateCache,
    at layout: StepLayout, into out: Rows
  ) {
    let kept = states.shape[layer]
    let (keyWidth, valueWidth) = (shape.keyHeads * shape.keyDim, shape.heads * shape.valueDim)
    precondition(
      input.queries.columns == keyWidth && input.keys.columns == keyWidth
        && input.values.columns == valueWidth
        && out.columns == valueWidth && input.decays.columns == shape.decayCount
        && input.corrections.map { $0.columns == shape.heads } ?? !shape.decaysChannels
        && (!shape.decaysChannels || shape.heads == shape.keyHeads)
        && kept
          == shape.state(
            convolutionRows: kept.convolutionRows, convolutionChannels: kept.convolutionChannels),
      "recurrence: shapes differ")
    precondition(
      [input.queries, input.keys, input.values, input.decays, out].allSatisfy { $0.count == layout.rows },
      "recurrence: rows differ")
    let tiles = shape.tiles
    pool.run(tiles: layout.spans.count * tiles) { index, worker in
      let span = layout.spans[index / tiles]
      guard let slot = span.slot else { return }
      let tile = RecurrenceTile(
        index % tiles, shape, recent: states.recent(layer, of: slot).base,
        state: states.state(layer, of: slot).base, workerScratch[worker])
      var row = 0
      while row < span.count {
        let first = (span.start + row) % blockTokens
        let count = min(blockTokens - first, span.count - row)
        let rows = span.row + row..<span.row + row + count
        if shape.decaysChannels {
          advanceChannels(tile, input, rows: rows, from: first, into: out)
        } else {
          advance(tile, input, rows: rows, from: first, into: out)
        }
        row += count
      }
    }
  }

  /// Some rows of one chunk.
  ///
  /// - Parameter first: positions of the chunk before them.
  private func advance(
    _ tile: RecurrenceTile, _ input: RecurrenceInput, rows: Range<Int>, from first: Int, into out: Rows
  ) {
    let (shape, count, keyDim) = (tile.shape, rows.count, tile.shape.keyDim)
    let column = tile.keyHead * keyDim
    // Queries, and below them the keys where they are to be compared with the state, so that the state is read once.
    for (t, row) in rows.enumerated() {
      let key = input.keys.row(row) + column
      (tile.keys + (first + t) * keyDim).update(from: key, count: keyDim)
      (tile.sides + t * keyDim).update(from: input.queries.row(row) + column, count: keyDim)
      if input.corrections != nil { (tile.sides + (count + t) * keyDim).update(from: key, count: keyDim) }
    }
    let sides = Activations(
      base: tile.sides, stride: keyDim, count: input.corrections == nil ? count : 2 * count)
    kernels.multiply(
      tile.matrix(tile.keys, rows: first + count, columns: keyDim), sides,
      Output(base: tile.products, stride: blockTokens))
    for head in 0..<shape.tileHeads {
      let state = tile.state(head)
      kernels.multiply(
        tile.matrix(state, rows: shape.valueDim, columns: keyDim), sides,
        Output(base: tile.carried, stride: shape.valueDim))
      for (t, row) in rows.enumerated() {
        advance(tile, head, input, row: row, t, of: count, position: first + t, into: out)
      }
      if first + count == blockTokens { fold(tile, head, into: state) }
    }
  }

  /// One position of one head.
  ///
  /// - Parameter t: its place among the `count` rows.
  private func advance(
    _ tile: RecurrenceTile, _ head: Int, _ input: RecurrenceInput, row: Int, _ t: Int, of count: Int,
    position: Int, into out: Rows
  ) {
    let (valueDim, global) = (tile.shape.valueDim, tile.firstHead + head)
    let (values, sums) = (tile.values(head), tile.decays(head))
    sums[position] = (position == 0 ? 0 : sums[position - 1]) + input.decays.row(row)[global]
    tile.weigh(sums, position)
    let carried = tile.factors[position]
    let added = values + position * valueDim
    added.update(from: input.values.row(row) + global * valueDim, count: valueDim)
    if let corrections = input.corrections {
      let strength = corrections.row(row)[global]
      let known = tile.carried + (count + t) * valueDim
      kernels.scale(-strength * carried, valueDim, known)
      kernels.scale(strength, valueDim, added)
      kernels.add(known, valueDim, added)
      tile.weights(tile.products + (count + t) * blockTokens, -strength)
      kernels.accumulate(
        tile.rows(added, seen: 0..<position), FloatBlock(base: values, headDim: valueDim))
    }
    let result = tile.carried + t * valueDim
    kernels.scale(carried, valueDim, result)
    tile.weights(tile.products + t * blockTokens, 1)
    kernels.accumulate(
      tile.rows(result, seen: 0..<position + 1), FloatBlock(base: values, headDim: valueDim))
    (out.row(row) + global * valueDim).update(from: result, count: valueDim)
  }

  /// The chunk is full: the state becomes that at its end. The factors are those of the last position.
  private func fold(_ tile: RecurrenceTile, _ head: Int, into state: UnsafeMutablePointer<Float>) {
    let (valueDim, values) = (tile.shape.valueDim, tile.values(head))
    for j in 0..<blockTokens {
      let value = values + j * valueDim
      for d in 0..<valueDim { tile.transposed[d * blockTokens + j] = tile.shares[j] * value[d] }
    }
    tile.folding.update(repeating: tile.factors[blockTokens - 1], count: valueDim)
    kernels.accumulate(
      tile.folded(state), FloatBlock(base: tile.keys, headDim: tile.shape.keyDim))
  }
}

/// The heads of one tile: what the cache holds of them, and scratch memory of the worker.
struct RecurrenceTile {
  let shape: RecurrenceShape
  let firstHead: Int
  let keyHead: Int
  /// The chunk's keys, `[32][keyDim]`.
  let keys: UnsafeMutablePointer<Float>
  /// Of each head the chunk's `[32][valueDim]` values and `[32]` decays.
  private let recent: UnsafeMutablePointer<Float>
  /// `[tileHeads][valueDim][keyDim]`.
  private let states: UnsafeMutablePointer<Float>
  /// Queries and keys of the new rows, `[64][keyDim]`, and their products with the chunk's keys, `[64][32]`.
  let sides, products: UnsafeMutablePointer<Float>
  /// The products of queries and keys with the state, `[64][valueDim]`.
  let carried: UnsafeMutablePointer<Float>
  /// What is left of each position of the chunk at the current one: e^(G_t - G_j), `[32]`.
  let shares: UnsafeMutablePointer<Float>
  /// What is left of the chunk's beginning at each position: e^G_t, `[32]`.
  let factors: UnsafeMutablePointer<Float>
  /// `[32]` weights of one sum, and the factor of what it adds to, which is 1.
  private let weights, one: UnsafeMutablePointer<Float>
  /// `[valueDim][32]`, and `[valueDim]` factors.
  let transposed, folding: UnsafeMutablePointer<Float>
  /// Decays of the channels at one position, `[keyDim]`.
  let channels: UnsafeMutablePointer<Float>

  init(
    _ index: Int, _ shape: RecurrenceShape, recent: UnsafeMutablePointer<Float>,
    state: UnsafeMutablePointer<Float>, _ scratch: Scratch
  ) {
    let (keyDim, valueDim, heads) = (shape.keyDim, shape.valueDim, shape.tileHeads)
    self.shape = shape
    firstHead = index * heads
    keyHead = shape.keyHead(of: firstHead)
    keys = recent + index * blockTokens * shape.tileChannels
    self.recent = keys + blockTokens * keyDim
    states = state + firstHead * valueDim * keyDim
    let (pairs, chunk) = (2 * blockTokens, blockTokens)
    sides = scratch.floats(
      pairs * (keyDim + chunk + valueDim) + 3 * chunk + 16 + valueDim * (chunk + 1) + keyDim)
    products = sides + pairs * keyDim
    carried = products + pairs * chunk
    shares = carried + pairs * valueDim
    factors = shares + chunk
    weights = factors + chunk
    one = weights + chunk
    transposed = one + 16
    folding = transposed + valueDim * chunk
    channels = folding + valueDim
    one[0] = 1
  }

  func state(_ head: Int) -> UnsafeMutablePointer<Float> { states + head * shape.valueDim * shape.keyDim }

  func values(_ head: Int) -> UnsafeMutablePointer<Float> {
    recent + head * blockTokens * (shape.valueDim + 1)
  }

  func decays(_ head: Int) -> UnsafeMutablePointer<Float> {
    values(head) + blockTokens * shape.valueDim
  }

  /// What is left of the state at the last border in each channel, `[keyDim]`.
  var left: UnsafeMutablePointer<Float> { decays(0) + blockTokens }

  func matrix(_ base: UnsafeMutablePointer<Float>, rows: Int, columns: Int) -> FloatRows {
    FloatRows(base: base, rowBytes: columns * 4, format: .f32, count: rows, columns: columns)
  }

  /// Finds the shares and the factor of a position. Shares of later positions mean nothing.
  func weigh(_ sums: UnsafeMutablePointer<Float>, _ position: Int) {
    let here = Portable.Lanes(repeating: sums[position])
    for j in stride(from: 0, to: position + 1, by: Portable.lanes) {
      Portable.store(exponential(here - Portable.load(sums, j)), shares, j)
    }
    factors[position] = exponential(here)[0]
  }

  /// The weights of the chunk's positions in a sum: products with its keys, which have decayed themselves.
  func weights(ofDecayed products: UnsafeMutablePointer<Float>, _ factor: Float) {
    for j in 0..<blockTokens { weights[j] = products[j] * factor }
  }

  /// The weights of the chunk's positions in a sum: products with its keys, by their shares.
  func weights(_ products: UnsafeMutablePointer<Float>, _ factor: Float) {
    for j in stride(from: 0, to: blockTokens, by: Portable.lanes) {
      // Swift 6.2 takes only one product of lanes and a number in an expression.
      let shared: Portable.Lanes = Portable.load(products, j) * Portable.load(shares, j)
      Portable.store(shared * factor, weights, j)
    }
  }

  /// A sum of the chunk's values by the weights, added to `sum`.
  func rows(_ sum: UnsafeMutablePointer<Float>, seen: Range<Int>) -> AttentionRows {
    AttentionRows(
      count: 1, seen: seen, scores: weights, states: one, factors: one, weightScales: one, sums: sum)
  }

  /// The rows of a state, to which the chunk's keys are added.
  func folded(_ state: UnsafeMutablePointer<Float>) -> AttentionRows {
    AttentionRows(
      count: shape.valueDim, seen: 0..<blockTokens, scores: transposed, states: one, factors: folding,
      weightScales: one, sums: state)
  }
}
