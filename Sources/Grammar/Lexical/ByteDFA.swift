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
  /// The text of a language that has one alone.
  let onlyText: [UInt8]?

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
    let before = ReverseEdges(table: table, columnCount: classCount)
    var distance = [Int32](repeating: Cost.none, count: count)
    var queue = accepting.indices.filter { accepting[$0] }
    for state in queue { distance[state] = 0 }
    var head = 0
    while head < queue.count {
      let state = queue[head]
      head += 1
      for place in before.places(of: state) {
        let source = Int(before.all[place])
        guard distance[source] == Cost.none else { continue }
        distance[source] = distance[state] + 1
        queue.append(source)
      }
    }
    (self.classOf, self.classCount) = (classOf, classCount)
    if distance.contains(Cost.none) {
      let live = (0..<count).filter { $0 == 0 || distance[$0] < Cost.none }
      next = Self.rows(live, of: table, classCount)
      self.accepting = live.map { accepting[$0] }
      cost = live.map { distance[$0] }
    } else {
      (next, self.accepting, cost) = (table, accepting, distance)
    }
    continues = Self.continuing(next, self.accepting.count, classCount)
    onlyText = Self.onlyText(classOf: classOf, classCount: classCount, table: next, cost: cost)
  }

  /// The rows of some states, the start first, which lead to these alone.
  private static func rows(_ states: [Int], of table: [Int32], _ classCount: Int) -> [Int32] {
    var number = [Int32](repeating: -1, count: table.count / classCount)
    for (new, state) in states.enumerated() { number[state] = Int32(truncatingIfNeeded: new) }
    var rows: [Int32] = []
    rows.reserveCapacity(states.count * classCount)
    for state in states {
      for target in table[state * classCount..<(state + 1) * classCount] {
        rows.append(target >= 0 ? number[Int(target)] : -1)
      }
    }
    return rows
  }

  private static func continuing(_ table: [Int32], _ count: Int, _ classCount: Int) -> [Bool] {
    var continuing = [Bool](repeating: false, count: count)
    for state in 0..<count {
      // By index, here and below: a slice would count a reference for each row.
      for cell in state * classCount..<(state + 1) * classCount where table[cell] >= 0 {
        continuing[state] = true
        break
      }
    }
    return continuing
  }

  /// An automaton that is trimmed, with the bytes from each state to acceptance.
  ///
  /// - Parameter effort: cells that were compared to find the table.
  init(
    classOf: [UInt8], classCount: Int, trimmed table: [Int32], accepting: [Bool], cost: [Int32],
    effort: Int = 0
  ) {
    (self.classOf, self.classCount) = (classOf, classCount)
    next = table
    (self.accepting, self.cost) = (accepting, cost)
    continues = Self.continuing(table, accepting.count, classCount)
    self.effort = effort + table.count
    onlyText = Self.onlyText(classOf: classOf, classCount: classCount, table: table, cost: cost)
  }

  /// The automaton of one text, whose states follow each other.
  init(text: [UInt8], classOf: [UInt8], classCount: Int, table: [Int32]) {
    (self.classOf, self.classCount) = (classOf, classCount)
    next = table
    accepting = (0...text.count).map { $0 == text.count }
    continues = (0...text.count).map { $0 < text.count }
    cost = (0...text.count).map { Int32(truncatingIfNeeded: text.count - $0) }
    effort = text.count + 1 + table.count
    onlyText = text
  }

  /// The text of a trimmed automaton whose states follow each other, one by one; nil for others.
  private static func onlyText(classOf: [UInt8], classCount: Int, table: [Int32], cost: [Int32]) -> [UInt8]? {
    guard cost[0] < Cost.none, cost.count == Int(cost[0]) + 1 else { return nil }
    // The byte of each class, -1 where there are several.
    var bytes = [Int](repeating: 256, count: classCount)
    for (byte, column) in classOf.enumerated() { bytes[Int(column)] = bytes[Int(column)] == 256 ? byte : -1 }
    var text: [UInt8] = []
    var state = 0
    while true {
      let row = table[state * classCount..<(state + 1) * classCount]
      guard let cell = row.firstIndex(where: { $0 >= 0 }) else { return text }
      let byte = bytes[cell - row.startIndex]
      guard text.count < cost[0], row[(cell + 1)...].allSatisfy({ $0 < 0 }), byte >= 0 else { return nil }
      text.append(UInt8(truncatingIfNeeded: byte))
      state = Int(row[cell])
    }
  }

  /// Most states of one automaton.
  static let stateLimit = 40_000
  static let tooManyStates = GrammarError.tooLarge(
    reason: "an automaton of this schema or expression has more than \(stateLimit) states")

  /// A cell that is looked up takes as long as several that are compared.
  static let effortOfCell = 4

  /// The automaton whose states are found from `start` by `step`, which is called once per class of bytes.
  static func explore<State: ExploredState>(
    start: State, classOf: [UInt8],
    accepts: (State) throws(GrammarError) -> Bool, step: (State, UInt8) -> State?
  ) throws(GrammarError) -> ByteDFA {
    let representatives = representatives(classOf)
    var number = HashTable()
    var hashes = [start.hash]
    var states = [start]
    number.insert(hashes[0], 0, hashes: hashes)
    var table: [Int32] = []
    var accepting: [Bool] = []
    var at = 0
    while at < states.count {
      let state = states[at]
      at += 1
      accepting.append(try accepts(state))
      for byte in representatives {
        guard let target = step(state, byte) else {
          table.append(-1)
          continue
        }
        let hash = target.hash
        if let known = number.find(hash, where: { states[Int($0)] == target }) {
          table.append(known)
          continue
        }
        guard states.count < stateLimit else {
          throw tooManyStates
        }
        let new = Int32(truncatingIfNeeded: states.count)
        states.append(target)
        hashes.append(hash)
        number.insert(hash, new, hashes: hashes)
        table.append(new)
      }
    }
    return ByteDFA(
      classOf: classOf, classCount: representatives.count, table: table, accepting: accepting,
      effort: effortOfCell * table.count)
  }

  /// The first of each kind of columns that are alike in all rows, and the kind of each column.
  ///
  /// - Parameter cells: rows of `count` cells.
  static func kinds(ofColumns cells: [Int32], _ count: Int) -> (firsts: [Int], kinds: [UInt8]) {
    var hashes = [UInt64](repeating: 0, count: count)
    var column = 0
    for cell in cells {
      hashes[column] = HashTable.mix(hashes[column] ^ UInt64(UInt32(bitPattern: cell)))
      column = column + 1 == count ? 0 : column + 1
    }
    var firsts: [Int] = []
    let kinds = (0..<count).map { column in
      let known = firsts.firstIndex { first in
        hashes[first] == hashes[column]
          && stride(from: 0, to: cells.count, by: count).allSatisfy {
            cells[$0 + first] == cells[$0 + column]
          }
      }
      if known == nil { firsts.append(column) }
      return UInt8(truncatingIfNeeded: known ?? firsts.count - 1)
    }
    return (firsts, kinds)
  }

  /// The first byte of each class.
  static func representatives(_ classOf: [UInt8]) -> [UInt8] {
    var found: [UInt8] = []
    for byte in 0..<256 where Int(classOf[byte]) == found.count {
      found.append(UInt8(truncatingIfNeeded: byte))
    }
    return found
  }

  /// Byte classes from a key per byte, numbered in order of their first byte.
  static func classes(_ key: (UInt8) -> UInt32) -> [UInt8] {
    var keys: [UInt32] = []
    var last = 0
    return (0..<256).map { byte in
      let key = key(UInt8(truncatingIfNeeded: byte))
      // Neighbours are nearly always of one class.
      if last < keys.count, keys[last] == key { return UInt8(truncatingIfNeeded: last) }
      if let known = keys.firstIndex(of: key) {
        last = known
      } else {
        last = keys.count
        keys.append(key)
      }
      return UInt8(truncatingIfNeeded: last)
    }
  }

  /// Classes of bytes that behave alike in both, and the classes in each that these are of.
  static func classes(_ a: ByteDFA, _ b: ByteDFA) -> (classOf: [UInt8], columns: [(a: Int, b: Int)]) {
    var number = [Int16](repeating: -1, count: a.classCount * b.classCount)
    var columns: [(a: Int, b: Int)] = []
    let classOf = zip(a.classOf, b.classOf).map { own, other in
      let pair = Int(own) * b.classCount + Int(other)
      if number[pair] < 0 {
        number[pair] = Int16(truncatingIfNeeded: columns.count)
        columns.append((Int(own), Int(other)))
      }
      return UInt8(truncatingIfNeeded: number[pair])
    }
    return (classOf, columns)
  }

  // MARK: Languages

  private static func product(
    _ a: ByteDFA, _ b: ByteDFA, aMayEnd: Bool, bMayEnd: Bool, watch: CompileWatch?,
    accepts: (Bool, Bool) -> Bool
  ) throws(GrammarError) -> ByteDFA {
    let (classOf, columns) = classes(a, b)
    // Arrays of their own: reached through the automata, each access would count references.
    let (aNext, aEnds, aCount) = (a.next, a.accepting, a.classCount)
    let (bNext, bEnds, bCount) = (b.next, b.accepting, b.classCount)
    // What `explore` does, without a call for each cell.
    var pairs: [(a: Int32, b: Int32)] = [(0, 0)]
    var number = NumberTable()
    number.set(NumberTable.key(0, 0), 0)
    var table: [Int32] = []
    var accepting: [Bool] = []
    var at = 0
    while at < pairs.count {
      let pair = pairs[at]
      at += 1
      accepting.append(
        accepts(pair.a >= 0 && aEnds[Int(pair.a)], pair.b >= 0 && bEnds[Int(pair.b)]))
      try watch?.pass(columns.count)
      var last: (a: Int32, b: Int32, number: Int32) = (-1, -1, -1)
      for column in columns {
        let x = pair.a >= 0 ? aNext[Int(pair.a) * aCount + column.a] : -1
        let y = pair.b >= 0 ? bNext[Int(pair.b) * bCount + column.b] : -1
        guard x >= 0 ? y >= 0 || bMayEnd : y >= 0 && aMayEnd else {
          table.append(-1)
          continue
        }
        // Neighbours often lead to the same state.
        if x != last.a || y != last.b {
          last = (x, y, Int32(truncatingIfNeeded: pairs.count))
          let key = NumberTable.key(x, y)
          if let known = number[key] {
            last.number = known
          } else {
            guard pairs.count < stateLimit else { throw tooManyStates }
            pairs.append((x, y))
            number.set(key, last.number)
          }
        }
        table.append(last.number)
      }
    }
    return ByteDFA(
      classOf: classOf, classCount: columns.count, table: table, accepting: accepting,
      effort: effortOfCell * table.count
    ).minimized()
  }

  func intersection(_ other: ByteDFA, watch: CompileWatch? = nil) throws(GrammarError) -> ByteDFA {
    if let quick = try quickIntersection(other) { return quick }
    return try Self.product(self, other, aMayEnd: false, bMayEnd: false, watch: watch) { $0 && $1 }
  }

  /// What both have in common where no automaton must be made for it; nil elsewhere.
  func quickIntersection(_ other: ByteDFA) throws(GrammarError) -> ByteDFA? {
    if self === other { return self }
    if let onlyText { return other.accepts(onlyText) ? self : try Self.nothing.get() }
    if let text = other.onlyText { return accepts(text) ? other : try Self.nothing.get() }
    return nil
  }

  private static let nothing = Result<ByteDFA, GrammarError> { () throws(GrammarError) in try texts([]) }

  func union(_ other: ByteDFA, watch: CompileWatch? = nil) throws(GrammarError) -> ByteDFA {
    if self === other { return self }
    return try Self.product(self, other, aMayEnd: true, bMayEnd: true, watch: watch) { $0 || $1 }
  }

  func subtracting(_ other: ByteDFA, watch: CompileWatch? = nil) throws(GrammarError) -> ByteDFA {
    try Self.product(self, other, aMayEnd: false, bMayEnd: true, watch: watch) { $0 && !$1 }
  }

  /// `before`, then this language, then `after`. Where a text of this language may also go on with the first byte of
  /// `after`, it does.
  func wrapped(_ before: [UInt8], _ after: [UInt8]) throws(GrammarError) -> ByteDFA {
    guard !isEmpty else { return try .texts([]) }
    var frame = WrappedTable(self, bytes: before + after, rowCount: before.count + stateCount + after.count)
    for (row, byte) in before.enumerated() { frame.link(row, byte, row + 1) }
    frame.copy(self, to: before.count)
    let end = before.count + stateCount
    for (row, byte) in after.dropFirst().enumerated() { frame.link(end + row, byte, end + row + 1) }
    if let first = after.first {
      for state in 0..<stateCount where accepting[state] { frame.link(before.count + state, first, end) }
    }
    let isEnd = (0..<frame.rowCount).map { row in
      after.isEmpty ? row >= before.count && accepting[row - before.count] : row == frame.rowCount - 1
    }
    func bytes(_ count: Int) -> Int32 { Int32(clamping: count) }
    let lead = before.indices.map { Cost.sum(cost[0], bytes(before.count - $0 + after.count)) }
    let tail = after.indices.map { bytes(after.count - 1 - $0) }
    return frame.automaton(
      accepting: isEnd, cost: lead + cost.map { Cost.sum($0, bytes(after.count)) } + tail)
  }

  /// A language of JSON strings as keys of members: with a colon, and perhaps a space.
  func keyed() throws(GrammarError) -> ByteDFA {
    guard !isEmpty else { return self }
    var frame = WrappedTable(self, bytes: [0x3A, 0x20], rowCount: stateCount + 2)
    frame.copy(self, to: 0)
    for state in 0..<stateCount where accepting[state] { frame.link(state, 0x3A, stateCount) }
    frame.link(stateCount, 0x20, stateCount + 1)
    return frame.automaton(
      accepting: (0..<frame.rowCount).map { $0 >= stateCount }, cost: cost.map { Cost.sum($0, 1) } + [0, 0])
  }

  /// All texts of a language that has no more than these; nil for others.
  func texts(atMost limit: Int) -> [[UInt8]]? {
    guard !isEmpty else { return [] }
    let counts = textCounts()
    guard counts[0] < UInt32.max, Int(counts[0]) <= limit else { return nil }
    var found: [[UInt8]] = []
    var queue: [(state: Int32, text: [UInt8])] = [(0, [])]
    while let (state, text) = queue.popLast() {
      if accepting[Int(state)] { found.append(text) }
      for byte in UInt8.min...UInt8.max {
        let target = step(state, byte)
        if target >= 0 { queue.append((target, text + [byte])) }
      }
    }
    return found
  }

  /// The texts that have none of these bytes; the automaton itself where no text has one. States that stay keep their order.
  func without(_ bytes: [UInt8]) -> ByteDFA {
    let left = Set(
      bytes.filter { byte in
        stride(from: Int(classOf[Int(byte)]), to: next.count, by: classCount).contains { next[$0] >= 0 }
      })
    guard !left.isEmpty else { return self }
    let classes = Self.classes { left.contains($0) ? .max : UInt32(classOf[Int($0)]) }
    let columns = Self.representatives(classes).map { left.contains($0) ? -1 : Int(classOf[Int($0)]) }
    var table: [Int32] = []
    table.reserveCapacity(stateCount * columns.count)
    for row in stride(from: 0, to: next.count, by: classCount) {
      for column in columns { table.append(column < 0 ? -1 : next[row + column]) }
    }
    var isReached = [Bool](repeating: false, count: stateCount)
    isReached[0] = true
    var queue = [0]
    while let state = queue.popLast() {
      for cell in state * columns.count..<(state + 1) * columns.count where table[cell] >= 0 {
        let target = Int(table[cell])
        if !isReached[target] { queue.append(target) }
        isReached[target] = true
      }
    }
    let reached = isReached.indices.filter { isReached[$0] }
    return ByteDFA(
      classOf: classes, classCount: columns.count, table: Self.rows(reached, of: table, columns.count),
      accepting: reached.map { accepting[$0] })
  }

  /// The shortest text, and of several the first; nil where there is none.
  var shortestText: [UInt8]? {
    guard !isEmpty else { return nil }
    var (state, text) = (Int32(0), [UInt8]())
    while let byte = (UInt8.min...UInt8.max).first(where: { byte in
      let target = step(state, byte)
      return target >= 0 && cost[Int(target)] < cost[Int(state)]
    }) {
      text.append(byte)
      state = step(state, byte)
    }
    return text
  }

  /// How many texts lead from each state to acceptance; `UInt32.max` for very many.
  func textCounts() -> [UInt32] {
    // States that lead to a cycle keep it.
    var counts = [UInt32](repeating: .max, count: stateCount)
    let weights = classOf.reduce(into: [UInt32](repeating: 0, count: classCount)) { $0[Int($1)] += 1 }
    ReverseEdges(table: next, columnCount: classCount).eachBackwards { state in
      var total: UInt64 = accepting[state] ? 1 : 0
      for column in 0..<classCount {
        let target = next[state * classCount + column]
        if target >= 0 { total += UInt64(weights[column]) * UInt64(counts[Int(target)]) }
        total = min(total, UInt64(UInt32.max))
      }
      counts[state] = UInt32(truncatingIfNeeded: total)
    }
    return counts
  }

  /// Whether the texts from `state` here are the texts from `otherState` there.
  func isEquivalent(_ state: Int32, _ other: ByteDFA, _ otherState: Int32) -> Bool {
    guard accepting[Int(state)] == other.accepting[Int(otherState)] else { return false }
    let (own, theirs, count, theirCount) = (next, other.next, classCount, other.classCount)
    let (row, theirRow) = (Int(state) * count, Int(otherState) * theirCount)
    // Nearly all pairs differ in the next byte, and the classes below take longer than to see it.
    for (column, theirColumn) in zip(classOf, other.classOf)
    where (own[row + Int(column)] < 0) != (theirs[theirRow + Int(theirColumn)] < 0) { return false }
    let columns = Self.classes(self, other).columns
    var seen = NumberTable()
    var queue = [(state, otherState)]
    while let (x, y) = queue.popLast() {
      guard accepting[Int(x)] == other.accepting[Int(y)] else { return false }
      guard seen.set(NumberTable.key(x, y), 0) else { continue }
      for column in columns {
        let (p, q) = (own[Int(x) * count + column.a], theirs[Int(y) * theirCount + column.b])
        guard (p < 0) == (q < 0) else { return false }
        if p >= 0 { queue.append((p, q)) }
      }
    }
    return true
  }
}

/// The table of an automaton with states before and after it.
private struct WrappedTable {
  private let classOf: [UInt8]
  private let classCount: Int
  private let representatives: [UInt8]
  private var table: [Int32]
  let rowCount: Int
  /// Whether each row has all of its links.
  private var isWhole = true

  /// - Parameter bytes: the bytes on the way to the automaton and away from it.
  init(_ inner: ByteDFA, bytes: [UInt8], rowCount: Int) {
    var keys = inner.classOf.map { UInt32($0) << 8 }
    for byte in bytes { keys[Int(byte)] |= UInt32(byte) | 1 << 24 }
    classOf = ByteDFA.classes { keys[Int($0)] }
    representatives = ByteDFA.representatives(classOf)
    classCount = representatives.count
    table = [Int32](repeating: -1, count: rowCount * classCount)
    self.rowCount = rowCount
  }

  /// Links two rows, where the first has no other link for this byte.
  mutating func link(_ row: Int, _ byte: UInt8, _ target: Int) {
    let cell = row * classCount + Int(classOf[Int(byte)])
    if table[cell] < 0 { table[cell] = Int32(truncatingIfNeeded: target) } else { isWhole = false }
  }

  /// The states of the automaton become the rows from `first` on.
  mutating func copy(_ inner: ByteDFA, to first: Int) {
    let columns = representatives.map { Int(inner.classOf[Int($0)]) }
    let (next, offset) = (inner.next, Int32(truncatingIfNeeded: first))
    var cell = first * classCount
    for row in stride(from: 0, to: next.count, by: inner.classCount) {
      for column in columns {
        let target = next[row + column]
        if target >= 0 { table[cell] = target + offset }
        cell += 1
      }
    }
  }

  /// - Parameter cost: the bytes from each row to acceptance, where no link was in the way of another.
  func automaton(accepting: [Bool], cost: [Int32]) -> ByteDFA {
    guard isWhole else {
      return ByteDFA(classOf: classOf, classCount: classCount, table: table, accepting: accepting)
    }
    return ByteDFA(classOf: classOf, classCount: classCount, trimmed: table, accepting: accepting, cost: cost)
  }
}

/// A state that `explore` finds.
protocol ExploredState: Equatable {
  /// Equal for equal states, and hardly ever for others.
  var hash: UInt64 { get }
}

/// By what it is and not by its language, for what is made once of the same automata: a key keeps them. Languages are
/// compared with `isEquivalent`.
extension ByteDFA: Hashable {
  static func == (a: ByteDFA, b: ByteDFA) -> Bool { a === b }

  func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }

  /// A pair of automata as a key.
  struct Pair: Hashable {
    let a: ByteDFA
    let b: ByteDFA

    init(_ a: ByteDFA, _ b: ByteDFA) { (self.a, self.b) = (a, b) }
  }
}

/// Where the states of an automaton are reached from.
struct ReverseEdges {
  private var starts: [Int32]
  private(set) var all: [Int32] = []

  /// - Parameter table: rows of `columnCount` states, -1 for none.
  init(table: [Int32], columnCount: Int) {
    let rowCount = table.count / columnCount
    starts = [Int32](repeating: 0, count: rowCount + 1)
    for row in 0..<rowCount {
      // Neighbours often lead to the same state.
      var last: Int32 = -1
      for cell in row * columnCount..<(row + 1) * columnCount where table[cell] >= 0 && table[cell] != last {
        last = table[cell]
        starts[Int(last) + 1] += 1
      }
    }
    var next = place()
    for row in 0..<rowCount {
      var last: Int32 = -1
      for cell in row * columnCount..<(row + 1) * columnCount where table[cell] >= 0 && table[cell] != last {
        last = table[cell]
        all[Int(next[Int(last)])] = Int32(truncatingIfNeeded: row)
        next[Int(last)] += 1
      }
    }
  }

  /// Edges by the class of their byte too: row `state * columnCount + column` has the states that lead to `state` by that
  /// column.
  ///
  /// - Parameter cells: rows of `columnCount` states, -1 for none.
  init(cells: [Int32], columnCount: Int) {
    starts = [Int32](repeating: 0, count: cells.count + 1)
    var column = 0
    for target in cells {
      if target >= 0 { starts[Int(target) * columnCount + column + 1] += 1 }
      column = column + 1 == columnCount ? 0 : column + 1
    }
    var next = place()
    var state: Int32 = 0
    for target in cells {
      if target >= 0 {
        let row = Int(target) * columnCount + column
        all[Int(next[row])] = state
        next[row] += 1
      }
      column += 1
      if column == columnCount { (state, column) = (state + 1, 0) }
    }
  }

  /// Edge n leads from `from[n]` to `to[n]`.
  init(from: [Int32], to: [Int32], rowCount: Int) {
    starts = [Int32](repeating: 0, count: rowCount + 1)
    for target in to { starts[Int(target) + 1] += 1 }
    var next = place()
    for (source, target) in zip(from, to) {
      all[Int(next[Int(target)])] = source
      next[Int(target)] += 1
    }
  }

  /// Makes places of counts, each of which stands one row further on; returns where each row begins.
  private mutating func place() -> [Int32] {
    for row in 1..<starts.count { starts[row] += starts[row - 1] }
    all = [Int32](repeating: 0, count: Int(starts[starts.count - 1]))
    return starts
  }

  /// The rows that lead to `row`, once for each column.
  func sources(of row: Int) -> ArraySlice<Int32> { all[places(of: row)] }

  /// Their places in `all`, for those who ask so often that a slice each, which counts a reference, takes time.
  @inline(__always)
  func places(of row: Int) -> Range<Int> { Int(starts[row])..<Int(starts[row + 1]) }

  /// Calls `visit` with each row once all rows that it leads to have been visited: never with those that lead to a cycle.
  func eachBackwards(_ visit: (Int) -> Void) {
    var pending = [Int32](repeating: 0, count: starts.count - 1)
    for source in all { pending[Int(source)] += 1 }
    var queue = pending.indices.filter { pending[$0] == 0 }
    while let row = queue.popLast() {
      visit(row)
      for source in sources(of: row) {
        pending[Int(source)] -= 1
        if pending[Int(source)] == 0 { queue.append(Int(source)) }
      }
    }
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
