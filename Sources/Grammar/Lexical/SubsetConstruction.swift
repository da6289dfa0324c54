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
  /// The number of the set that one target alone leads to; -1 until it is first asked for.
  private var setOfOne: [Int32]

  // The sets, one after the other.
  private var members: [Int32] = []
  private var starts: [Int] = [0]
  private var hashes: [UInt64] = []
  private var number = HashTable()

  init(nfa: ByteNFA, end: Int32, classOf: [UInt8], left: Int) {
    edges = nfa.edges
    empties = nfa.empties
    self.classOf = classOf
    classCount = Int(classOf.max() ?? 0) + 1
    self.end = end
    self.left = left
    closures = Array(repeating: nil, count: edges.count)
    isMarked = [Bool](repeating: false, count: edges.count)
    isMember = isMarked
    setOfOne = [Int32](repeating: -1, count: edges.count)
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

  /// The number of a set. New sets are added after the others.
  private mutating func intern(_ states: [Int32]) throws(GrammarError) -> Int32 {
    var hash = UInt64(states.count)
    for state in states { hash = HashTable.mix(hash ^ UInt64(UInt32(bitPattern: state))) }
    let known = number.find(hash) {
      $0 > 0 && members[starts[Int($0)]..<starts[Int($0) + 1]].elementsEqual(states)
    }
    if let known { return known }
    guard hashes.count < ByteDFA.stateLimit else {
      throw ByteDFA.tooManyStates
    }
    let new = Int32(truncatingIfNeeded: hashes.count)
    members += states
    starts.append(members.count)
    hashes.append(hash)
    number.insert(hash, new, hashes: hashes)
    return new
  }

  /// The set of what empty steps lead to from the targets of edges.
  private mutating func set(_ targets: [Int32]) throws(GrammarError) -> Int32 {
    let only = targets.count == 1 ? Int(targets[0]) : -1
    if only >= 0, setOfOne[only] >= 0 {
      left -= 1
      return setOfOne[only]
    }
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
    reached.sort()
    let number = reached.isEmpty ? -1 : try intern(reached)
    if only >= 0 { setOfOne[only] = number }
    return number
  }

  mutating func run(from start: Int32, _ watch: CompileWatch) throws(GrammarError) -> ByteDFA {
    // The first set is like no other: what holds only at the start holds there, and nowhere else.
    let first = closure(start, atStart: true).sorted()
    members = first
    starts.append(first.count)
    hashes.append(0)
    let endsAtStart = Self.ending(empties, end, atStart: true)
    var accepting = [endsAtStart[Int(start)]]
    var table: [Int32] = []
    var targets: [[Int32]] = Array(repeating: [], count: classCount)
    var at = 0
    while at < hashes.count {
      let before = left
      for index in targets.indices { targets[index].removeAll(keepingCapacity: true) }
      if at > 0 { accepting.append(members[starts[at]..<starts[at + 1]].contains { mayEnd[Int($0)] }) }
      for place in starts[at]..<starts[at + 1] {
        for edge in edges[Int(members[place])] {
          // Classes are numbered in the order of the bytes.
          for index in Int(classOf[Int(edge.low)])...Int(classOf[Int(edge.high)]) {
            targets[index].append(edge.to)
            left -= 1
          }
        }
      }
      for index in 0..<classCount {
        left -= 1
        if targets[index].isEmpty {
          table.append(-1)
        } else if index > 0, targets[index] == targets[index - 1] {
          table.append(table[table.count - 1])
        } else {
          table.append(try set(targets[index]))
        }
      }
      at += 1
      guard left > 0 else { throw ByteNFA.tooMuchWork }
      try watch.pass(before - left)
    }
    return ByteDFA(
      classOf: classOf, classCount: classCount, table: table, accepting: accepting, effort: 4 * table.count)
  }
}
