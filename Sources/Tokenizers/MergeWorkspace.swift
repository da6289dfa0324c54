// The merging itself: a scan for short pieces, queues by rank for long ones.
//
// A text without spaces, or any text of a SentencePiece model, can be one piece of a megabyte. There, positions
// wait in one queue per rank, in the order in which they were found: nearly always from left to right, so that
// the next merge is the head of the lowest rank's queue. Positions found out of order wait in a heap beside
// the queues. Every merge costs O(1) and a few places of a heap over the distinct ranks in use, not a heap over
// all positions: a megabyte of one character has a handful of ranks.

/// Buffers of one `encode` call, reused from piece to piece.
struct MergeWorkspace {
  /// Tokens of the piece: characters before `merge`, the result after it.
  var ids: [Int32] = []
  /// Rank of the pair that starts at each token.
  private var ranks: [UInt32] = []
  private var merged: [Int32] = []

  /// Pieces up to this many tokens are merged by scanning for the lowest rank.
  private static let scanLimit = 96

  private var queues: RankQueues?
  private var next: [Int32] = []
  private var previous: [Int32] = []

  /// Merges `ids` as far as possible.
  mutating func merge(with table: MergeTable) {
    guard ids.count > 1 else { return }
    findPairs(table)
    if ids.count <= Self.scanLimit { mergeByScan(table) } else { mergeByQueues(table) }
  }

  private mutating func findPairs(_ table: MergeTable) {
    ranks.removeAll(keepingCapacity: true)
    merged.removeAll(keepingCapacity: true)
    for at in 0..<ids.count - 1 {
      let pair = table.lookup(ids[at], ids[at + 1])
      ranks.append(pair.rank)
      merged.append(pair.merged)
    }
    ranks.append(MergeTable.none)
    merged.append(-1)
  }

  private mutating func mergeByScan(_ table: MergeTable) {
    var count = ids.count
    while true {
      var lowest = MergeTable.none
      var at = 0
      for index in 0..<count - 1 where ranks[index] < lowest {
        lowest = ranks[index]
        at = index
      }
      guard lowest != MergeTable.none else { break }
      ids[at] = merged[at]
      count -= 1
      for index in at + 1..<max(count, at + 1) {
        ids[index] = ids[index + 1]
        ranks[index] = ranks[index + 1]
        merged[index] = merged[index + 1]
      }
      if at > 0 { (ranks[at - 1], merged[at - 1]) = table.lookup(ids[at - 1], ids[at]) }
      if at + 1 < count {
        (ranks[at], merged[at]) = table.lookup(ids[at], ids[at + 1])
      } else {
        ranks[at] = MergeTable.none
      }
      if count == 1 { break }
    }
    ids.removeLast(ids.count - count)
  }

  private mutating func mergeByQueues(_ table: MergeTable) {
    let count = ids.count
    next = (0..<count).map { Int32(truncatingIfNeeded: $0 + 1 < count ? $0 + 1 : -1) }
    previous = (0..<count).map { Int32(truncatingIfNeeded: $0 - 1) }
    var queues = queues.take() ?? RankQueues(ranks: table.count)
    for at in 0..<count - 1 where ranks[at] != MergeTable.none { queues.push(rank: ranks[at], position: at) }
    while let (rank, at) = queues.pop() {
      // The pair has changed since, or is gone.
      guard ranks[at] == rank else { continue }
      let right = Int(next[at])
      ids[at] = merged[at]
      ids[right] = -1
      ranks[right] = MergeTable.none
      next[at] = next[right]
      if next[right] >= 0 { previous[Int(next[right])] = Int32(truncatingIfNeeded: at) }
      if previous[at] >= 0 { update(Int(previous[at]), table, &queues) }
      update(at, table, &queues)
    }
    queues.reset()
    self.queues = queues
    ids.removeAll { $0 < 0 }
  }

  /// Looks the pair that starts at `at` up again and queues it.
  @inline(__always)
  private mutating func update(_ at: Int, _ table: MergeTable, _ queues: inout RankQueues) {
    guard next[at] >= 0 else {
      ranks[at] = MergeTable.none
      return
    }
    (ranks[at], merged[at]) = table.lookup(ids[at], ids[Int(next[at])])
    if ranks[at] != MergeTable.none { queues.push(rank: ranks[at], position: at) }
  }
}

/// Positions waiting to be merged, lowest rank first, leftmost first within a rank.
private struct RankQueues {
  private struct Queue {
    var rank: UInt32
    /// First and last entry, -1 when empty.
    var head: Int32 = -1
    var tail: Int32 = -1
    var lastPosition: Int32 = -1
    var isInHeap = false
  }

  /// Queue of each rank, -1 where none has been opened.
  private var queueOfRank: [Int32]
  private var queues: [Queue] = []
  /// Entries of all queues, linked; freed ones are linked from `freeEntry`.
  private var positions: [Int32] = []
  private var links: [Int32] = []
  private var freeEntry: Int32 = -1
  /// Ranks whose queues are not empty.
  private var rankHeap = MinHeap<UInt32>()
  /// Positions found out of order: rank, then position.
  private var strayHeap = MinHeap<UInt64>()

  init(ranks: Int) { queueOfRank = [Int32](repeating: -1, count: ranks) }

  mutating func push(rank: UInt32, position: Int) {
    let place = Int32(truncatingIfNeeded: position)
    var number = Int(queueOfRank[Int(rank)])
    if number < 0 {
      number = queues.count
      queueOfRank[Int(rank)] = Int32(truncatingIfNeeded: number)
      queues.append(Queue(rank: rank))
    }
    guard place > queues[number].lastPosition else {
      strayHeap.push(UInt64(rank) << 32 | UInt64(position))
      return
    }
    let entry = newEntry(place)
    if queues[number].head < 0 {
      queues[number].head = entry
    } else {
      links[Int(queues[number].tail)] = entry
    }
    queues[number].tail = entry
    queues[number].lastPosition = place
    if !queues[number].isInHeap {
      queues[number].isInHeap = true
      rankHeap.push(rank)
    }
  }

  private mutating func newEntry(_ position: Int32) -> Int32 {
    if freeEntry >= 0 {
      let entry = freeEntry
      freeEntry = links[Int(entry)]
      positions[Int(entry)] = position
      links[Int(entry)] = -1
      return entry
    }
    positions.append(position)
    links.append(-1)
    return Int32(truncatingIfNeeded: positions.count - 1)
  }

  mutating func pop() -> (rank: UInt32, position: Int)? {
    guard let rank = rankHeap.first else { return popStray() }
    let number = Int(queueOfRank[Int(rank)])
    let entry = queues[number].head
    let position = Int(positions[Int(entry)])
    if let stray = strayHeap.first, stray < UInt64(rank) << 32 | UInt64(position) { return popStray() }
    queues[number].head = links[Int(entry)]
    links[Int(entry)] = freeEntry
    freeEntry = entry
    if queues[number].head < 0 {
      queues[number].isInHeap = false
      // Later finds may lie to the left again.
      queues[number].lastPosition = -1
      rankHeap.removeFirst()
    }
    return (rank, position)
  }

  private mutating func popStray() -> (rank: UInt32, position: Int)? {
    guard let stray = strayHeap.first else { return nil }
    strayHeap.removeFirst()
    return (UInt32(truncatingIfNeeded: stray >> 32), Int(stray & 0xFFFF_FFFF))
  }

  /// Forgets everything but the buffers.
  mutating func reset() {
    for queue in queues { queueOfRank[Int(queue.rank)] = -1 }
    queues.removeAll(keepingCapacity: true)
    positions.removeAll(keepingCapacity: true)
    links.removeAll(keepingCapacity: true)
    freeEntry = -1
  }
}

/// A binary heap, smallest first.
private struct MinHeap<Element: Comparable> {
  private var elements: [Element] = []

  var first: Element? { elements.first }

  mutating func push(_ element: Element) {
    var at = elements.count
    elements.append(element)
    while at > 0, element < elements[(at - 1) / 2] {
      elements[at] = elements[(at - 1) / 2]
      at = (at - 1) / 2
    }
    elements[at] = element
  }

  mutating func removeFirst() {
    guard let last = elements.popLast(), !elements.isEmpty else { return }
    var at = 0
    while 2 * at + 1 < elements.count {
      var child = 2 * at + 1
      if child + 1 < elements.count, elements[child + 1] < elements[child] { child += 1 }
      guard elements[child] < last else { break }
      elements[at] = elements[child]
      at = child
    }
    elements[at] = last
  }
}
