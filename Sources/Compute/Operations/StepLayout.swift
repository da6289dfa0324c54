// Where the rows of a step live: which sequence, which position, which cache blocks. Built once per step and
// read by every layer.

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
  }

  /// Consecutive rows of one span whose attention is computed together.
  struct Tile {
    let span: Int
    /// First row within the span.
    let first: Int
    let count: Int
  }

  private(set) var spans: [Span] = []
  private(set) var blocks: [Int32] = []
  private(set) var tiles: [Tile] = []
  private var tileRows = 0
  /// Rows of the step.
  package private(set) var rows = 0

  package init() {}

  /// Forgets the last step's spans, for the next step.
  package func reset() {
    spans.removeAll(keepingCapacity: true)
    blocks.removeAll(keepingCapacity: true)
    tiles.removeAll(keepingCapacity: true)
    tileRows = 0
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
  package func append(
    count: Int, start: Int, table: [Int32], blockCount: Int, ropeVariant: Int, slot: Int32? = nil,
    groups: [Range<Int>] = []
  ) {
    precondition(groups.allSatisfy { $0.upperBound <= start + count }, "a group goes beyond the rows")
    let needed = (start + count + KVCache.blockTokens - 1) / KVCache.blockTokens
    precondition(start >= 0 && count >= 0 && table.count >= needed, "the block table does not cover the span")
    for block in table.prefix(needed) {
      precondition(block >= 0 && Int(block) < blockCount, "block table entry out of range")
    }
    spans.append(
      Span(
        row: rows, count: count, start: start, table: blocks.count, ropeVariant: ropeVariant, slot: slot,
        groups: groups))
    blocks.append(contentsOf: table.prefix(needed))
    rows += count
    tileRows = 0
  }

  /// The step's row where span `index` starts.
  package func firstRow(ofSpan index: Int) -> Int { spans[index].row }

  /// Cuts the spans into tiles of at most `rows` rows.
  func prepareTiles(of rows: Int) {
    guard rows != tileRows else { return }
    tileRows = rows
    tiles.removeAll(keepingCapacity: true)
    for (index, span) in spans.enumerated() {
      var first = 0
      while first < span.count {
        tiles.append(Tile(span: index, first: first, count: min(rows, span.count - first)))
        first += rows
      }
    }
  }
}
