// Reference-counted KV blocks: which of the cache's blocks are free, and who holds the others.

/// Pure bookkeeping; the storage itself is `Compute.KVCache`. Engine thread only.
struct BlockPool {
  private var free: [Int32]
  private var references: [Int32]
  /// Blocks that may be in use: what memory has been granted for.
  var quota: Int
  /// Blocks that have been in use since they were last given back to the system: what memory is taken by.
  private(set) var touched = 0

  /// - Parameter quota: nil for all blocks.
  init(blockCount: Int, quota: Int? = nil) {
    // Taken from the end, so the lowest blocks are used first and untouched memory stays uncommitted.
    free = (0..<Int32(blockCount)).reversed()
    references = [Int32](repeating: 0, count: blockCount)
    self.quota = min(quota ?? blockCount, blockCount)
  }

  /// Blocks that can be taken within the quota.
  var freeCount: Int { max(0, quota - usedCount) }
  var usedCount: Int { references.count - free.count }
  var count: Int { references.count }

  /// Appends blocks until `table` has `count` of them; false, and nothing taken, when too few are free.
  mutating func extend(_ table: inout [Int32], to count: Int) -> Bool {
    let missing = count - table.count
    guard missing > 0 else { return true }
    guard missing <= freeCount else { return false }
    for _ in 0..<missing {
      let block = free.removeLast()
      references[Int(block)] = 1
      table.append(block)
    }
    touched = max(touched, usedCount)
    return true
  }

  /// Lowers the quota, to what is in use at least.
  ///
  /// - Returns: free blocks that hold memory beyond the quota; their content is lost.
  mutating func lowerQuota(to count: Int) -> ArraySlice<Int32> {
    quota = max(usedCount, min(count, self.count))
    // Blocks are taken from the end and given back there, so those that were never used lie in front.
    let holding = touched - usedCount
    let kept = min(holding, quota - usedCount)
    let lost = free[(free.count - holding)..<(free.count - kept)]
    touched = usedCount + kept
    return lost
  }

  /// How many tables, and the prefix cache, hold this block.
  func referenceCount(_ block: Int32) -> Int32 { references[Int(block)] }

  /// One more sequence reads these blocks.
  mutating func retain(_ table: some Sequence<Int32>) {
    for block in table { references[Int(block)] += 1 }
  }

  /// Gives up one reference to each block and empties the table; unreferenced blocks become free.
  mutating func release(_ table: inout [Int32]) {
    release(table)
    table.removeAll()
  }

  /// Gives up one reference to each block; unreferenced blocks become free.
  mutating func release(_ blocks: [Int32]) {
    for block in blocks.reversed() {
      references[Int(block)] -= 1
      if references[Int(block)] == 0 { free.append(block) }
    }
  }
}
