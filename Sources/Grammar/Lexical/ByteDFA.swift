// Deterministic automata over bytes: every lexical language (strings, numbers, expressions) is one of these.

/// Trimmed: every state lies on a path from the start (state 0) to an accepting state, so that text that has a state
/// can always be completed. An empty language has no accepting state.
final class ByteDFA: Sendable {
  /// The class of each byte; bytes of one class behave alike.
  let classOf: [UInt8]
  let classCount: Int
  /// `next[state * classCount + class]`, -1 where nothing follows.
  let next: [Int32]
  let accepting: [Bool]
  /// Whether any byte may follow.
  let continues: [Bool]
  /// Bytes of the shortest text to an accepting state.
  let cost: [Int32]
  /// Cells that were filled or compared to make it, without those of what it was made of.
  let effort: Int

  var stateCount: Int { accepting.count }
  var isEmpty: Bool { cost[0] >= Cost.none }
  var byteCount: Int { next.count * 4 + stateCount * 8 + 512 }

  @inline(__always)
  func step(_ state: Int32, _ byte: UInt8) -> Int32 {
    next[Int(state) * classCount + Int(classOf[Int(byte)])]
  }

  func accepts(_ text: some Sequence<UInt8>) -> Bool {
    var state: Int32 = 0
    for byte in text {
      state = step(state, byte)
      guard state >= 0 else { return false }
    }
    return accepting[Int(state)]
  }

  /// - Parameters:
  ///   - table: rows of `classCount` states, -1 for none; row 0 is the start.
  ///   - effort: cells that were compared to find the table.
  init(classOf: [UInt8], classCount: Int, table: [Int32], accepting: [Bool], effort: Int = 0) {
    let count = accepting.count
    self.effort = effort + table.count
    var before: [[Int32]] = Array(repeating: [], count: count)
    for state in 0..<count {
      for target in table[state * classCount..<(state + 1) * classCount] where target >= 0 {
        if before[Int(target)].last != Int32(truncatingIfNeeded: state) {
          before[Int(target)].append(Int32(truncatingIfNeeded: state))
        }
      }
    }
    var distance = [Int32](repeating: Cost.none, count: count)
    var queue = accepting.indices.filter { accepting[$0] }
    for state in queue { distance[state] = 0 }
    var head = 0
    while head < queue.count {
      let state = queue[head]
      head += 1
      for source in before[state] where distance[Int(source)] == Cost.none {
        distance[Int(source)] = distance[state] + 1
        queue.append(Int(source))
      }
    }
    // Renumber what is live, the start first.
    var number = [Int32](repeating: -1, count: count)
    var live: [Int] = []
    for state in 0..<count where state == 0 || distance[state] < Cost.none {
      number[state] = Int32(truncatingIfNeeded: live.count)
      live.append(state)
    }
    var rows: [Int32] = []
    rows.reserveCapacity(live.count * classCount)
    var flows: [Bool] = []
    for state in live {
      var flowing = false
      for target in table[state * classCount..<(state + 1) * classCount] {
        let new = target >= 0 && distance[Int(target)] < Cost.none ? number[Int(target)] : -1
        flowing = flowing || new >= 0
        rows.append(new)
      }
      flows.append(flowing)
    }
    self.classOf = classOf
    self.classCount = classCount
    next = rows
    self.accepting = live.map { accepting[$0] }
    continues = flows
    cost = live.map { distance[$0] }
  }

  /// Most states of one automaton.
  static let stateLimit = 40_000

  /// The automaton whose states are found from `start` by `step`, which is called once per class of bytes.
  ///
  /// - Parameter watch: asked on the way.
  static func explore<State: Hashable>(
    start: State, classOf: [UInt8], watch: CompileWatch? = nil,
    accepts: (State) throws(GrammarError) -> Bool, step: (State, UInt8) -> State?
  ) throws(GrammarError) -> ByteDFA {
    var representatives: [UInt8] = []
    for byte in 0..<256 where Int(classOf[byte]) == representatives.count {
      representatives.append(UInt8(truncatingIfNeeded: byte))
    }
    var number: [State: Int32] = [start: 0]
    var states = [start]
    var table: [Int32] = []
    var accepting: [Bool] = []
    var at = 0
    while at < states.count {
      let state = states[at]
      at += 1
      accepting.append(try accepts(state))
      try watch?.pass(representatives.count)
      for byte in representatives {
        guard let target = step(state, byte) else {
          table.append(-1)
          continue
        }
        if let known = number[target] {
          table.append(known)
          continue
        }
        guard states.count < stateLimit else {
          throw .tooLarge(
            reason: "an automaton of this schema or expression has more than \(stateLimit) states")
        }
        let new = Int32(truncatingIfNeeded: states.count)
        number[target] = new
        states.append(target)
        table.append(new)
      }
    }
    // A cell that is looked up takes as long as several that are compared.
    return ByteDFA(
      classOf: classOf, classCount: representatives.count, table: table, accepting: accepting,
      effort: 4 * table.count)
  }

  /// Byte classes from a key per byte, numbered in order of their first byte.
  static func classes(_ key: (UInt8) -> UInt32) -> [UInt8] {
    var number: [UInt32: UInt8] = [:]
    return (0..<256).map { byte in
      let key = key(UInt8(truncatingIfNeeded: byte))
      if let known = number[key] { return known }
      let new = UInt8(truncatingIfNeeded: number.count)
      number[key] = new
      return new
    }
  }

  // MARK: Languages

  /// Exactly these texts.
  static func texts(_ texts: [[UInt8]]) throws(GrammarError) -> ByteDFA {
    var used = [Bool](repeating: false, count: 256)
    var nodes: [[UInt8: Int32]] = [[:]]
    var ends = [false]
    for text in texts {
      var node = 0
      for byte in text {
        used[Int(byte)] = true
        if let next = nodes[node][byte] {
          node = Int(next)
        } else {
          guard nodes.count < stateLimit else {
            throw .tooLarge(reason: "the constants of this schema need more than \(stateLimit) states")
          }
          nodes[node][byte] = Int32(truncatingIfNeeded: nodes.count)
          node = nodes.count
          nodes.append([:])
          ends.append(false)
        }
      }
      ends[node] = true
    }
    let classOf = classes { used[Int($0)] ? UInt32($0) + 1 : 0 }
    let count = Int(classOf.max() ?? 0) + 1
    var table = [Int32](repeating: -1, count: nodes.count * count)
    for (node, edges) in nodes.enumerated() {
      for (byte, target) in edges { table[node * count + Int(classOf[Int(byte)])] = target }
    }
    return ByteDFA(classOf: classOf, classCount: count, table: table, accepting: ends).minimized()
  }

  private static func product(
    _ a: ByteDFA, _ b: ByteDFA, aMayEnd: Bool, bMayEnd: Bool, watch: CompileWatch?,
    accepts: (Bool, Bool) -> Bool
  ) throws(GrammarError) -> ByteDFA {
    let classOf = classes { UInt32(a.classOf[Int($0)]) << 8 | UInt32(b.classOf[Int($0)]) }
    struct Pair: Hashable {
      var a: Int32
      var b: Int32
    }
    return try explore(
      start: Pair(a: 0, b: 0), classOf: classOf, watch: watch,
      accepts: { accepts($0.a >= 0 && a.accepting[Int($0.a)], $0.b >= 0 && b.accepting[Int($0.b)]) },
      step: { pair, byte in
        let x = pair.a >= 0 ? a.step(pair.a, byte) : -1
        let y = pair.b >= 0 ? b.step(pair.b, byte) : -1
        if x < 0, !aMayEnd || y < 0 { return nil }
        if y < 0, !bMayEnd || x < 0 { return nil }
        return Pair(a: x, b: y)
      }
    ).minimized()
  }

  func intersection(_ other: ByteDFA, watch: CompileWatch? = nil) throws(GrammarError) -> ByteDFA {
    if self === other { return self }
    return try Self.product(self, other, aMayEnd: false, bMayEnd: false, watch: watch) { $0 && $1 }
  }

  func union(_ other: ByteDFA, watch: CompileWatch? = nil) throws(GrammarError) -> ByteDFA {
    if self === other { return self }
    return try Self.product(self, other, aMayEnd: true, bMayEnd: true, watch: watch) { $0 || $1 }
  }

  func subtracting(_ other: ByteDFA, watch: CompileWatch? = nil) throws(GrammarError) -> ByteDFA {
    try Self.product(self, other, aMayEnd: false, bMayEnd: true, watch: watch) { $0 && !$1 }
  }

  /// `before`, then this language, then `after`.
  func wrapped(_ before: [UInt8], _ after: [UInt8]) throws(GrammarError) -> ByteDFA {
    struct Place: Hashable {
      var part: UInt8
      var at: Int32
    }
    var keys = classOf.map { UInt32($0) << 8 }
    for byte in before + after { keys[Int(byte)] |= UInt32(byte) | 1 << 24 }
    let middle = Place(part: 1, at: 0)
    return try Self.explore(
      start: before.isEmpty ? middle : Place(part: 0, at: 0), classOf: Self.classes { keys[Int($0)] },
      accepts: { place in
        switch place.part {
        case 1: after.isEmpty && self.accepting[Int(place.at)]
        case 2: Int(place.at) == after.count
        default: false
        }
      },
      step: { place, byte in
        let at = Int(place.at)
        switch place.part {
        case 0:
          guard before[at] == byte else { return nil }
          return at + 1 == before.count ? middle : Place(part: 0, at: place.at + 1)
        case 1:
          let inner = self.step(place.at, byte)
          if inner >= 0 { return Place(part: 1, at: inner) }
          return self.accepting[at] && after.first == byte ? Place(part: 2, at: 1) : nil
        default: return at < after.count && after[at] == byte ? Place(part: 2, at: place.at + 1) : nil
        }
      })
  }

  /// Larger automata are left as they are: refinement takes as many rounds as the longest path has states.
  private static let minimizedUpTo = 1200
  private static let minimizingLimit = 16_000_000

  /// The same language with as few states as possible (Moore's refinement).
  func minimized() -> ByteDFA {
    guard stateCount > 1, stateCount <= Self.minimizedUpTo else { return self }
    var block = accepting.map { $0 ? Int32(1) : 0 }
    var blocks = Set(block).count
    var rounds = 0
    while true {
      // Long paths take many rounds; the language is the same without.
      rounds += 1
      guard rounds * next.count < Self.minimizingLimit else { return copy(effort: rounds * next.count) }
      let refined = refined(block)
      block = refined.block
      guard refined.count > blocks else { break }
      blocks = refined.count
    }
    guard blocks < stateCount else { return copy(effort: rounds * next.count) }
    // Blocks are numbered in order of their first state, so the start stays 0.
    var table = [Int32](repeating: -1, count: blocks * classCount)
    var ends = [Bool](repeating: false, count: blocks)
    for state in 0..<stateCount {
      let row = Int(block[state])
      ends[row] = accepting[state]
      for column in 0..<classCount {
        let target = next[state * classCount + column]
        table[row * classCount + column] = target < 0 ? -1 : block[Int(target)]
      }
    }
    return ByteDFA(
      classOf: classOf, classCount: classCount, table: table, accepting: ends,
      effort: effort + rounds * next.count)
  }

  /// States stay in one block that are in one, and whose bytes lead to the same blocks. Blocks are numbered in the
  /// order of their first state.
  private func refined(_ block: [Int32]) -> (block: [Int32], count: Int) {
    var refined: [Int32] = []
    var firsts: [Int] = []
    var hashes: [UInt64] = []
    var table = HashTable()
    func target(_ state: Int, _ column: Int) -> Int32 {
      let target = next[state * classCount + column]
      return target < 0 ? -1 : block[Int(target)]
    }
    for state in 0..<stateCount {
      var hash = UInt64(UInt32(bitPattern: block[state]))
      for column in 0..<classCount {
        hash = (hash ^ UInt64(UInt32(bitPattern: target(state, column)))) &* 0xBF58_476D_1CE4_E5B9
        hash ^= hash >> 29
      }
      let known = table.find(hash) { number in
        let first = firsts[Int(number)]
        return block[first] == block[state]
          && (0..<classCount).allSatisfy { target(first, $0) == target(state, $0) }
      }
      let number = known ?? Int32(truncatingIfNeeded: firsts.count)
      if known == nil {
        firsts.append(state)
        hashes.append(hash)
        table.insert(hash, number, hashes: hashes)
      }
      refined.append(number)
    }
    return (refined, firsts.count)
  }

  private func copy(effort more: Int) -> ByteDFA {
    ByteDFA(
      classOf: classOf, classCount: classCount, table: next, accepting: accepting, effort: effort + more)
  }

  /// How many texts lead from each state to acceptance; `UInt32.max` for very many.
  func textCounts() -> [UInt32] {
    var counts = [UInt32](repeating: 0, count: stateCount)
    var pending = [Int](repeating: 0, count: stateCount)
    var before: [[Int32]] = Array(repeating: [], count: stateCount)
    let weights = classOf.reduce(into: [UInt32](repeating: 0, count: classCount)) { $0[Int($1)] += 1 }
    for state in 0..<stateCount {
      for target in next[state * classCount..<(state + 1) * classCount] where target >= 0 {
        pending[state] += 1
        before[Int(target)].append(Int32(truncatingIfNeeded: state))
      }
    }
    var queue = (0..<stateCount).filter { pending[$0] == 0 }
    var done = [Bool](repeating: false, count: stateCount)
    var head = 0
    while head < queue.count {
      let state = queue[head]
      head += 1
      done[state] = true
      var total: UInt64 = accepting[state] ? 1 : 0
      for column in 0..<classCount {
        let target = next[state * classCount + column]
        if target >= 0 { total += UInt64(weights[column]) * UInt64(counts[Int(target)]) }
        total = min(total, UInt64(UInt32.max))
      }
      counts[state] = UInt32(truncatingIfNeeded: total)
      for source in before[state] {
        pending[Int(source)] -= 1
        if pending[Int(source)] == 0 { queue.append(Int(source)) }
      }
    }
    for state in 0..<stateCount where !done[state] { counts[state] = .max }
    return counts
  }

  /// Whether the texts from `state` here are the texts from `otherState` there.
  func isEquivalent(_ state: Int32, _ other: ByteDFA, _ otherState: Int32) -> Bool {
    // Nearly all pairs differ in the next byte, and the classes below take longer than to see it.
    for byte: UInt8 in 0...255 where (step(state, byte) < 0) != (other.step(otherState, byte) < 0) {
      return false
    }
    var seen: Set<UInt64> = []
    var queue = [(state, otherState)]
    let classOf = Self.classes { UInt32(self.classOf[Int($0)]) << 8 | UInt32(other.classOf[Int($0)]) }
    var representatives: [UInt8] = []
    for byte in 0..<256 where Int(classOf[byte]) == representatives.count {
      representatives.append(UInt8(truncatingIfNeeded: byte))
    }
    while let (x, y) = queue.popLast() {
      guard accepting[Int(x)] == other.accepting[Int(y)] else { return false }
      guard seen.insert(UInt64(UInt32(bitPattern: x)) << 32 | UInt64(UInt32(bitPattern: y))).inserted else {
        continue
      }
      for byte in representatives {
        let (p, q) = (step(x, byte), other.step(y, byte))
        guard (p < 0) == (q < 0) else { return false }
        if p >= 0 { queue.append((p, q)) }
      }
    }
    return true
  }
}

/// Bytes to complete an answer; saturates.
enum Cost {
  /// It cannot be completed.
  static let none: Int32 = 1 << 28

  static func sum(_ a: Int32, _ b: Int32) -> Int32 { min(none, a &+ b) }

  static func product(_ a: Int32, _ count: Int) -> Int32 {
    guard a > 0, count > 0 else { return 0 }
    return count >= Int(none) / Int(a) ? none : a &* Int32(truncatingIfNeeded: count)
  }
}
