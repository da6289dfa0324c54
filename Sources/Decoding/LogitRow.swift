// One row of logits where the model wrote it, with the largest of each block of it: a greedy choice looks at no more.

/// Borrows its memory; valid until the next step is computed.
package struct LogitRow {
  /// What chooses from the row uses it as working space.
  let values: UnsafeMutableBufferPointer<Float>
  /// One for each block; infinity where the block has a NaN.
  private let maxima: UnsafeMutableBufferPointer<Float>

  /// - Parameter maxima: room for `blockCount(values.count)` numbers, which `findMaxima` writes.
  package init(values: UnsafeMutableBufferPointer<Float>, maxima: UnsafeMutableBufferPointer<Float>) {
    precondition(maxima.count == Self.blockCount(values.count), "room for another number of blocks")
    (self.values, self.maxima) = (values, maxima)
  }

  /// Blocks of a row of `count` logits.
  package static func blockCount(_ count: Int) -> Int { VectorMath.blockCount(count) }

  /// Must have been called for all blocks before anything else; threads may share them.
  package func findMaxima(ofBlocks blocks: Range<Int>) {
    let row = UnsafeBufferPointer(values)
    for block in blocks { maxima[block] = VectorMath.maximum(ofBlock: block, of: row, nan: .infinity) }
  }

  /// The first `count` logits; the row itself when it has no more.
  package func prefix(_ count: Int) -> LogitRow {
    guard count < values.count else { return self }
    let blocks = Self.blockCount(count)
    let shorter = LogitRow(
      values: UnsafeMutableBufferPointer(rebasing: values[..<count]),
      maxima: UnsafeMutableBufferPointer(rebasing: maxima[..<blocks]))
    // The last block has lost some.
    shorter.findMaxima(ofBlocks: max(0, blocks - 1)..<blocks)
    return shorter
  }

  /// Whether a token can be chosen from the row: none of its logits is NaN or positive infinity, and not all are
  /// negative infinity.
  package var isUsable: Bool {
    let largest = maxima.max() ?? -.infinity
    return largest > -.infinity && largest < .infinity
  }

  /// A copy of the logits.
  package var copy: [Float] { Array(values) }

  /// As `VectorMath.blockMaxima`, but for NaN.
  var blockMaxima: [Float] { Array(maxima) }
}
