// Where the rows of a step live: which sequence, which position, which cache blocks. Built once per step and
// read by every layer.

import KernelTypes

/// The spans of a step in row order. Its arrays are reused from step to step.
package final class StepLayout {
  struct Span {
    /// First row of the step.
    let row: Int
    let count: Int
    /// Absolute position of the first row.
    let start: Int
    /// Where the span's block table starts in `blocks`.
    let table: Int
    let ropeVariant: Int
    /// Where the states of the sequence's recurrent layers are.
    let slot: Int32?
    /// Positions that see each other in both directions, ascending.
    let groups: [Range<Int>]
    /// What rotations turn the rows by, where that is not their position: three coordinates each; or none.
    let places: [SIMD3<Int32>]

    /// Whether it is all of a short text whose tokens see each other.
    var isShortText: Bool { start == 0 && count <= ShortText.mostTokens && groups.first == 0..<count }
  }

  /// Consecutive rows of one span.
  struct Segment {
    let span: Int
    /// First row within the span.
    let first: Int
    let count: Int
  }

  /// Rows whose attention is computed together: some of one span, or all of several spans that begin with the same blocks.
  struct Tile {
    /// Of `segments`.
    var segments: Range<Int>
    var rows: Int
    /// Leading blocks that all segments have in common, and whose keys all of the rows come after.
    var sharedBlocks: Int
  }

  private(set) var spans: [Span] = []
  private(set) var blocks: [Int32] = []
  private(set) var segments: [Segment] = []
  private(set) var tiles: [Tile] = []
  private var tiling: Tiling?
  /// Rows of the step.
  package private(set) var rows = 0

  /// Whether later steps read keys and values of this one.
  let keepsKeys: Bool

  package init(keepsKeys: Bool = true) { self.keepsKeys = keepsKeys }

  /// Forgets the last step's spans, for the next step.
  package func reset() {
    spans.removeAll(keepingCapacity: true)
    blocks.removeAll(keepingCapacity: true)
    tiling = nil
    rows = 0
  }

  /// Appends `count` rows at the positions `start ..< start + count` of a sequence.
  ///
  /// - Parameters:
  ///   - table: cache blocks of the positions 0..<32, 32..<64, ...; at least up to the last row's.
  ///   - blockCount: blocks of the cache, to check the table against.
  ///   - slot: of the states of recurrent layers, where a model has them.
  ///   - groups: ranges of positions that see each other in both directions, such as those of one image. A group ends
  ///     within the rows, or before them.
  ///   - places: coordinates of each row, for rotations that have axes; empty where each row's position is all three.
  package func append(
    count: Int, start: Int, table: [Int32], blockCount: Int, ropeVariant: Int, slot: Int32? = nil,
    groups: [Range<Int>] = [], places: [SIMD3<Int32>] = []
  ) {
    precondition(places.isEmpty || places.count == count, "not every row has a place")
    precondition(groups.allSatisfy { $0.upperBound <= start + count }, "a group goes beyond the rows")
    let needed = (start + count + KVCache.blockTokens - 1) / KVCache.blockTokens
    precondition(start >= 0 && count >= 0 && table.count >= needed, "the block table does not cover the span")
    for block in table.prefix(needed) {
      precondition(block >= 0 && Int(block) < blockCount, "block table entry out of range")
    }
    spans.append(
      Span(
        row: rows, count: count, start: start, table: blocks.count, ropeVariant: ropeVariant, slot: slot,
        groups: groups, places: places))
    blocks.append(contentsOf: table.prefix(needed))
    rows += count
    tiling = nil
  }

  /// The step's row where span `index` starts.
  package func firstRow(ofSpan index: Int) -> Int { spans[index].row }

  // MARK: Tiles

  /// How spans are cut into tiles, and joined.
  struct Tiling: Equatable {
    /// Most rows of a tile.
    let rows: Int
    /// Most spans of a tile: 1 joins none.
    let spans: Int
  }

  /// Blocks that spans must have in common to share a tile: with fewer the threads are better off with more tiles.
  private static let leastShared = 4

  /// Whether each tile holds its spans whole.
  var hasWholeSpans: Bool { segments.count == spans.count }

  /// The rows of a tile, where they are of one span.
  func onlySegment(of tile: Tile) -> Segment? {
    tile.segments.count == 1 ? segments[tile.segments.lowerBound] : nil
  }

  /// Cuts the spans into tiles.
  func prepareTiles(_ tiling: Tiling) {
    guard tiling != self.tiling else { return }
    self.tiling = tiling
    segments.removeAll(keepingCapacity: true)
    tiles.removeAll(keepingCapacity: true)
    for group in groups(tiling) {
      let first = segments.count
      for index in group.spans {
        let count = spans[index].count
        for row in stride(from: 0, to: count, by: tiling.rows) {
          segments.append(Segment(span: index, first: row, count: min(tiling.rows, count - row)))
        }
      }
      if group.spans.count > 1 {
        tiles.append(
          Tile(segments: first..<segments.count, rows: group.rows, sharedBlocks: group.sharedBlocks))
      } else {
        tiles += (first..<segments.count).map {
          Tile(segments: $0..<$0 + 1, rows: segments[$0].count, sharedBlocks: 0)
        }
      }
    }
  }

  /// Spans of one tile, or a span that is cut into several.
  private struct Group {
    var spans: [Int]
    var rows: Int
    var sharedBlocks: Int
  }

  /// Every span joins the last group that begins with the same blocks, unless it would take more from the group than it
  /// adds: a conversation has more in common with its fork than with another that has the same system text.
  private func groups(_ tiling: Tiling) -> [Group] {
    var groups: [Group] = []
    var open: [Int32: Int] = [:]
    for (index, span) in spans.enumerated() where span.count > 0 {
      let whole = span.start / KVCache.blockTokens
      guard tiling.spans > 1, whole >= Self.leastShared, span.groups.isEmpty, span.count < tiling.rows else {
        groups.append(Group(spans: [index], rows: span.count, sharedBlocks: 0))
        continue
      }
      let key = blocks[span.table]
      if let last = open[key], groups[last].spans.count < tiling.spans,
        groups[last].rows + span.count <= tiling.rows
      {
        let limit = min(whole, groups[last].sharedBlocks)
        let common = commonBlocks(groups[last].spans[0], index, limit: limit)
        if common >= Self.leastShared, 2 * common >= groups[last].sharedBlocks {
          groups[last].spans.append(index)
          groups[last].rows += span.count
          groups[last].sharedBlocks = common
          continue
        }
      }
      open[key] = groups.count
      groups.append(Group(spans: [index], rows: span.count, sharedBlocks: whole))
    }
    return groups
  }

  private func commonBlocks(_ a: Int, _ b: Int, limit: Int) -> Int {
    let (a, b) = (spans[a].table, spans[b].table)
    return (0..<limit).first { blocks[a + $0] != blocks[b + $0] } ?? limit
  }
}
