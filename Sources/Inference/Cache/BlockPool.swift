// Reference-counted KV blocks: which of the cache's blocks are free, who holds the others, and who needs their sliding
// part.
//
// The sliding part of a block is what layers with a window keep of it. Once nobody needs that part, it goes back to the
// system while the rest of the block stays: the block is narrow, and counts for less. A block never gets the part back;
// when it becomes free, the rest goes to the system too.

import Compute

/// Pure bookkeeping; the storage itself is `Compute.KVCache`. Engine thread only.
struct BlockPool {
  let bytes: BlockBytes
  /// Free blocks that take no memory, the next one last.
  private var fresh: [Int32]
  /// Free blocks with memory, the next one last.
  private var warm: [Int32] = []
  /// Free blocks whose memory is still to be given to the system, and blocks in use whose sliding part is.
  private var lost: [Int32] = []
  private var emptied: [Int32] = []
  private var references: [Int32]
  /// How many of them need the sliding part.
  private var slidingReferences: [Int32]
  private var isNarrow: [Bool]
  /// Narrow blocks in use.
  private var narrowCount = 0
  /// Whole blocks that memory has been granted for; narrow ones count for less.
  var quota: Int

  /// - Parameter quota: nil for all blocks.
  init(blockCount: Int, quota: Int? = nil, bytes: BlockBytes = BlockBytes()) {
    // Taken from the end, so the lowest blocks are used first and untouched memory stays uncommitted.
    fresh = (0..<Int32(blockCount)).reversed()
    references = [Int32](repeating: 0, count: blockCount)
    slidingReferences = references
    isNarrow = [Bool](repeating: false, count: blockCount)
    self.quota = min(quota ?? blockCount, blockCount)
    self.bytes = bytes
  }

  /// Blocks that can be taken within the quota.
  var freeCount: Int { max(0, min(fresh.count + warm.count, quota - usedWhole)) }
  var usedCount: Int { references.count - fresh.count - warm.count - lost.count }
  var count: Int { references.count }

  /// Bytes of the blocks in use.
  var usedBytes: Int { usedCount * bytes.whole - narrowCount * bytes.sliding }
  /// Bytes that have been written since they were last given back to the system: what memory is taken by.
  var touched: Int { usedBytes + warm.count * bytes.whole }
  /// Whole blocks that weigh what is in use.
  private var usedWhole: Int { (usedBytes + bytes.whole - 1) / bytes.whole }

  /// Appends blocks until `table` has `count` of them; false, and nothing taken, when too few are free.
  mutating func extend(_ table: inout [Int32], to count: Int) -> Bool {
    let missing = count - table.count
    guard missing > 0 else { return true }
    guard missing <= freeCount else { return false }
    for _ in 0..<missing {
      // Those with memory first: so what is free never takes memory beyond the quota.
      guard let block = warm.popLast() ?? fresh.popLast() else { return false }
      references[Int(block)] = 1
      slidingReferences[Int(block)] = 1
      table.append(block)
    }
    return true
  }

  /// Lowers the quota, to what is in use at least.
  ///
  /// - Returns: free blocks that hold memory beyond the quota; their content is lost.
  mutating func lowerQuota(to count: Int) -> ArraySlice<Int32> {
    quota = max(usedWhole, min(count, self.count))
    let gone = warm.prefix(max(0, warm.count - (quota - usedWhole)))
    warm.removeFirst(gone.count)
    fresh += gone
    return gone
  }

  /// How many tables, and the prefix cache, hold this block.
  func referenceCount(_ block: Int32) -> Int32 { references[Int(block)] }
  /// How many of them need its sliding part.
  func slidingReferenceCount(_ block: Int32) -> Int32 { slidingReferences[Int(block)] }
  /// Whether the block has its sliding part.
  func isWhole(_ block: Int32) -> Bool { !isNarrow[Int(block)] }

  /// One more sequence reads these blocks.
  ///
  /// - Parameter sliding: whether it needs the sliding part of them; narrow blocks have none.
  mutating func retain(_ table: some Sequence<Int32>, sliding: Bool = true) {
    for block in table {
      references[Int(block)] += 1
      if sliding { slidingReferences[Int(block)] += 1 }
    }
  }

  /// Gives up one reference to each block; unreferenced blocks become free.
  ///
  /// - Parameter sliding: whether the reference is one to the sliding part too.
  mutating func release(_ blocks: some BidirectionalCollection<Int32>, sliding: Bool = true) {
    for block in blocks.reversed() {
      let index = Int(block)
      references[index] -= 1
      if sliding { slidingReferences[index] -= 1 }
      if references[index] > 0 {
        narrow(block)
      } else if isNarrow[index] {
        isNarrow[index] = false
        narrowCount -= 1
        lost.append(block)
      } else {
        warm.append(block)
      }
    }
  }

  /// Gives up the need for the sliding part of each block, and keeps the rest.
  mutating func releaseSliding(_ blocks: some Sequence<Int32>) {
    for block in blocks {
      slidingReferences[Int(block)] -= 1
      narrow(block)
    }
  }

  /// Takes the sliding part from a block in use that nobody needs it of.
  private mutating func narrow(_ block: Int32) {
    let index = Int(block)
    guard bytes.sliding > 0, slidingReferences[index] == 0, !isNarrow[index] else { return }
    isNarrow[index] = true
    narrowCount += 1
    emptied.append(block)
  }

  /// Gives the memory that nobody needs any more to the system: until then such blocks cannot be taken.
  mutating func settle(_ cache: KVCache) {
    if !emptied.isEmpty {
      // Where parts do not end with a page, the page goes with the second of two neighbours.
      let around = emptied.flatMap { [$0 - 1, $0 + 1] }
      cache.discard(Set(emptied + around.filter(isEmptied)), onlySliding: true)
      emptied.removeAll()
    }
    guard !lost.isEmpty else { return }
    cache.discard(lost)
    fresh += lost
    lost.removeAll()
  }

  private func isEmptied(_ block: Int32) -> Bool {
    isNarrow.indices.contains(Int(block)) && isNarrow[Int(block)]
  }
}

/// What blocks weigh in bytes.
struct BlockBytes {
  /// A block over all layers.
  var whole = 1
  /// What the sliding layers have of it.
  var sliding = 0
  /// Blocks of one sequence that have to be whole at a time: those of the window, and of the rows of a step.
  var mostWhole = Int.max

  var narrow: Int { whole - sliding }

  init(whole: Int = 1, sliding: Int = 0, mostWhole: Int = .max) {
    (self.whole, self.sliding, self.mostWhole) = (whole, sliding, mostWhole)
  }

  /// - Parameter rowsPerStep: most rows that a step computes of a sequence.
  init(_ shape: [KVLayerShape], _ format: KVFormat, rowsPerStep: Int) throws(ComputeError) {
    whole = try KVCache.bytesPerBlock(shape, format: format)
    sliding = try KVCache.slidingBytesPerBlock(shape, format: format)
    guard let window = shape.compactMap(\.window).max() else { return }
    let (rows, overflow) = window.addingReportingOverflow(max(1, rowsPerStep))
    // The window may begin inside a block, and the rows may end inside one.
    if !overflow { mostWhole = rows / KVCache.blockTokens + 2 }
  }

  /// Bytes of the first `blocks` blocks of a sequence; nil when they are too many to count.
  func bytes(of blocks: Int) -> Int? {
    let count = min(blocks, mostWhole)
    let (full, overflow) = count.multipliedReportingOverflow(by: whole)
    let (rest, overflows) = (blocks - count).multipliedReportingOverflow(by: narrow)
    let (sum, exceeds) = full.addingReportingOverflow(rest)
    return overflow || overflows || exceeds ? nil : sum
  }

  /// Blocks of one sequence that fit into this many bytes: any number, where all layers slide and the window fits.
  func blocks(in bytes: Int) -> Int {
    let count = bytes / max(1, whole)
    guard count >= mostWhole else { return count }
    return narrow == 0 ? .max : mostWhole + (bytes - mostWhole * whole) / narrow
  }
}
