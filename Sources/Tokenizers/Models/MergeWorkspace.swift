// The merging itself: a scan for short pieces, queues by rank for long ones.
//
// A text without spaces, or any text of a SentencePiece model, can be one piece of a megabyte. There, pairs wait in
// one queue per rank, in the order in which they were found: nearly always from left to right, so that the next
// merge is the head of the lowest rank's queue. Pairs found out of order wait in a heap beside the queues. A merge
// costs O(1) and a few steps in a heap of the distinct ranks in use, not in a heap of all pairs. Before that, sweeps
// over the whole piece do the merges that are everywhere, as in a megabyte of one character.

/// A pair of neighbours: the rank of their merge, and what it gives.
private typealias Pair = (rank: UInt32, merged: Int32)

/// Buffers of one `encode` call, reused from piece to piece.
struct MergeWorkspace {
  /// Tokens of the piece: characters before `merge`, the result after it.
  var ids: [Int32] = []
  /// The pair that starts at each token; none at the last.
  private var pairs: [Pair] = []
  private var queues: RankQueues?

  /// Pieces up to this many tokens are merged by scanning for the lowest rank.
  private static let scanLimit = 96

  /// Merges `ids` as far as possible.
  mutating func merge(with table: MergeTable) {
    guard ids.count > 1 else { return }
    pairs.removeAll(keepingCapacity: true)
    for at in 0..<ids.count - 1 { pairs.append(table.lookup(ids[at], ids[at + 1])) }
    pairs.append((MergeTable.none, -1))
    if ids.count > Self.scanLimit { mergeBySweeps(table) }
    if ids.count <= Self.scanLimit {
      mergeByScan(table)
    } else {
      var queues = queues.take() ?? RankQueues(ranks: table.count)
      queues.merge(&ids, pairs, table)
      self.queues = queues
    }
  }

  private mutating func mergeByScan(_ table: MergeTable) {
    var count = ids.count
    while count > 1 {
      var lowest = MergeTable.none
      var at = 0
      for index in 0..<count - 1 where pairs[index].rank < lowest {
        lowest = pairs[index].rank
        at = index
      }
      guard lowest != MergeTable.none else { break }
      ids[at] = pairs[at].merged
      count -= 1
      for index in at + 1..<max(count, at + 1) {
        ids[index] = ids[index + 1]
        pairs[index - 1] = pairs[index]
      }
      if at > 0 { pairs[at - 1] = table.lookup(ids[at - 1], ids[at]) }
      if at + 1 < count { pairs[at] = table.lookup(ids[at], ids[at + 1]) }
    }
    ids.removeLast(ids.count - count)
  }

  /// Sweeps while the lowest rank is that of at least every eighth pair. Each sweep then shortens the piece by a
  /// sixteenth or more, so that all of them together are linear.
  private mutating func mergeBySweeps(_ table: MergeTable) {
    while true {
      var lowest = MergeTable.none
      var count = 0
      for pair in pairs where pair.rank <= lowest {
        count = pair.rank < lowest ? 1 : count + 1
        lowest = pair.rank
      }
      guard lowest != MergeTable.none, count >= ids.count / 8, sweep(lowest, table) else { return }
    }
  }

  /// Merges the pairs of the lowest rank from left to right.
  ///
  /// What a merge makes with the token after it may come even earlier in the order, and is merged at once: runs of
  /// spaces grow so in vocabularies that list the longest run first.
  ///
  /// - Returns: false when it stopped because a merge made such a pair with the token before it.
  private mutating func sweep(_ rank: UInt32, _ table: MergeTable) -> Bool {
    var isInOrder = true
    var written = 0
    var at = 0
    while at < ids.count {
      var id = ids[at]
      var pair = pairs[at]
      while isInOrder, pair.rank <= rank {
        id = pair.merged
        at += 1
        pair = at + 1 < ids.count ? table.lookup(id, ids[at + 1]) : (MergeTable.none, -1)
        if written > 0 {
          pairs[written - 1] = table.lookup(ids[written - 1], id)
          isInOrder = pairs[written - 1].rank > rank
        }
      }
      ids[written] = id
      pairs[written] = pair
      written += 1
      at += 1
    }
    ids.removeLast(ids.count - written)
    pairs.removeLast(pairs.count - written)
    return isInOrder
  }
}

/// The tokens of a long piece, linked in text order, and their pairs, linked in queues by rank.
private struct RankQueues {
  private struct Node {
    var id: Int32
    /// Neighbours in the text, -1 at the ends.
    var previous: Int32
    var next: Int32
    /// Rank of the pair that starts here, and what it becomes.
    var rank = MergeTable.none
    var merged: Int32 = -1
    /// Neighbours in the queue of the rank, -1 at its ends; `unqueued` before when the pair is in no queue.
    var queuePrevious = Self.unqueued
    var queueNext: Int32 = -1

    static let unqueued: Int32 = -2
  }

  private struct Queue {
    var rank: UInt32
    var head: Int32 = -1
    var tail: Int32 = -1
    var isInHeap = false
  }

  private var nodes: [Node] = []
  private var queues: [Queue] = []
  /// Queue of each rank, -1 where none has been opened.
  private var queueOfRank: [Int32]
  /// Ranks whose queues have been filled; they may have become empty since.
  private var rankHeap = MinHeap<UInt32>()
  /// Pairs found out of order: rank, then position. They may have changed since.
  private var strays = MinHeap<UInt64>()

  init(ranks: Int) { queueOfRank = [Int32](repeating: -1, count: ranks) }

  mutating func merge(_ ids: inout [Int32], _ pairs: [Pair], _ table: MergeTable) {
    nodes.removeAll(keepingCapacity: true)
    nodes.reserveCapacity(ids.count)
    for at in ids.indices {
      let here = Int32(truncatingIfNeeded: at)
      nodes.append(Node(id: ids[at], previous: here - 1, next: here + 1))
    }
    nodes[ids.count - 1].next = -1
    for at in pairs.indices { set(pairs[at], at) }
    while let at = popLowest() { mergePair(at, table) }
    ids.removeAll(keepingCapacity: true)
    var at = 0
    while at >= 0 {
      ids.append(nodes[at].id)
      at = Int(nodes[at].next)
    }
    for queue in queues { queueOfRank[Int(queue.rank)] = -1 }
    queues.removeAll(keepingCapacity: true)
  }

  private mutating func mergePair(_ at: Int, _ table: MergeTable) {
    let right = Int(nodes[at].next)
    unqueue(at)
    unqueue(right)
    nodes[right].rank = MergeTable.none
    nodes[at].id = nodes[at].merged
    let next = nodes[right].next
    nodes[at].next = next
    if next >= 0 { nodes[Int(next)].previous = Int32(truncatingIfNeeded: at) }
    let previous = Int(nodes[at].previous)
    if previous >= 0 {
      unqueue(previous)
      update(previous, table)
    }
    update(at, table)
  }

  /// Looks up the pair that starts at `at`, which is not queued, and queues it if it merges.
  @inline(__always)
  private mutating func update(_ at: Int, _ table: MergeTable) {
    let next = nodes[at].next
    set(next >= 0 ? table.lookup(nodes[at].id, nodes[Int(next)].id) : (MergeTable.none, -1), at)
  }

  @inline(__always)
  private mutating func set(_ pair: Pair, _ at: Int) {
    nodes[at].rank = pair.rank
    guard pair.rank != MergeTable.none else { return }
    nodes[at].merged = pair.merged
    enqueue(at, pair.rank)
  }

  @inline(__always)
  private mutating func enqueue(_ at: Int, _ rank: UInt32) {
    let here = Int32(truncatingIfNeeded: at)
    var number = Int(queueOfRank[Int(rank)])
    if number < 0 {
      number = queues.count
      queueOfRank[Int(rank)] = Int32(truncatingIfNeeded: number)
      queues.append(Queue(rank: rank))
    }
    let tail = queues[number].tail
    if tail < 0 {
      queues[number].head = here
    } else if tail < here {
      nodes[Int(tail)].queueNext = here
    } else {
      strays.push(UInt64(rank) << 32 | UInt64(at))
      return
    }
    queues[number].tail = here
    nodes[at].queuePrevious = tail
    nodes[at].queueNext = -1
    if !queues[number].isInHeap {
      queues[number].isInHeap = true
      rankHeap.push(rank)
    }
  }

  @inline(__always)
  private mutating func unqueue(_ at: Int) {
    let node = nodes[at]
    guard node.queuePrevious != Node.unqueued else { return }
    nodes[at].queuePrevious = Node.unqueued
    let number = Int(queueOfRank[Int(node.rank)])
    if node.queuePrevious >= 0 {
      nodes[Int(node.queuePrevious)].queueNext = node.queueNext
    } else {
      queues[number].head = node.queueNext
    }
    if node.queueNext >= 0 {
      nodes[Int(node.queueNext)].queuePrevious = node.queuePrevious
    } else {
      queues[number].tail = node.queuePrevious
    }
  }

  /// The pair to merge next: lowest rank, then leftmost. It stays where it waits.
  @inline(__always)
  private mutating func popLowest() -> Int? {
    while true {
      var lowest: UInt64?
      if let rank = rankHeap.first {
        let number = Int(queueOfRank[Int(rank)])
        guard queues[number].head >= 0 else {
          queues[number].isInHeap = false
          rankHeap.removeFirst()
          continue
        }
        lowest = UInt64(rank) << 32 | UInt64(UInt32(bitPattern: queues[number].head))
      }
      if let stray = strays.first, stray < lowest ?? .max {
        strays.removeFirst()
        let at = Int(stray & 0xFFFF_FFFF)
        if nodes[at].rank == UInt32(truncatingIfNeeded: stray >> 32) { return at }
        continue
      }
      return lowest.map { Int($0 & 0xFFFF_FFFF) }
    }
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
