// From nondeterministic automata to deterministic ones: states are sets of states.

/// One determinization. Sets hold only states that bytes lead on from, or at which the text may end: what empty steps
/// pass through makes no difference.
struct SubsetConstruction {
  private let edges: [[ByteNFA.Edge]]
  private let empties: [[(condition: ByteNFA.Condition, to: Int32)]]
  private let classOf: [UInt8]
  private let classCount: Int
  private let end: Int32
  /// Steps that are left: states and edges that are followed cost one each.
  private(set) var left: Int

  /// Larger ones are found again each time: kept, they could take the square of the states.
  private static let keptClosure = 64
  /// What empty steps lead to from each state, found when it is first asked for.
  private var closures: [[Int32]?]
  /// Whether the text may end at a state, also by steps that hold only at the end.
  private let mayEnd: [Bool]
  /// Whether a state is in the closure that is being found; all false in between.
  private var isMarked: [Bool]
  /// Whether a state is in `reached`, the set that is being found; all false in between.
  private var isMember: [Bool]
  private var reached: [Int32] = []
  private static let unknown: Int32 = -2
  /// The set that one target alone leads to.
  private var setOfOne: [Int32]

  private var sets = NumberLists()
  /// Lists of targets, as many as are kept, and the set that each leads to.
  private var lists = NumberLists()
  private var setOfList: [Int32] = []
  private static let keptTargets = 1 << 20

  init(nfa: ByteNFA, end: Int32, classOf: [UInt8], left: Int) {
    edges = nfa.edges
    empties = nfa.empties
    self.classOf = classOf
    classCount = Int(classOf.max() ?? 0) + 1
    (self.end, self.left) = (end, left)
    closures = Array(repeating: nil, count: edges.count)
    isMarked = [Bool](repeating: false, count: edges.count)
    isMember = isMarked
    setOfOne = [Int32](repeating: Self.unknown, count: edges.count)
    mayEnd = Self.ending(nfa.empties, end, atStart: false)
  }

  /// The states from which empty steps lead to the end where the text ends.
  private static func ending(
    _ empties: [[(condition: ByteNFA.Condition, to: Int32)]], _ end: Int32, atStart: Bool
  ) -> [Bool] {
    var before: [[Int32]] = Array(repeating: [], count: empties.count)
    for (state, steps) in empties.enumerated() {
      for step in steps where step.condition != .atStart || atStart {
        before[Int(step.to)].append(Int32(truncatingIfNeeded: state))
      }
    }
    var mayEnd = [Bool](repeating: false, count: empties.count)
    mayEnd[Int(end)] = true
    var queue = [end]
    while let state = queue.popLast() {
      for source in before[Int(state)] where !mayEnd[Int(source)] {
        mayEnd[Int(source)] = true
        queue.append(source)
      }
    }
    return mayEnd
  }

  /// What empty steps lead to.
  private mutating func closure(_ state: Int32, atStart: Bool) -> [Int32] {
    if !atStart, let known = closures[Int(state)] { return known }
    var reached = [state]
    isMarked[Int(state)] = true
    var at = 0
    while at < reached.count {
      let state = Int(reached[at])
      at += 1
      left -= 1 + empties[state].count
      for (condition, to) in empties[state] where !isMarked[Int(to)] {
        guard condition == .always || condition == .atStart && atStart else { continue }
        isMarked[Int(to)] = true
        reached.append(to)
      }
    }
    for state in reached { isMarked[Int(state)] = false }
    let useful = reached.filter { !edges[Int($0)].isEmpty || mayEnd[Int($0)] }
    if !atStart, useful.count <= Self.keptClosure { closures[Int(state)] = useful }
    return useful
  }

  /// The set of what empty steps lead to from the targets of edges; -1 for none.
  private mutating func set(_ targets: [Int32]) throws(GrammarError) -> Int32 {
    guard let first = targets.first else { return -1 }
    left -= targets.count
    if targets.count == 1 {
      if setOfOne[Int(first)] == Self.unknown { setOfOne[Int(first)] = try find(targets) }
      return setOfOne[Int(first)]
    }
    guard lists.elementCount < Self.keptTargets else { return try find(targets) }
    let list = Int(lists.number(of: targets))
    if list == setOfList.count { setOfList.append(try find(targets)) }
    return setOfList[list]
  }

  private mutating func find(_ targets: [Int32]) throws(GrammarError) -> Int32 {
    reached.removeAll(keepingCapacity: true)
    for target in targets {
      let closure = closure(target, atStart: false)
      left -= closure.count
      for state in closure where !isMember[Int(state)] {
        isMember[Int(state)] = true
        reached.append(state)
      }
    }
    for state in reached { isMember[Int(state)] = false }
    guard !reached.isEmpty else { return -1 }
    reached.sort()
    let number = sets.number(of: reached)
    guard sets.count <= ByteDFA.stateLimit else { throw ByteDFA.tooManyStates }
    return number
  }

  mutating func run(from start: Int32, _ watch: CompileWatch) throws(GrammarError) -> ByteDFA {
    // The first set is like no other: what holds only at the start holds there, and nowhere else. Its place among the
    // sets is that of the empty one, which is no state.
    var members = closure(start, atStart: true).sorted()
    _ = sets.number(of: [])
    var accepting = [Self.ending(empties, end, atStart: true)[Int(start)]]
    var table: [Int32] = []
    var spans: [ClassSpan] = []
    var active: [ClassSpan] = []
    var targets: [Int32] = []
    var at: Int32 = 0
    while at < sets.count {
      let before = left
      if at > 0 {
        // A copy: all sets would be copied with the next that is added, if this were a part of them.
        members.removeAll(keepingCapacity: true)
        members.append(contentsOf: sets[at])
        accepting.append(members.contains { mayEnd[Int($0)] })
      }
      spans.removeAll(keepingCapacity: true)
      for state in members {
        for edge in edges[Int(state)] {
          // Classes are numbered in the order of the bytes.
          spans.append(
            ClassSpan(first: Int(classOf[Int(edge.low)]), last: Int(classOf[Int(edge.high)]), to: edge.to))
        }
      }
      // Those of one state are in order.
      if members.count > 1 { spans.sort { $0.first < $1.first } }
      active.removeAll(keepingCapacity: true)
      var next = 0
      var column = 0
      while column < classCount {
        active.removeAll { $0.last < column }
        while next < spans.count, spans[next].first == column {
          active.append(spans[next])
          next += 1
        }
        // Up to the next class in which another edge begins or one of these no longer leads on.
        var end = next < spans.count ? spans[next].first : classCount
        targets.removeAll(keepingCapacity: true)
        for span in active {
          end = min(end, span.last + 1)
          targets.append(span.to)
        }
        let found = try set(targets)
        left -= (1 + active.count) * (end - column)
        for _ in column..<end { table.append(found) }
        column = end
      }
      at += 1
      guard left > 0 else { throw ByteNFA.tooMuchWork }
      try watch.pass(before - left)
    }
    return ByteDFA(
      classOf: classOf, classCount: classCount, table: table, accepting: accepting,
      effort: ByteDFA.effortOfCell * table.count)
  }

  /// An edge by the classes of its bytes.
  private struct ClassSpan {
    let first: Int
    let last: Int
    let to: Int32
  }
}

/// Lists of numbers, each kept once.
struct NumberLists {
  private var elements: [Int32] = []
  private var starts: [Int] = [0]
  private var hashes: [UInt64] = []
  private var table = HashTable()

  var count: Int { hashes.count }
  /// Of all lists together.
  var elementCount: Int { elements.count }

  subscript(number: Int32) -> ArraySlice<Int32> { elements[starts[Int(number)]..<starts[Int(number) + 1]] }

  /// The place of a list. New ones are added after the others.
  mutating func number(of list: [Int32]) -> Int32 {
    var hash = UInt64(list.count)
    for element in list { hash = HashTable.mix(hash ^ UInt64(UInt32(bitPattern: element))) }
    if let known = table.find(hash, where: { hashes[Int($0)] == hash && self[$0].elementsEqual(list) }) {
      return known
    }
    let new = Int32(truncatingIfNeeded: hashes.count)
    elements += list
    starts.append(elements.count)
    hashes.append(hash)
    table.insert(hash, new, hashes: hashes)
    return new
  }
}
