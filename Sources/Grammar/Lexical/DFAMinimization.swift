// Automata with as few states as possible: from their ends where they have no loops, and else by splitting blocks.

extension ByteDFA {
  /// Larger tables are left as they are.
  private static let minimizingLimit = 100_000

  /// The same language with as few states as possible. O(cells) without loops, O(cells * log states) with them.
  func minimized() -> ByteDFA {
    guard stateCount > 1, next.count <= Self.minimizingLimit else { return self }
    let (blockOf, count, looked) = blocksWithoutLoops() ?? splitBlocks()
    guard count < stateCount else {
      return ByteDFA(
        classOf: classOf, classCount: classCount, trimmed: next, accepting: accepting, cost: cost,
        effort: effort + looked)
    }
    // Blocks are numbered in the order of their first state, so that the start stays 0.
    var number = [Int32](repeating: -1, count: count)
    var table: [Int32] = []
    table.reserveCapacity(count * classCount)
    var ends: [Bool] = []
    var firsts: [Int] = []
    for state in 0..<stateCount where number[Int(blockOf[state])] < 0 {
      number[Int(blockOf[state])] = Int32(truncatingIfNeeded: firsts.count)
      firsts.append(state)
    }
    for state in firsts {
      ends.append(accepting[state])
      for target in next[state * classCount..<(state + 1) * classCount] {
        table.append(target < 0 ? -1 : number[Int(blockOf[Int(target)])])
      }
    }
    return ByteDFA(
      classOf: classOf, classCount: classCount, trimmed: table, accepting: ends,
      cost: firsts.map { cost[$0] },
      effort: effort + looked)
  }

  /// The block of each state, how many there are, and the cells that were looked at.
  typealias Blocks = (blockOf: [Int32], count: Int, looked: Int)

  /// Whether there are only so many texts: no state leads to itself again.
  var isFinite: Bool { orderWithoutLoops() != nil }

  /// The states, each after all that lead to it; nil with loops.
  private func orderWithoutLoops() -> [Int32]? {
    // An array of its own, by index: through the automaton and in slices, each row would count references.
    let next = next
    var entering = [Int32](repeating: 0, count: stateCount)
    for target in next where target >= 0 { entering[Int(target)] += 1 }
    var order = entering.indices.filter { entering[$0] == 0 }.map { Int32(truncatingIfNeeded: $0) }
    order.reserveCapacity(stateCount)
    var head = 0
    while head < order.count {
      let row = Int(order[head]) * classCount
      head += 1
      for cell in row..<row + classCount where next[cell] >= 0 {
        entering[Int(next[cell])] -= 1
        if entering[Int(next[cell])] == 0 { order.append(next[cell]) }
      }
    }
    return order.count == stateCount ? order : nil
  }

  /// From the ends backwards: states are alike where they lead to the same blocks. Nil with loops.
  func blocksWithoutLoops() -> Blocks? {
    guard let order = orderWithoutLoops() else { return nil }
    let next = next
    var blockOf = [Int32](repeating: -1, count: stateCount)
    var (firsts, hashes, table) = ([Int](), [UInt64](), HashTable())
    for state in order.reversed().map(Int.init) {
      let row = state * classCount
      var hash: UInt64 = accepting[state] ? 1 : 2
      for cell in row..<row + classCount {
        let block = next[cell] < 0 ? -1 : blockOf[Int(next[cell])]
        hash = HashTable.mix(hash ^ UInt64(UInt32(bitPattern: block)))
      }
      let known = table.find(hash) { block in
        let other = firsts[Int(block)]
        return accepting[other] == accepting[state]
          && (0..<classCount).allSatisfy { column in
            let (a, b) = (next[row + column], next[other * classCount + column])
            return a == b || a >= 0 && b >= 0 && blockOf[Int(a)] == blockOf[Int(b)]
          }
      }
      if let known {
        blockOf[state] = known
        continue
      }
      blockOf[state] = Int32(truncatingIfNeeded: firsts.count)
      firsts.append(state)
      hashes.append(hash)
      table.insert(hash, blockOf[state], hashes: hashes)
    }
    return (blockOf, firsts.count, 2 * next.count)
  }

  /// By splitting blocks of states until all in one block behave alike.
  func splitBlocks() -> Blocks {
    var blocks = StateBlocks(accepting)
    var looked = 0
    let before = ReverseEdges(cells: next, columnCount: classCount)
    while let splitter = blocks.waiting.popLast() {
      let members = Array(blocks.members(of: splitter))
      for column in 0..<classCount {
        for member in members {
          let places = before.places(of: Int(member) * classCount + column)
          for place in places { blocks.mark(before.all[place]) }
          looked += places.count
        }
        blocks.splitMarked()
      }
      looked += members.count * classCount
    }
    return (blocks.blockOf, blocks.count, looked)
  }
}

/// A partition of states. Each block that comes to be waits to split others.
private struct StateBlocks {
  /// The states, block by block; those of a block that are marked come first.
  private var states: [Int32]
  private var place: [Int32]
  private(set) var blockOf: [Int32]
  private var starts: [Int] = []
  private var ends: [Int] = []
  private var markedCount: [Int] = []
  private var touched: [Int] = []
  var waiting: [Int] = []

  /// Accepting states and others.
  init(_ accepting: [Bool]) {
    let (yes, no) = (accepting.indices.filter { accepting[$0] }, accepting.indices.filter { !accepting[$0] })
    states = (yes + no).map { Int32(truncatingIfNeeded: $0) }
    place = [Int32](repeating: 0, count: accepting.count)
    for (at, state) in states.enumerated() { place[Int(state)] = Int32(truncatingIfNeeded: at) }
    blockOf = accepting.map { $0 || yes.isEmpty ? 0 : 1 }
    if !yes.isEmpty { add(0, yes.count) }
    if !no.isEmpty { add(yes.count, accepting.count) }
    if no.isEmpty { blockOf = [Int32](repeating: 0, count: accepting.count) }
  }

  private mutating func add(_ start: Int, _ end: Int) {
    waiting.append(starts.count)
    starts.append(start)
    ends.append(end)
    markedCount.append(0)
  }

  var count: Int { starts.count }

  func members(of block: Int) -> ArraySlice<Int32> { states[starts[block]..<ends[block]] }

  mutating func mark(_ state: Int32) {
    let block = Int(blockOf[Int(state)])
    let (from, to) = (Int(place[Int(state)]), starts[block] + markedCount[block])
    guard from >= to else { return }
    let other = states[to]
    states[to] = state
    states[from] = other
    place[Int(state)] = Int32(truncatingIfNeeded: to)
    place[Int(other)] = Int32(truncatingIfNeeded: from)
    if markedCount[block] == 0 { touched.append(block) }
    markedCount[block] += 1
  }

  /// Parts marked states from the others of their blocks. The smaller part becomes the new block: the larger one waits
  /// where the whole still waited, and else has nothing new to say.
  mutating func splitMarked() {
    guard !touched.isEmpty else { return }
    for block in touched {
      let (start, end, middle) = (starts[block], ends[block], starts[block] + markedCount[block])
      markedCount[block] = 0
      guard middle < end else { continue }
      let new = Int32(truncatingIfNeeded: count)
      if middle - start <= end - middle {
        starts[block] = middle
        add(start, middle)
      } else {
        ends[block] = middle
        add(middle, end)
      }
      for state in states[starts[Int(new)]..<ends[Int(new)]] { blockOf[Int(state)] = new }
    }
    touched.removeAll(keepingCapacity: true)
  }
}
