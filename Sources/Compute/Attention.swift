// Causal attention over the paged cache, with grouped queries, an optional sliding window, and groups of positions
// (the patches of an image) that see each other in both directions.
//
// Each query row walks the blocks of its own sequence in order, at the cache's fixed absolute boundaries, and
// folds them into a running softmax (arXiv:2205.14135): maximum, sum, and one weighted sum of values. There is
// no n² buffer, and what a row computes depends on its position only, not on how its prompt was chunked.

/// Sizes of one layer's attention.
package struct AttentionShape: Sendable {
  package var heads: Int
  package var kvHeads: Int
  package var headDim: Int
  /// Multiplies scores before the softmax, usually headDim^-0.5.
  package var scale: Float
  /// Key j is visible to query i iff j <= i and i - j < window; nil for all j <= i. Within a group of the layout
  /// later keys are visible too.
  package var window: Int?
  /// Whether the layer looks at the layout's groups; without, every key has to be earlier.
  package var seesGroups: Bool

  package init(
    heads: Int, kvHeads: Int, headDim: Int, scale: Float, window: Int? = nil, seesGroups: Bool = true
  ) {
    self.heads = heads
    self.kvHeads = kvHeads
    self.headDim = headDim
    self.scale = scale
    self.window = window
    self.seesGroups = seesGroups
  }
}

extension ComputeContext {
  /// Writes the step's keys and values into their cache positions.
  ///
  /// - Parameters:
  ///   - keys, values: `[rows, kvHeads · headDim]`; keys already normalised and rotated.
  package func store(keys: Rows, values: Rows, layer: Int, of cache: KVCache, at layout: StepLayout) {
    let storage = cache.layer(layer)
    let (heads, size) = (storage.kvHeads, storage.headDim)
    precondition(keys.columns == heads * size && values.columns == heads * size, "store: shapes differ")
    for span in layout.spans {
      forEachRow(span.count, work: 4 * heads * size) { range in
        for r in range {
          let position = span.start + r
          let block = Int(layout.blocks[span.table + position / KVCache.blockTokens])
          for head in 0..<heads {
            store(
              key: keys.row(span.row + r) + head * size, value: values.row(span.row + r) + head * size,
              slot: position % KVCache.blockTokens, block: block, head: head, of: storage)
          }
        }
      }
    }
  }

  private func store(
    key: UnsafePointer<Float>, value: UnsafePointer<Float>, slot: Int, block: Int, head: Int,
    of storage: KVLayer
  ) {
    let (size, tokens) = (storage.headDim, KVCache.blockTokens)
    let (keys, values) = (storage.keys(block: block, head: head), storage.values(block: block, head: head))
    switch storage.format {
    case .f32:
      let column = keys.assumingMemoryBound(to: Float.self) + slot
      for d in 0..<size { column[d * tokens] = key[d] }
      (values.assumingMemoryBound(to: Float.self) + slot * size).update(from: value, count: size)
    case .f16:
      let column = keys.assumingMemoryBound(to: UInt16.self) + slot
      withUnsafeTemporaryAllocation(of: UInt16.self, capacity: size) { row in
        guard let halves = row.baseAddress else { return }
        kernels.narrow(key, size, halves)
        for d in 0..<size { column[d * tokens] = halves[d] }
      }
      kernels.narrow(value, size, values.assumingMemoryBound(to: UInt16.self) + slot * size)
    case .q8:
      let scales = storage.scales(block: block, head: head)
      let column = keys.assumingMemoryBound(to: Int8.self) + slot
      withUnsafeTemporaryAllocation(of: Int8.self, capacity: size) { row in
        guard let bytes = row.baseAddress else { return }
        scales[slot] = Portable.quantizeHead(key, size, bytes)
        for d in 0..<size { column[d * tokens] = bytes[d] }
      }
      let row = values.assumingMemoryBound(to: Int8.self) + slot * size
      scales[tokens + slot] = Portable.quantizeHead(value, size, row)
    }
  }

  /// `out[row, head] = softmax(scale · q k) v` over the keys visible to each row.
  ///
  /// - Parameters:
  ///   - queries: `[rows, heads · headDim]`, rotated.
  ///   - out: `[rows, heads · headDim]`.
  package func attend(
    _ queries: Rows, shape: AttentionShape, layer: Int, of cache: KVCache, at layout: StepLayout,
    into out: Rows
  ) {
    let storage = cache.layer(layer)
    precondition(
      shape.kvHeads == storage.kvHeads && shape.headDim == storage.headDim
        && queries.columns == shape.heads * shape.headDim && out.columns == queries.columns
        && shape.heads % shape.kvHeads == 0,
      "attend: shapes differ")
    let group = shape.heads / shape.kvHeads
    layout.prepareTiles(of: max(1, 32 / group))
    let tiles = layout.tiles.count
    pool.run(tiles: tiles * shape.kvHeads) { index, worker in
      // Neighbouring indices are the heads of one tile: they read neighbouring cache memory.
      let head = index % shape.kvHeads
      attendTile(
        layout.tiles[index / shape.kvHeads], head: head, group: group, shape: shape, queries: queries,
        storage: storage, layout: layout, out: out, scratch: workerScratch[worker])
    }
  }

  private func attendTile(
    _ tile: StepLayout.Tile, head: Int, group: Int, shape: AttentionShape, queries: Rows, storage: KVLayer,
    layout: StepLayout, out: Rows, scratch: ScratchBuffer
  ) {
    let size = shape.headDim
    let rows = tile.count * group
    let span = layout.spans[tile.span]
    let groups = shape.seesGroups ? span.groups : []
    let tokens = KVCache.blockTokens
    // Layout: scaled queries and weighted sums [rows][size], scores [rows][32], (maximum, sum) per row, and keys or
    // values of one block as float32.
    let q = scratch.floats(rows * (2 * size + tokens + 2) + tokens * size)
    let sums = q + rows * size
    let scores = sums + rows * size
    let states = scores + rows * tokens
    let widened = states + rows * 2
    for r in 0..<rows {
      let source = queries.row(span.row + tile.first + r / group) + (head * group + r % group) * size
      (q + r * size).update(from: source, count: size)
      kernels.scale(shape.scale, size, q + r * size)
      (sums + r * size).update(repeating: 0, count: size)
      states[2 * r] = -.infinity
      states[2 * r + 1] = 0
    }

    if tile.count == 1, size % 32 == 0, let stored = storedAttention(storage.format) {
      let factors = widened
      walkStored(
        stored, position: span.start + tile.first,
        lastVisible: Self.lastVisible(from: span.start + tile.first, groups), rows: rows, shape: shape,
        head: head,
        storage: storage,
        blocks: layout.blocks[span.table...], q: q, sums: sums, scores: scores, states: states,
        factors: factors)
      finish(rows: rows, group: group, head: head, size: size, tile, span.row, sums, states, out)
      return
    }
    let firstPosition = span.start + tile.first
    var lastPosition = firstPosition + tile.count - 1
    for group in groups where group.overlaps(firstPosition..<lastPosition + 1) {
      lastPosition = max(lastPosition, group.upperBound - 1)
    }
    let firstVisible = shape.window.map { max(0, firstPosition - $0 + 1) } ?? 0
    for index in firstVisible / tokens...lastPosition / tokens {
      let block = Int(layout.blocks[span.table + index])
      // Rows of the tile that see nothing of this block are skipped at its end (window) or start (causality).
      let firstRow = groups.isEmpty ? max(0, index * tokens - firstPosition) * group : 0
      let q0 = q + firstRow * size
      let s0 = scores + firstRow * tokens
      let keys = floats(storage.keys(block: block, head: head), storage.format, size * tokens, widened)
      kernels.scores(q0, size, rows - firstRow, keys, size, s0)
      let scales = storage.format == .q8 ? storage.scales(block: block, head: head) : nil
      // Behind the keys' last use: the buffer is the same.
      let values = floats(storage.values(block: block, head: head), storage.format, size * tokens, widened)
      for r in firstRow..<rows {
        let position = firstPosition + r / group
        let to = min(tokens, Self.lastVisible(from: position, groups) - index * tokens + 1)
        let from = shape.window.map { max(0, position - $0 + 1 - index * tokens) } ?? 0
        guard from < to else { continue }
        let row = scores + r * tokens
        // A position's scale multiplies its score, and its weight in the sum of values.
        if let scales { for j in from..<to { row[j] *= scales[j] } }
        let factor = kernels.softmaxBlock(row, from, to, states + 2 * r)
        if let scales { for j in from..<to { row[j] *= scales[tokens + j] } }
        kernels.accumulate(row, from, to, values, size, factor, sums + r * size)
      }
    }

    finish(rows: rows, group: group, head: head, size: size, tile, span.row, sums, states, out)
  }

  /// The last position that the row at `position` sees: its own, or the last of its group.
  private static func lastVisible(from position: Int, _ groups: [Range<Int>]) -> Int {
    for group in groups where group.contains(position) { return group.upperBound - 1 }
    return position
  }

  /// Divides the weighted sums by their weights.
  private func finish(
    rows: Int, group: Int, head: Int, size: Int, _ tile: StepLayout.Tile, _ firstRow: Int,
    _ sums: UnsafeMutablePointer<Float>, _ states: UnsafeMutablePointer<Float>, _ out: Rows
  ) {
    for r in 0..<rows {
      let target = out.row(firstRow + tile.first + r / group) + (head * group + r % group) * size
      target.update(from: sums + r * size, count: size)
      kernels.scale(1 / states[2 * r + 1], size, target)
    }
  }

  private func storedAttention(_ format: KVFormat) -> KernelTable.StoredAttention? {
    switch format {
    case .f32: nil
    case .f16: kernels.attendHalf
    case .q8: kernels.attendInt8
    }
  }

  /// The walk over the blocks for the heads of one position, which all see the same keys: nothing is widened into
  /// memory. The same bits as the walk of a tile.
  private func walkStored(
    _ stored: KernelTable.StoredAttention, position: Int, lastVisible: Int, rows: Int, shape: AttentionShape,
    head: Int,
    storage: KVLayer, blocks: ArraySlice<Int32>, q: UnsafeMutablePointer<Float>,
    sums: UnsafeMutablePointer<Float>, scores: UnsafeMutablePointer<Float>,
    states: UnsafeMutablePointer<Float>,
    factors: UnsafeMutablePointer<Float>
  ) {
    let (size, tokens) = (shape.headDim, KVCache.blockTokens)
    let firstVisible = shape.window.map { max(0, position - $0 + 1) } ?? 0
    for index in firstVisible / tokens...lastVisible / tokens {
      let block = Int(blocks[blocks.startIndex + index])
      let (from, to) = (max(0, firstVisible - index * tokens), min(tokens, lastVisible - index * tokens + 1))
      let values = storage.values(block: block, head: head)
      stored.scores(q, size, rows, storage.keys(block: block, head: head), size, values, scores)
      let scales = storage.format == .q8 ? storage.scales(block: block, head: head) : nil
      for r in 0..<rows {
        let row = scores + r * tokens
        if let scales { for j in from..<to { row[j] *= scales[j] } }
        factors[r] = kernels.softmaxBlock(row, from, to, states + 2 * r)
        if let scales { for j in from..<to { row[j] *= scales[tokens + j] } }
      }
      let next = Int(blocks[blocks.startIndex + min(index + 1, position / tokens)])
      stored.accumulate(
        scores, rows, from, to, values, size, factors, storage.keys(block: next, head: head), sums)
    }
  }

  /// Stored elements as float32: themselves, or widened into `buffer`. Scales are left to the caller.
  private func floats(
    _ stored: UnsafeMutableRawPointer, _ format: KVFormat, _ count: Int, _ buffer: UnsafeMutablePointer<Float>
  ) -> UnsafePointer<Float> {
    switch format {
    case .f32: return UnsafePointer(stored.assumingMemoryBound(to: Float.self))
    case .f16: kernels.widen(stored, FloatFormat.f16, count, buffer)
    case .q8: kernels.widenInt8(UnsafePointer(stored.assumingMemoryBound(to: Int8.self)), count, buffer)
    }
    return UnsafePointer(buffer)
  }
}
