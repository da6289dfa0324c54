// Reference-counted KV blocks: which of the cache's blocks are free, and who holds the others.

/// Pure bookkeeping; the storage itself is `Compute.KVCache`. Engine thread only.
struct BlockPool {
  private var free: [Int32]
  private var references: [Int32]

  init(blockCount: Int) {
    // Taken from the end, so the lowest blocks are used first and untouched memory stays uncommitted.
    free = (0..<Int32(blockCount)).reversed()
    references = [Int32](repeating: 0, count: blockCount)
  }

  var freeCount: Int { free.count }
  var count: Int { references.count }

  /// Appends blocks until `table` has `count` of them; false, and nothing taken, when too few are free.
  mutating func extend(_ table: inout [Int32], to count: Int) -> Bool {
    let missing = count - table.count
    guard missing > 0 else { return true }
    guard missing <= free.count else { return false }
    for _ in 0..<missing {
      let block = free.removeLast()
      references[Int(block)] = 1
      table.append(block)
    }
    return true
  }

  /// How many tables, and the prefix cache, hold this block.
  func referenceCount(_ block: Int32) -> Int32 { references[Int(block)] }

  /// One more sequence reads these blocks.
  mutating func retain(_ table: some Sequence<Int32>) {
    for block in table { references[Int(block)] += 1 }
  }

  /// Gives up one reference to each block and empties the table; unreferenced blocks become free.
  mutating func release(_ table: inout [Int32]) {
    for block in table.reversed() {
      references[Int(block)] -= 1
      if references[Int(block)] == 0 { free.append(block) }
    }
    table.removeAll()
  }
}
