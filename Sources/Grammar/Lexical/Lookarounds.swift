// Conditions on what stands before or after a place of the text, as states of the automaton.

import Tokenizers

/// What must match, or must not, directly after a place (ahead) or directly before it (behind).
struct Lookaround {
  let tree: RegexTree
  /// Ahead: what the rest of the text may be if it begins with a match. Behind: what the text so far may be if it ends
  /// with one.
  let dfa: ByteDFA
  let isAhead: Bool
  let isPositive: Bool

  /// Whether the condition can be told from one side of its place alone, as its automaton does.
  static func check(_ tree: RegexTree, isAhead: Bool) throws(GrammarError) {
    let looksBothWays = tree.contains { part in
      switch part {
      case .start: isAhead
      case .end: !isAhead
      case .lookaround(_, let other, _): other != isAhead
      case .empty, .set, .sequence, .choice, .repeated, .once: false
      }
    }
    guard !looksBothWays else {
      throw .unsupported(
        keyword: isAhead ? "a lookahead" : "a lookbehind", path: "the regular expression",
        reason: isAhead
          ? "one that looks back itself, with '^', '\\b' or a lookbehind, is known only directly after a leading '^'"
          : "one that looks ahead itself, with '$', '\\b' or a lookahead, is not known")
    }
  }
}

/// An automaton without lookarounds for the texts of one with them. Its states are those of the first with what is
/// asked of the rest of the text, and with how far the text so far matches what is looked for before a place.
struct LookaroundProduct {
  private let nfa: ByteNFA
  private let end: Int32
  private var made: ByteNFA

  private struct State: Hashable {
    var inner: Int32
    /// A list of states of lookaheads that were passed: the rest of the text is a match for each, or must not be.
    var asked: Int32
    /// The list of the states of all lookbehinds.
    var behind: Int32
  }

  private var numbers: [State: Int32] = [:]
  private var states: [State] = []
  private var lists = NumberLists()
  /// Where the states of each lookaround begin in the lists.
  private let offsets: [Int32]
  /// The lookaround of a state in the lists.
  private let owners: [Int32]
  /// Bytes that no edge and no lookaround tells apart, in order.
  private let segments: [ClosedRange<UInt8>]
  private let firstSegment: [Int]
  /// The list after a list and a segment; `failed` where the rest of the text can no longer be as a lookahead asks.
  private var followers: [Int64: Int32] = [:]

  private static let failed: Int32 = -1
  /// Numbers in all lists together.
  private static let listLimit = 1 << 22

  init(of nfa: ByteNFA, end: Int32) {
    (self.nfa, self.end) = (nfa, end)
    made = nfa.emptied
    var offsets: [Int32] = []
    var owners: [Int32] = []
    for (place, lookaround) in nfa.lookarounds.enumerated() {
      offsets.append(Int32(truncatingIfNeeded: owners.count))
      owners += Array(repeating: Int32(truncatingIfNeeded: place), count: lookaround.dfa.stateCount)
    }
    (self.offsets, self.owners) = (offsets, owners)
    var begins = nfa.cuts
    (begins[0], begins[256]) = (true, true)
    for lookaround in nfa.lookarounds {
      let classOf = lookaround.dfa.classOf
      for byte in 1..<256 where classOf[byte] != classOf[byte - 1] { begins[byte] = true }
    }
    let starts = begins.indices.filter { begins[$0] }
    segments = zip(starts, starts.dropFirst()).map {
      UInt8(truncatingIfNeeded: $0)...UInt8(truncatingIfNeeded: $1 - 1)
    }
    var firstSegment = [Int](repeating: 0, count: 256)
    for (place, segment) in segments.enumerated() { firstSegment[Int(segment.lowerBound)] = place }
    self.firstSegment = firstSegment
  }

  /// The automaton, its start and its end.
  mutating func run(from start: Int32) throws(GrammarError) -> (made: ByteNFA, start: Int32, end: Int32) {
    let behind = zip(nfa.lookarounds, offsets).filter { !$0.0.isAhead }.map(\.1)
    let first = State(inner: start, asked: lists.number(of: []), behind: lists.number(of: behind))
    let madeEnd = try made.addState()
    let madeStart = try number(of: first)
    var source = madeStart
    var at = 0
    while at < states.count {
      let state = states[at]
      defer { (at, source) = (at + 1, source + 1) }
      let steps = 1 + nfa.empties[Int(state.inner)].count + nfa.edges[Int(state.inner)].count
      try made.spend(steps)
      try nfa.watch.pass(steps)
      for (condition, to) in nfa.empties[Int(state.inner)] {
        guard let next = try passed(condition, state, to) else { continue }
        if case .around = condition {
          made.link(source, try number(of: next))
        } else {
          made.link(source, try number(of: next), condition)
        }
      }
      for edge in nfa.edges[Int(state.inner)] { try follow(edge, state, source) }
      if state.inner == end, mayEnd(state) { made.link(source, madeEnd) }
    }
    return (made, madeStart, madeEnd)
  }

  private mutating func number(of state: State) throws(GrammarError) -> Int32 {
    if let known = numbers[state] { return known }
    let new = try made.addState()
    numbers[state] = new
    states.append(state)
    return new
  }

  /// The state after an empty step, if its condition may hold.
  private mutating func passed(
    _ condition: ByteNFA.Condition, _ state: State, _ to: Int32
  ) throws(GrammarError) -> State? {
    var next = state
    next.inner = to
    guard case .around(let place) = condition else { return next }
    let lookaround = nfa.lookarounds[Int(place)]
    let offset = offsets[Int(place)]
    guard lookaround.isAhead else {
      let isMatch = lists[state.behind].contains {
        owners[Int($0)] == place && lookaround.dfa.accepting[Int($0 - offset)]
      }
      return isMatch == lookaround.isPositive ? next : nil
    }
    guard !lists[state.asked].contains(offset) else { return next }
    next.asked = try number(ofList: (lists[state.asked] + [offset]).sorted())
    return next
  }

  private mutating func follow(_ edge: ByteNFA.Edge, _ state: State, _ source: Int32) throws(GrammarError) {
    var low = edge.low
    var target: State?
    var segment = firstSegment[Int(edge.low)]
    while segment < segments.count, segments[segment].lowerBound <= edge.high {
      let next = try follower(of: state, segment, edge.to)
      if next != target {
        let begin = segments[segment].lowerBound
        if let target {
          made.add(ByteNFA.Edge(low: low, high: begin - 1, to: try number(of: target)), source)
        }
        (target, low) = (next, begin)
      }
      segment += 1
    }
    if let target { made.add(ByteNFA.Edge(low: low, high: edge.high, to: try number(of: target)), source) }
  }

  private mutating func follower(of state: State, _ segment: Int, _ to: Int32) throws(GrammarError) -> State?
  {
    let asked = try follower(of: state.asked, segment)
    guard asked != Self.failed else { return nil }
    return State(inner: to, asked: asked, behind: try follower(of: state.behind, segment))
  }

  /// The list of the states that those of a list lead to.
  private mutating func follower(of list: Int32, _ segment: Int) throws(GrammarError) -> Int32 {
    let key = Int64(list) << 8 | Int64(segment)
    if let known = followers[key] { return known }
    var next: [Int32] = []
    var hasFailed = false
    for element in lists[list] {
      let (lookaround, offset) = owner(of: element)
      let state = lookaround.dfa.step(element - offset, segments[segment].lowerBound)
      if state >= 0 {
        next.append(state + offset)
      } else if lookaround.isAhead, lookaround.isPositive {
        hasFailed = true
      }
    }
    next.sort()
    let different = next.indices.filter { $0 == 0 || next[$0] != next[$0 - 1] }.map { next[$0] }
    let found = hasFailed ? Self.failed : try number(ofList: different)
    followers[key] = found
    return found
  }

  private mutating func number(ofList elements: [Int32]) throws(GrammarError) -> Int32 {
    try made.spend(1 + elements.count)
    guard lists.elementCount + elements.count <= Self.listLimit else { throw ByteNFA.tooMuchWork }
    return lists.number(of: elements)
  }

  private func owner(of element: Int32) -> (lookaround: Lookaround, offset: Int32) {
    let place = Int(owners[Int(element)])
    return (nfa.lookarounds[place], offsets[place])
  }

  /// Whether the text may end where nothing more than what is asked of its rest is missing.
  private func mayEnd(_ state: State) -> Bool {
    lists[state.asked].allSatisfy { element in
      let (lookaround, offset) = owner(of: element)
      return lookaround.dfa.accepting[Int(element - offset)] == lookaround.isPositive
    }
  }
}
