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
    forEachRow(keys.count, work: 4 * heads * size) { range in
      for span in layout.spans {
        for row in range.clamped(to: span.row..<span.row + span.count) {
          let position = span.start + row - span.row
          let block = Int(layout.blocks[span.table + position / KVCache.blockTokens])
          for head in 0..<heads {
            store(
              key: keys.row(row) + head * size, value: values.row(row) + head * size,
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
    // A block of keys and values is widened once for all query rows of a tile; enough tiles that threads finish together.
    let rows = min(max(32, queries.count * shape.heads / (8 * pool.threads)), 128)
    layout.prepareTiles(of: max(1, rows / group))
    let tiles = layout.tiles.count
    pool.run(tiles: tiles * shape.kvHeads) { index, worker in
      // Neighbouring indices are the heads of one tile: they read neighbouring cache memory.
      let head = index % shape.kvHeads
      attendTile(
        layout.tiles[index / shape.kvHeads], head: head, group: group, shape: shape, queries: queries,
        storage: storage, layout: layout, out: out, scratch: workerScratch[worker])
    }
  }

  /// One key-value head's share of a tile: the queries of its `group` heads at each of the tile's positions.
  private func attendTile(
    _ tile: StepLayout.Tile, head: Int, group: Int, shape: AttentionShape, queries: Rows, storage: KVLayer,
    layout: StepLayout, out: Rows, scratch: ScratchBuffer
  ) {
    let (size, rows) = (shape.headDim, tile.count * group)
    let span = layout.spans[tile.span]
    let groups = shape.seesGroups ? span.groups : []
    let position = span.start + tile.first
    let blocks = layout.blocks[span.table...]
    let buffers = TileBuffers(scratch, rows: rows, headDim: size)
    for r in 0..<rows {
      let source = queries.row(span.row + tile.first + r / group) + (head * group + r % group) * size
      buffers.begin(r, headDim: size, query: source)
      kernels.scale(shape.scale, size, buffers.q + r * size)
    }
    if tile.count == 1, size % 32 == 0, let stored = storedAttention(storage.format) {
      walkStored(
        stored, position: position, lastVisible: Self.lastVisible(from: position, groups), rows: rows,
        shape: shape, head: head, storage: storage, blocks: blocks, buffers)
    } else {
      walk(
        position..<position + tile.count, group: group, groups: groups, shape: shape, head: head,
        storage: storage, blocks: blocks, buffers)
    }
    for r in 0..<rows {
      let target = out.row(span.row + tile.first + r / group) + (head * group + r % group) * size
      target.update(from: buffers.sums + r * size, count: size)
      kernels.scale(1 / buffers.states[2 * r + 1], size, target)
    }
  }

  /// The walk over the blocks for the heads of several positions: a block is widened once for all of them.
  private func walk(
    _ positions: Range<Int>, group: Int, groups: [Range<Int>], shape: AttentionShape, head: Int,
    storage: KVLayer, blocks: ArraySlice<Int32>, _ buffers: TileBuffers
  ) {
    let (size, tokens, rows) = (shape.headDim, KVCache.blockTokens, positions.count * group)
    var last = positions.upperBound - 1
    for group in groups where group.overlaps(positions) { last = max(last, group.upperBound - 1) }
    let first = shape.window.map { max(0, positions.lowerBound - $0 + 1) } ?? 0
    for index in first / tokens...last / tokens {
      let block = Int(blocks[blocks.startIndex + index])
      // Rows of the tile that see nothing of this block are skipped at its end (window) or start (causality).
      let firstRow = groups.isEmpty ? max(0, index * tokens - positions.lowerBound) * group : 0
      let keys = floats(
        storage.keys(block: block, head: head), storage.format, size * tokens, buffers.widened)
      kernels.scores(
        buffers.q + firstRow * size, size, rows - firstRow, keys, size, buffers.scores + firstRow * tokens)
      let scales = storage.format == .q8 ? storage.scales(block: block, head: head) : nil
      // Behind the keys' last use: the buffer is the same.
      let values = floats(
        storage.values(block: block, head: head), storage.format, size * tokens, buffers.widened)
      // Rows that see the same keys, as all do but at the ends of their sight, are added together.
      var (start, seen) = (firstRow, 0..<0)
      for r in firstRow..<rows {
        let position = positions.lowerBound + r / group
        let to = min(tokens, Self.lastVisible(from: position, groups) - index * tokens + 1)
        let from = shape.window.map { max(0, position - $0 + 1 - index * tokens) } ?? 0
        if from..<max(from, to) != seen {
          accumulate(start..<r, seen: seen, values: values, headDim: size, buffers)
          (start, seen) = (r, from..<max(from, to))
        }
        guard from < to else { continue }
        let row = buffers.scores + r * tokens
        // A position's scale multiplies its score, and its weight in the sum of values.
        if let scales { for j in from..<to { row[j] *= scales[j] } }
        buffers.factors[r] = kernels.softmaxBlock(row, from, to, buffers.states + 2 * r)
        if let scales { for j in from..<to { row[j] *= scales[tokens + j] } }
      }
      accumulate(start..<rows, seen: seen, values: values, headDim: size, buffers)
    }
  }

  /// Adds the values that some rows of a tile see of a block, weighted by their scores.
  private func accumulate(
    _ rows: Range<Int>, seen: Range<Int>, values: UnsafePointer<Float>, headDim: Int, _ buffers: TileBuffers
  ) {
    guard !rows.isEmpty, !seen.isEmpty else { return }
    kernels.accumulate(
      buffers.scores + rows.lowerBound * KVCache.blockTokens, rows.count, seen.lowerBound,
      seen.upperBound, values, headDim, buffers.factors + rows.lowerBound,
      buffers.sums + rows.lowerBound * headDim)
  }

  /// The last position that the row at `position` sees: its own, or the last of its group.
  private static func lastVisible(from position: Int, _ groups: [Range<Int>]) -> Int {
    for group in groups where group.contains(position) { return group.upperBound - 1 }
    return position
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
    head: Int, storage: KVLayer, blocks: ArraySlice<Int32>, _ buffers: TileBuffers
  ) {
    let (size, tokens) = (shape.headDim, KVCache.blockTokens)
    let (scores, factors) = (buffers.scores, buffers.factors)
    let firstVisible = shape.window.map { max(0, position - $0 + 1) } ?? 0
    for index in firstVisible / tokens...lastVisible / tokens {
      let block = Int(blocks[blocks.startIndex + index])
      let (from, to) = (max(0, firstVisible - index * tokens), min(tokens, lastVisible - index * tokens + 1))
      let values = storage.values(block: block, head: head)
      stored.scores(buffers.q, size, rows, storage.keys(block: block, head: head), size, values, scores)
      let scales = storage.format == .q8 ? storage.scales(block: block, head: head) : nil
      for r in 0..<rows {
        let row = scores + r * tokens
        if let scales { for j in from..<to { row[j] *= scales[j] } }
        factors[r] = kernels.softmaxBlock(row, from, to, buffers.states + 2 * r)
        if let scales { for j in from..<to { row[j] *= scales[tokens + j] } }
      }
      let next = Int(blocks[blocks.startIndex + min(index + 1, position / tokens)])
      stored.accumulate(
        scores, rows, from, to, values, size, factors, storage.keys(block: next, head: head), buffers.sums)
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

/// What one tile works with, in its worker's scratch memory. A row is one query head of one position.
private struct TileBuffers {
  /// Scaled queries, `[rows, headDim]`.
  let q: UnsafeMutablePointer<Float>
  /// Weighted sums of values, `[rows, headDim]`.
  let sums: UnsafeMutablePointer<Float>
  /// Scores of one block, `[rows, KVCache.blockTokens]`.
  let scores: UnsafeMutablePointer<Float>
  /// The maximum and the sum of each row's softmax so far.
  let states: UnsafeMutablePointer<Float>
  /// What each row's sums are multiplied with before a block is added.
  let factors: UnsafeMutablePointer<Float>
  /// Keys or values of one block as float32.
  let widened: UnsafeMutablePointer<Float>

  init(_ scratch: ScratchBuffer, rows: Int, headDim: Int) {
    let tokens = KVCache.blockTokens
    q = scratch.floats(rows * (2 * headDim + tokens + 3) + tokens * headDim)
    sums = q + rows * headDim
    scores = sums + rows * headDim
    // What vectors are loaded from first: it stays at borders of cache lines for any number of rows.
    widened = scores + rows * tokens
    states = widened + tokens * headDim
    factors = states + rows * 2
  }

  /// Copies a row's query, and empties its softmax.
  func begin(_ row: Int, headDim: Int, query: UnsafePointer<Float>) {
    (q + row * headDim).update(from: query, count: headDim)
    (sums + row * headDim).update(repeating: 0, count: headDim)
    states[2 * row] = -.infinity
    states[2 * row + 1] = 0
  }
}
