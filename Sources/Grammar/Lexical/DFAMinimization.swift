// Automata with as few states as possible, by splitting blocks of states until all in one block behave alike.

extension ByteDFA {
  /// Larger tables are left as they are.
  private static let minimizingLimit = 100_000

  /// The same language with as few states as possible. O(cells * log states).
  func minimized() -> ByteDFA {
    guard stateCount > 1, next.count <= Self.minimizingLimit else { return self }
    var blocks = StateBlocks(accepting)
    // Cells that were looked at.
    var looked = 0
    let before = ReverseEdges(cells: next, columnCount: classCount)
    while let splitter = blocks.waiting.popLast() {
      let members = Array(blocks.members(of: splitter))
      for column in 0..<classCount {
        for member in members {
          for source in before.sources(of: Int(member) * classCount + column) {
            blocks.mark(source)
            looked += 1
          }
        }
        blocks.splitMarked()
      }
      looked += members.count * classCount
    }
    guard blocks.count < stateCount else {
      return ByteDFA(
        classOf: classOf, classCount: classCount, trimmed: next, accepting: accepting, cost: cost,
        effort: effort + looked)
    }
    // Blocks are numbered in the order of their first state, so that the start stays 0.
    var number = [Int32](repeating: -1, count: blocks.count)
    var table: [Int32] = []
    var ends: [Bool] = []
    var firsts: [Int] = []
    for state in 0..<stateCount where number[blocks.block(of: state)] < 0 {
      number[blocks.block(of: state)] = Int32(truncatingIfNeeded: firsts.count)
      firsts.append(state)
    }
    for state in firsts {
      ends.append(accepting[state])
      for target in next[state * classCount..<(state + 1) * classCount] {
        table.append(target < 0 ? -1 : number[blocks.block(of: Int(target))])
      }
    }
    return ByteDFA(
      classOf: classOf, classCount: classCount, trimmed: table, accepting: ends,
      cost: firsts.map { cost[$0] },
      effort: effort + looked)
  }
}

/// A partition of states. Each block that comes to be waits to split others.
private struct StateBlocks {
  /// The states, block by block; those of a block that are marked come first.
  private var states: [Int32]
  private var place: [Int32]
  private var blockOf: [Int32]
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

  func block(of state: Int) -> Int { Int(blockOf[state]) }

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
