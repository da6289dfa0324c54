// Causal attention over the paged cache, with grouped queries, an optional sliding window or chunks, and groups of
// positions (the patches of an image, or all tokens of a text that is encoded) that see each other in both directions.
//
// Each query row walks the blocks of its own sequence in order, at the cache's fixed absolute boundaries, and
// folds them into a running softmax (arXiv:2205.14135): maximum, sum, and one weighted sum of values. There is
// no n² buffer, and what a row computes depends on its position only, not on how its prompt was chunked.
//
// Sequences that begin with the same blocks, as answers to one prompt do, walk these blocks together: keys and values are
// read once for all of their rows. Each row does what it would do alone, in the same order.

import KernelTypes

/// What each head adds to a score by the distance from the query to the key.
package struct DistanceBias: Sendable {
  /// `[heads][2 · reach + 1]`: distances from -reach to reach; farther ones have the values of these.
  private let values: [Float]
  private let reach: Int

  /// - Precondition: a row of `2 · reach + 1` values for each head.
  package init(values: [Float], reach: Int) {
    precondition(reach >= 0 && values.count % (2 * reach + 1) == 0, "distance bias: shapes differ")
    (self.values, self.reach) = (values, reach)
  }

  /// Adds the values of a head to the scores of a block's keys, the first of which is `distance` after the query.
  func add(head: Int, distance: Int, to scores: UnsafeMutablePointer<Float>) {
    let first = head * (2 * reach + 1) + reach
    for j in 0..<KVCache.blockTokens { scores[j] += values[first + min(max(distance + j, -reach), reach)] }
  }
}

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
  /// Key j is visible to query i iff j <= i and both are in the same chunk of this many positions (Llama 4).
  package var chunk: Int?
  /// Scores are bounded before the softmax, `cap · tanh(score / cap)` (Gemma 2).
  package var softcap: Float?
  /// Per head of queries a score that belongs to no key and has no value; none without (gpt-oss).
  package var sinks: [Float] = []
  /// The values are the first elements of the keys, this many; the keys alone are in the cache (latent attention).
  package var latentValues: Int?
  /// Whether the window bounds the later keys of a group too: j - i < window.
  package var windowIsSymmetric = false
  /// Added to the scaled scores of each head; nil adds nothing.
  package var bias: DistanceBias?
  /// Whether the layer looks at the layout's groups; without, every key has to be earlier.
  package var seesGroups: Bool
  /// Heads of queries that share a head of keys and values.
  var group: Int { heads / kvHeads }
  /// Elements of one head's value.
  package var valueDim: Int { latentValues ?? headDim }

  /// Whether rows of several sequences can walk common blocks together: each sees all that came before it.
  var sharesBlocks: Bool { window == nil && chunk == nil && bias == nil }

  /// The first position that a query sees.
  func firstSeen(from position: Int) -> Int {
    if let window { return max(0, position - window + 1) }
    return chunk.map { position / $0 * $0 } ?? 0
  }

  /// What a layer of this shape keeps of a sequence.
  package var cacheShape: KVLayerShape {
    // What lies before the beginning of a chunk lies before a window of its size, too.
    KVLayerShape(kvHeads: kvHeads, headDim: headDim, window: window ?? chunk, latentValues: latentValues)
  }

  /// The last position that a symmetric window shows to a query.
  func lastInWindow(from position: Int) -> Int {
    guard windowIsSymmetric, let window else { return .max }
    return position + window - 1
  }

  package init(
    heads: Int, kvHeads: Int, headDim: Int, scale: Float, window: Int? = nil, seesGroups: Bool = true
  ) {
    (self.heads, self.kvHeads, self.headDim) = (heads, kvHeads, headDim)
    (self.scale, self.window, self.seesGroups) = (scale, window, seesGroups)
  }
}

extension ComputeContext {
  /// Writes keys and values of some rows of a span, and some heads, into the rows' cache positions.
  private func store(
    _ new: (keys: Rows, values: Rows?), rows: Range<Int>, heads: Range<Int>, of span: StepLayout.Span,
    storage: KVLayer, layout: StepLayout
  ) {
    let size = storage.headDim
    for row in rows {
      let position = span.start + row - span.row
      let block = Int(layout.blocks[span.table + position / KVCache.blockTokens])
      for head in heads {
        store(
          key: new.keys.row(row) + head * size, value: new.values.map { $0.row(row) + head * size },
          slot: position % KVCache.blockTokens, block: block, head: head, of: storage)
      }
    }
  }

  /// Writes keys and values of all rows of a layout, `[rows, kvHeads · headDim]`, for queries that come later.
  package func store(keys: Rows, values: Rows, layer: Int, of cache: KVCache, at layout: StepLayout) {
    let storage = cache.layer(layer)
    let width = storage.kvHeads * storage.headDim
    precondition(
      keys.columns == width && values.columns == width && keys.count == layout.rows
        && values.count == layout.rows && storage.hasValues, "store: shapes differ")
    forEachRow(layout.rows, work: 4 * width) { range in
      for span in layout.spans {
        store(
          (keys, values), rows: range.clamped(to: span.row..<span.row + span.count),
          heads: 0..<storage.kvHeads, of: span, storage: storage, layout: layout)
      }
    }
  }

  private func store(
    key: UnsafePointer<Float>, value: UnsafePointer<Float>?, slot: Int, block: Int, head: Int,
    of storage: KVLayer
  ) {
    let (size, tokens) = (storage.headDim, KVCache.blockTokens)
    let (keys, values) = (storage.keys(block: block, head: head), storage.values(block: block, head: head))
    switch storage.format {
    case .f32:
      let column = keys.assumingMemoryBound(to: Float.self) + slot
      for d in 0..<size { column[d * tokens] = key[d] }
      if let value {
        (values.assumingMemoryBound(to: Float.self) + slot * size).update(from: value, count: size)
      }
    case .q16:
      store(key: key, value: value, as: Int16.self, slot: slot, block: block, head: head, of: storage)
    case .q8: store(key: key, value: value, as: Int8.self, slot: slot, block: block, head: head, of: storage)
    }
  }

  private func store<Element: FixedWidthInteger & SIMDScalar>(
    key: UnsafePointer<Float>, value: UnsafePointer<Float>?, as: Element.Type, slot: Int, block: Int,
    head: Int, of storage: KVLayer
  ) {
    guard let limit = storage.format.limit else { return }
    let (size, tokens) = (storage.headDim, KVCache.blockTokens)
    let pairs = storage.keys(block: block, head: head).assumingMemoryBound(to: SIMD2<Element>.self) + slot
    let values = storage.values(block: block, head: head).assumingMemoryBound(to: Element.self)
    let column = values + IntegerBlock.valueIndex(position: slot, element: 0, headDim: size)
    let scales = storage.scales(block: block, head: head)
    withUnsafeTemporaryAllocation(of: Int16.self, capacity: size + 1) { row in
      guard let row = row.baseAddress else { return }
      scales[slot] = kernels.integerAttention.quantize(key, size, limit, row)
      for pair in 0..<(size + 1) / 2 {
        pairs[pair * tokens] = SIMD2(truncatingIfNeeded: SIMD2(row[2 * pair], row[2 * pair + 1]))
      }
      guard let value else { return }
      scales[tokens + slot] = kernels.integerAttention.quantize(value, size, limit, row)
      for d in 0..<size { column[2 * d] = Element(truncatingIfNeeded: row[d]) }
    }
  }

  /// `out[row, head] = softmax(scale · q k) v` over the keys visible to each row, those of the step among them.
  ///
  /// - Parameters:
  ///   - queries: `[rows, heads · headDim]`, rotated.
  ///   - new: what the cache takes over for the step's positions, each `[rows, kvHeads · headDim]`, keys normalised and
  ///     rotated, values nil where they are a part of the keys; nil when it has them already.
  ///   - out: `[rows, heads · valueDim]`.
  package func attend(
    _ queries: Rows, adding new: (keys: Rows, values: Rows?)?, shape: AttentionShape, layer: Int,
    of cache: KVCache, at layout: StepLayout, into out: Rows
  ) {
    let storage = cache.layer(layer)
    let width = shape.kvHeads * shape.headDim
    precondition(
      shape.kvHeads == storage.kvHeads && shape.headDim == storage.headDim
        && queries.columns == shape.heads * shape.headDim && out.columns == shape.heads * shape.valueDim
        && shape.heads % shape.kvHeads == 0 && shape.latentValues == storage.latentValues
        && (shape.sinks.isEmpty || shape.sinks.count == shape.heads)
        && new.map { $0.keys.columns == width && $0.values?.columns == (storage.hasValues ? width : nil) }
          ?? true,
      "attend: shapes differ")
    // A block of keys and values is in the first-level cache for all query rows of a tile; enough tiles that threads
    // finish together.
    let rows = min(max(32, queries.count * shape.heads / (8 * pool.threads)), 64)
    // Sequences that share blocks, too: as many in a tile as leave two tiles to each thread.
    let sharing = shape.sharesBlocks ? layout.spans.count * shape.kvHeads / (2 * pool.threads) : 1
    let spans = max(1, min(sharing, layout.spans.count))
    layout.prepareTiles(StepLayout.Tiling(rows: max(1, rows / shape.group), spans: spans))
    let tiles = layout.tiles.count
    // Rows see what other tiles of their sequence add. Where there are none, as in decode, a head's keys and values are
    // added just before they are read, by the thread that reads them.
    let addsInTiles = layout.hasWholeSpans
    let short = !layout.keepsKeys && storage.format != .f32 ? shortAttention(queries, new, shape) : nil
    if let new, !addsInTiles {
      forEachRow(queries.count, work: 4 * width) { range in
        for span in layout.spans where short == nil || !span.isShortText {
          store(
            new, rows: range.clamped(to: span.row..<span.row + span.count), heads: 0..<shape.kvHeads,
            of: span, storage: storage, layout: layout)
        }
      }
    }
    pool.run(tiles: tiles * shape.kvHeads) { index, worker in
      // Neighbouring indices are the heads of one tile: they read neighbouring cache memory.
      let head = index % shape.kvHeads
      let tile = layout.tiles[index / shape.kvHeads]
      if let short, let segment = layout.onlySegment(of: tile), layout.spans[segment.span].isShortText {
        short(segment, head, layout, out, workerScratch[worker])
        return
      }
      if let new, addsInTiles {
        for segment in layout.segments[tile.segments] {
          let span = layout.spans[segment.span]
          store(
            new, rows: span.row..<span.row + span.count, heads: head..<head + 1, of: span, storage: storage,
            layout: layout)
        }
      }
      attendTile(
        tile, head: head, shape: shape, queries: queries, storage: storage, layout: layout, out: out,
        scratch: workerScratch[worker])
    }
  }

  /// A head's share of some rows of a short text.
  private typealias ShortAttention = (
    _ rows: StepLayout.Segment, _ head: Int, _ layout: StepLayout, _ out: Rows, _ scratch: Scratch
  ) -> Void

  /// How short texts attend without a cache; nil where the shape or these kernels have no such way.
  private func shortAttention(
    _ queries: Rows, _ new: (keys: Rows, values: Rows?)?, _ shape: AttentionShape
  ) -> ShortAttention? {
    guard let kernel = kernels.attendShortly, let keys = new?.keys, let values = new?.values,
      queries.stride == keys.stride, queries.stride == values.stride, shape.headDim % 32 == 0,
      shape.sharesBlocks, shape.sinks.isEmpty, shape.seesGroups
    else { return nil }
    return { rows, head, layout, out, scratch in
      let (keyValue, query) = (head * shape.headDim, head * shape.group * shape.headDim)
      let span = layout.spans[rows.span]
      let row = span.row + rows.first
      var text = ShortText(
        queries: queries.row(row) + query, keys: keys.row(span.row) + keyValue,
        values: values.row(span.row) + keyValue, stride: queries.stride, tokens: span.count,
        group: shape.group, headDim: shape.headDim, scale: shape.scale)
      text.rows = rows.count
      kernel(
        text, scratch.floats(ShortText.scratchFloats(headDim: shape.headDim)),
        Output(base: out.row(row) + query, stride: out.stride))
    }
  }

  /// One key-value head's share of a tile: the queries of its group of heads at each of the tile's positions.
  private func attendTile(
    _ tile: StepLayout.Tile, head: Int, shape: AttentionShape, queries: Rows, storage: KVLayer,
    layout: StepLayout, out: Rows, scratch: Scratch
  ) {
    let buffers = TileBuffers(
      scratch, rows: tile.rows * shape.group, headDim: shape.headDim, valueDim: shape.valueDim,
      transposes: !storage.hasValues, integers: integerKernels(storage.format))
    let walk = HeadWalk(shape: shape, head: head, storage: storage)
    var first = 0
    for segment in layout.segments[tile.segments] {
      let row = layout.spans[segment.span].row + segment.first
      begin(segment.count, queries: queries, row: row, walk, buffers.dropping(first))
      first += segment.count * shape.group
    }
    if tile.sharedBlocks > 0 {
      let table = layout.spans[layout.segments[tile.segments.lowerBound].span].table
      walkShared(layout.blocks[table...].prefix(tile.sharedBlocks + 1), rows: first, walk, buffers)
    }
    first = 0
    for segment in layout.segments[tile.segments] {
      let span = layout.spans[segment.span]
      let position = span.start + segment.first
      self.walk(
        position..<position + segment.count, after: tile.sharedBlocks,
        groups: shape.seesGroups ? span.groups : [], blocks: layout.blocks[span.table...], walk,
        buffers.dropping(first))
      end(segment.count, out: out, row: span.row + segment.first, walk, buffers.dropping(first))
      first += segment.count * shape.group
    }
  }

  /// Takes over the queries of some positions.
  private func begin(_ count: Int, queries: Rows, row: Int, _ walk: HeadWalk, _ buffers: TileBuffers) {
    let (shape, group) = (walk.shape, walk.shape.group)
    for r in 0..<count * group {
      let queryHead = walk.head * group + r % group
      begin(
        r, query: queries.row(row + r / group) + queryHead * shape.headDim, scale: shape.scale,
        sink: shape.sinks.isEmpty ? nil : shape.sinks[queryHead], buffers)
    }
  }

  /// Writes the weighted sums of some positions.
  private func end(_ count: Int, out: Rows, row: Int, _ walk: HeadWalk, _ buffers: TileBuffers) {
    let (size, group) = (walk.shape.valueDim, walk.shape.group)
    for r in 0..<count * group {
      let target = out.row(row + r / group) + (walk.head * group + r % group) * size
      target.update(from: buffers.sums + r * size, count: size)
      kernels.scale(1 / buffers.states[2 * r + 1], size, target)
    }
  }

  /// Takes over a row's query, and empties its softmax but for the sink.
  private func begin(
    _ row: Int, query: UnsafePointer<Float>, scale: Float, sink: Float?, _ buffers: TileBuffers
  ) {
    let size = buffers.headDim
    (buffers.sums + row * buffers.valueDim).update(repeating: 0, count: buffers.valueDim)
    buffers.states[2 * row] = sink ?? -.infinity
    buffers.states[2 * row + 1] = sink == nil ? 0 : 1
    if buffers.integers != nil {
      let rounded = buffers.integerQueries + row * buffers.integerStride
      buffers.queryScales[row] =
        scale * kernels.integerAttention.quantize(query, size, IntegerLimit.element, rounded)
    } else {
      (buffers.queries + row * size).update(from: query, count: size)
      kernels.scale(scale, size, buffers.queries + row * size)
    }
  }

  /// The walk over blocks that all rows of a tile see whole.
  ///
  /// - Parameter blocks: these, and the one after them.
  private func walkShared(_ blocks: ArraySlice<Int32>, rows: Int, _ walk: HeadWalk, _ buffers: TileBuffers) {
    for index in blocks.indices.dropLast() {
      let block = score(
        0..<rows, walk.block(blocks[index], before: (blocks[index + 1], walk.head)), walk, buffers)
      fold(0..<rows, seen: 0..<KVCache.blockTokens, block, buffers)
    }
  }

  /// The walk over the blocks that consecutive positions of a sequence see.
  ///
  /// - Parameter count: blocks at the beginning of the sequence that were walked already.
  private func walk(
    _ positions: Range<Int>, after count: Int, groups: [Range<Int>], blocks: ArraySlice<Int32>,
    _ walk: HeadWalk,
    _ buffers: TileBuffers
  ) {
    let (shape, head) = (walk.shape, walk.head)
    let (tokens, group, rows) = (KVCache.blockTokens, shape.group, positions.count * shape.group)
    var last = positions.upperBound - 1
    for group in groups where group.overlaps(positions) { last = max(last, group.upperBound - 1) }
    last = min(last, shape.lastInWindow(from: positions.upperBound - 1))
    let first = max(count, shape.firstSeen(from: positions.lowerBound) / tokens)
    for index in first...last / tokens {
      // After the last block, the thread's next tile begins with the first one of the next head.
      let isLast = index == last / tokens
      let next = (
        block: blocks[blocks.startIndex + (isLast ? first : index + 1)],
        head: isLast ? (head + 1) % walk.storage.kvHeads : head
      )
      // Rows of the tile that see nothing of this block are skipped at its end (window) or start (causality).
      let firstRow = groups.isEmpty ? max(0, index * tokens - positions.lowerBound) * group : 0
      let block = score(
        firstRow..<rows, walk.block(blocks[blocks.startIndex + index], before: next), walk, buffers)
      if let bias = shape.bias {
        for r in firstRow..<rows {
          bias.add(
            head: head * group + r % group, distance: index * tokens - positions.lowerBound - r / group,
            to: buffers.scores + r * tokens)
        }
      }
      // Rows that see the same keys, as all do but at the ends of their sight, are added together.
      var (start, seen) = (firstRow, 0..<0)
      for r in stride(from: firstRow, to: rows, by: group) {
        let position = positions.lowerBound + r / group
        let visible = min(Self.lastVisible(from: position, groups), shape.lastInWindow(from: position))
        let to = min(tokens, visible - index * tokens + 1)
        let from = max(0, shape.firstSeen(from: position) - index * tokens)
        if from..<max(from, to) != seen {
          fold(start..<r, seen: seen, block, buffers)
          (start, seen) = (r, from..<max(from, to))
        }
      }
      fold(start..<rows, seen: seen, block, buffers)
    }
  }

  /// Scores of some rows against a block's keys, bounded where the layer does so, and the block with its values.
  private func score(
    _ rows: Range<Int>, _ block: TileBlock, _ walk: HeadWalk, _ buffers: TileBuffers
  ) -> TileBlock {
    var block = block
    score(rows, block, buffers)
    if let softcap = walk.shape.softcap, !rows.isEmpty {
      kernels.softcap(
        softcap, rows.count * KVCache.blockTokens, buffers.scores + rows.lowerBound * KVCache.blockTokens)
    }
    if !walk.storage.hasValues {
      buffers.transpose(block.keys, as: walk.storage.format)
      block.values = buffers.transposed
    }
    return block
  }

  /// Scores of a tile's rows against a block's keys.
  private func score(_ rows: Range<Int>, _ block: TileBlock, _ buffers: TileBuffers) {
    let (size, first) = (buffers.headDim, rows.lowerBound)
    let scores = buffers.scores + first * KVCache.blockTokens
    if let integers = buffers.integers {
      let queries = IntegerQueries(
        base: buffers.integerQueries + first * buffers.integerStride, stride: buffers.integerStride,
        count: rows.count, scales: buffers.queryScales + first)
      integers.scores(queries, block.integerKeys(headDim: size), scores)
    } else {
      let queries = Activations(base: buffers.queries + first * size, stride: size, count: rows.count)
      kernels.scores(queries, TileBlock.floats(block.keys, headDim: size), scores)
    }
  }

  /// Folds what some rows of a tile see of a block into their softmax and their sums.
  private func fold(_ rows: Range<Int>, seen: Range<Int>, _ block: TileBlock, _ buffers: TileBuffers) {
    guard !rows.isEmpty, !seen.isEmpty else { return }
    let folded = buffers.rows(rows, seen: seen)
    if let integers = buffers.integers {
      let values = block.integerValues(headDim: buffers.valueDim)
      kernels.integerAttention.softmax(folded, values.scales)
      integers.accumulate(folded, values)
    } else {
      for r in 0..<folded.count {
        folded.factors[r] = kernels.softmaxBlock(
          folded.scores + r * KVCache.blockTokens, seen, folded.states + 2 * r)
      }
      kernels.accumulate(folded, TileBlock.floats(block.values, headDim: buffers.valueDim))
    }
  }

  private func integerKernels(_ format: KVFormat) -> IntegerAttention.Width? {
    switch format {
    case .f32: nil
    case .q16: kernels.integerAttention.int16
    case .q8: kernels.integerAttention.int8
    }
  }

  /// The last position that the row at `position` sees: its own, or the last of its group.
  private static func lastVisible(from position: Int, _ groups: [Range<Int>]) -> Int {
    for group in groups where group.contains(position) { return group.upperBound - 1 }
    return position
  }
}

/// What the walks over one head's blocks have in common.
private struct HeadWalk {
  let shape: AttentionShape
  let head: Int
  let storage: KVLayer

  /// A block, and the one that is read after it.
  func block(_ block: Int32, before next: (block: Int32, head: Int)) -> TileBlock {
    TileBlock(
      storage: storage, head: head, block: Int(block),
      nextKeys: storage.keys(block: Int(next.block), head: next.head))
  }
}

/// A block of one head's keys and values, and where the next one's begin.
private struct TileBlock {
  let keys, nextKeys: UnsafeMutableRawPointer
  /// In the cache, or where the keys were rewritten as values.
  var values: UnsafeMutableRawPointer
  /// `[32]` of the keys, and of the values; integers only.
  let keyScales, valueScales: UnsafeMutablePointer<Float>

  init(storage: KVLayer, head: Int, block: Int, nextKeys: UnsafeMutableRawPointer) {
    keys = storage.keys(block: block, head: head)
    values = storage.values(block: block, head: head)
    keyScales = storage.scales(block: block, head: head)
    valueScales = storage.hasValues ? keyScales + KVCache.blockTokens : keyScales
    self.nextKeys = nextKeys
  }

  static func floats(_ base: UnsafeMutableRawPointer, headDim: Int) -> FloatBlock {
    FloatBlock(base: UnsafePointer(base.assumingMemoryBound(to: Float.self)), headDim: headDim)
  }

  /// With the keys of a block its values are prefetched.
  func integerKeys(headDim: Int) -> IntegerBlock {
    IntegerBlock(base: keys, scales: keyScales, headDim: headDim, ahead: values)
  }

  /// With the values of a block the next keys are prefetched.
  func integerValues(headDim: Int) -> IntegerBlock {
    IntegerBlock(base: values, scales: valueScales, headDim: headDim, ahead: nextKeys)
  }
}

/// What one tile works with, in its worker's scratch memory. A row is one query head of one position.
private struct TileBuffers {
  let headDim, valueDim: Int
  /// The kernels of the cache's integers; nil for floats.
  let integers: IntegerAttention.Width?
  /// Scaled queries, `[rows, headDim]`.
  let queries: UnsafeMutablePointer<Float>
  /// Weighted sums of values, `[rows, valueDim]`.
  let sums: UnsafeMutablePointer<Float>
  /// Scores of one block, `[rows, KVCache.blockTokens]`.
  let scores: UnsafeMutablePointer<Float>
  /// The maximum and the sum of each row's softmax so far.
  let states: UnsafeMutablePointer<Float>
  /// What each row's sums are multiplied with before a block is added.
  let factors: UnsafeMutablePointer<Float>
  /// What each row's integer query, and its integer weights, are multiplied with.
  let queryScales, weightScales: UnsafeMutablePointer<Float>
  /// A block's keys in the order of values, and some bytes that kernels may read.
  let transposed: UnsafeMutableRawPointer

  init(
    _ scratch: Scratch, rows: Int, headDim: Int, valueDim: Int, transposes: Bool,
    integers: IntegerAttention.Width?
  ) {
    (self.headDim, self.valueDim, self.integers) = (headDim, valueDim, integers)
    let tokens = KVCache.blockTokens
    let transposedFloats = transposes ? tokens * (valueDim + 1) + 32 : 0
    // One float more, as integers of an odd head are padded.
    let base = scratch.floats(rows * (headDim + 1 + valueDim + tokens + 5) + transposedFloats)
    transposed = UnsafeMutableRawPointer(base)
    queries = base + transposedFloats
    sums = queries + rows * (headDim + 1)
    scores = sums + rows * valueDim
    states = scores + rows * tokens
    factors = states + rows * 2
    queryScales = factors + rows
    weightScales = queryScales + rows
  }

  /// Rounded queries, `[rows, integerStride]`, in the place of the others.
  var integerQueries: UnsafeMutablePointer<Int16> {
    UnsafeMutableRawPointer(queries).assumingMemoryBound(to: Int16.self)
  }

  var integerStride: Int { headDim + headDim % 2 }

  /// The buffers of the rows from `first` on.
  func dropping(_ first: Int) -> TileBuffers { TileBuffers(self, from: first) }

  private init(_ all: TileBuffers, from first: Int) {
    (headDim, valueDim, integers, transposed) = (all.headDim, all.valueDim, all.integers, all.transposed)
    // Integers stand in the place of the queries, closer together.
    let step = all.integers == nil ? headDim : all.integerStride / 2
    queries = all.queries + first * step
    sums = all.sums + first * valueDim
    scores = all.scores + first * KVCache.blockTokens
    states = all.states + 2 * first
    factors = all.factors + first
    queryScales = all.queryScales + first
    weightScales = all.weightScales + first
  }

  /// Some rows, which see the same keys.
  func rows(_ rows: Range<Int>, seen: Range<Int>) -> AttentionRows {
    let first = rows.lowerBound
    return AttentionRows(
      count: rows.count, seen: seen, scores: scores + first * KVCache.blockTokens,
      states: states + 2 * first, factors: factors + first, weightScales: weightScales + first,
      sums: sums + first * valueDim)
  }

  /// Rewrites the first elements of a block's keys in the order of values.
  func transpose(_ keys: UnsafeRawPointer, as format: KVFormat) {
    switch format {
    case .f32:
      let (source, target) = (
        keys.assumingMemoryBound(to: Float.self), transposed.assumingMemoryBound(to: Float.self)
      )
      for d in 0..<valueDim {
        for j in 0..<KVCache.blockTokens { target[j * valueDim + d] = source[d * KVCache.blockTokens + j] }
      }
    case .q16: transposePairs(keys, as: Int16.self)
    case .q8: transposePairs(keys, as: Int8.self)
    }
  }

  /// Two elements of two positions are neighbours in keys and in values: a square of four is turned over.
  private func transposePairs<Element: FixedWidthInteger & SIMDScalar>(
    _ keys: UnsafeRawPointer, as: Element.Type
  ) {
    let source = keys.assumingMemoryBound(to: SIMD2<Element>.self)
    let target = transposed.assumingMemoryBound(to: Element.self)
    for position in stride(from: 0, to: KVCache.blockTokens, by: 2) {
      for element in stride(from: 0, to: valueDim, by: 2) {
        let at = element / 2 * KVCache.blockTokens + position
        let (a, b) = (source[at], source[at + 1])
        let out = target + IntegerBlock.valueIndex(position: position, element: element, headDim: valueDim)
        (out[0], out[1]) = (a.x, b.x)
        if element + 1 < valueDim { (out[2], out[3]) = (a.y, b.y) }
      }
    }
  }
}
