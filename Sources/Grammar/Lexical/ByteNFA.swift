// Regular expressions to automata: through a nondeterministic automaton over bytes.

import Tokenizers

/// An automaton with empty steps, some of which hold only at the start or the end of the text, or where what stands
/// before or after them is as they say.
struct ByteNFA {
  enum Condition: Equatable {
    case always, atStart, atEnd
    /// One of the lookarounds.
    case around(Int32)
  }

  struct Edge: Hashable {
    var low: UInt8
    var high: UInt8
    var to: Int32
  }

  private(set) var edges: [[Edge]] = []
  private(set) var empties: [[(condition: Condition, to: Int32)]] = []
  /// The conditions on what stands before and after a step, each once.
  private(set) var lookarounds: [Lookaround] = []
  /// The bytes of each set of scalars, found once.
  private var setBytes: [[ClosedRange<UInt32>]: SpelledSet] = [:]
  private let spelling: Spelling

  /// Steps that are left.
  private(set) var work: Int

  private static let stateLimit = 100_000
  private static let lookaroundLimit = 64
  private static let workLimit = 12_000_000
  /// Steps for all expressions of one pattern together.
  static let totalWork = 2 * workLimit

  let watch: CompileWatch

  private init(spelling: Spelling, work: Int, watch: CompileWatch) {
    (self.spelling, self.work, self.watch) = (spelling, work, watch)
  }

  /// An automaton without states, for the same spelling, with the steps that are left.
  var emptied: ByteNFA { ByteNFA(spelling: spelling, work: work, watch: watch) }

  mutating func spend(_ steps: Int) throws(GrammarError) {
    work -= steps
    guard work >= 0 else { throw Self.tooMuchWork }
  }

  static let tooMuchWork = GrammarError.tooLarge(
    reason: "a regular expression takes too long to make deterministic")

  mutating func addState() throws(GrammarError) -> Int32 {
    guard edges.count < Self.stateLimit else {
      throw .tooLarge(reason: "a regular expression needs more than \(Self.stateLimit) states")
    }
    edges.append([])
    empties.append([])
    return Int32(truncatingIfNeeded: edges.count - 1)
  }

  mutating func link(_ from: Int32, _ to: Int32, _ condition: Condition = .always) {
    empties[Int(from)].append((condition, to))
  }

  mutating func add(_ edge: Edge, _ from: Int32) { edges[Int(from)].append(edge) }

  /// Adds `tree` after `from`; returns where it ends.
  private mutating func add(_ tree: RegexTree, _ from: Int32) throws(GrammarError) -> Int32 {
    // What is empty adds no states, and may be repeated very often.
    try spend(1)
    switch tree {
    case .empty: return from
    case .once(let inner): return try add(inner, from)
    case .set(let set): return try addSet(set, from)
    case .sequence(let parts):
      var at = from
      for part in parts { at = try add(part, at) }
      return at
    case .choice(let branches):
      let end = try addState()
      for branch in branches {
        let start = try addState()
        link(from, start)
        link(try add(branch, start), end)
      }
      return end
    case .repeated(let inner, let min, let max, _):
      var at = from
      for _ in 0..<min { at = try add(inner, at) }
      guard let max else {
        let loop = try addState()
        link(at, loop)
        link(try add(inner, loop), loop)
        let end = try addState()
        link(loop, end)
        return end
      }
      let end = try addState()
      for _ in 0..<Swift.max(0, max - min) {
        link(at, end)
        at = try add(inner, at)
      }
      link(at, end)
      return end
    case .start, .end:
      let next = try addState()
      if case .start = tree { link(from, next, .atStart) } else { link(from, next, .atEnd) }
      return next
    case .lookaround(let inner, let isAhead, let isPositive):
      let place = try lookaround(inner, isAhead: isAhead, isPositive: isPositive)
      let next = try addState()
      link(from, next, .around(place))
      return next
    }
  }

  /// The place of a condition among the lookarounds.
  private mutating func lookaround(
    _ tree: RegexTree, isAhead: Bool, isPositive: Bool
  ) throws(GrammarError) -> Int32 {
    let known = lookarounds.firstIndex {
      $0.isAhead == isAhead && $0.isPositive == isPositive && $0.tree == tree
    }
    if let known { return Int32(truncatingIfNeeded: known) }
    guard lookarounds.count < Self.lookaroundLimit else {
      throw .tooLarge(
        reason: "a regular expression has more than \(Self.lookaroundLimit) different lookarounds")
    }
    try Lookaround.check(tree, isAhead: isAhead)
    var other = emptied
    let dfa = try other.texts(of: .sequence(isAhead ? [tree, .anything] : [.anything, tree])).minimized()
    work = other.work
    try spend(dfa.effort)
    lookarounds.append(Lookaround(tree: tree, dfa: dfa, isAhead: isAhead, isPositive: isPositive))
    return Int32(truncatingIfNeeded: lookarounds.count - 1)
  }

  private mutating func addSet(_ set: ScalarSet, _ from: Int32) throws(GrammarError) -> Int32 {
    let end = try addState()
    try spend(set.ranges.count)
    let spelled = try bytes(of: set)
    // The first state is where the set begins, the second its end; the others are new.
    let first = Int32(truncatingIfNeeded: edges.count - 2)
    for _ in spelled.edges.dropFirst(2) { _ = try addState() }
    for (state, list) in spelled.edges.enumerated() {
      let source = state == 0 ? from : first + Int32(truncatingIfNeeded: state)
      for edge in list {
        let target = edge.to == SpelledSet.end ? end : first + edge.to
        edges[Int(source)].append(Edge(low: edge.low, high: edge.high, to: target))
      }
    }
    return end
  }

  private mutating func bytes(of set: ScalarSet) throws(GrammarError) -> SpelledSet {
    if let known = setBytes[set.ranges] { return known }
    let spelled = SpelledSet(spelling.sequences(set))
    try spend(spelled.steps)
    setBytes[set.ranges] = spelled
    return spelled
  }

  /// The bytes at which an edge begins, or before which one has ended; 256 is after the last byte.
  var cuts: [Bool] {
    var cuts = [Bool](repeating: false, count: 257)
    for list in edges {
      for edge in list {
        cuts[Int(edge.low)] = true
        cuts[Int(edge.high) + 1] = true
      }
    }
    return cuts
  }

  /// The class of each byte: bytes between which no edge tells a difference.
  private func byteClasses() -> [UInt8] {
    let cuts = cuts
    var part: UInt32 = 0
    var parts = [UInt32](repeating: 0, count: 256)
    for byte in 0..<256 {
      if cuts[byte] { part += 1 }
      parts[byte] = part
    }
    return ByteDFA.classes { parts[Int($0)] }
  }

  /// The texts of an expression, in an automaton that has no states yet.
  private mutating func texts(of tree: RegexTree) throws(GrammarError) -> ByteDFA {
    let start = try addState()
    let end = try add(tree, start)
    return try determinized(start, end)
  }

  private mutating func determinized(_ start: Int32, _ end: Int32) throws(GrammarError) -> ByteDFA {
    guard lookarounds.isEmpty else {
      var product = LookaroundProduct(of: self, end: end)
      var (plain, start, end) = try product.run(from: start)
      defer { work = plain.work }
      return try plain.determinized(start, end)
    }
    var subsets = SubsetConstruction(
      nfa: self, end: end, classOf: byteClasses(), left: min(work, Self.workLimit))
    let limit = subsets.left
    defer { work -= limit - subsets.left }
    return try subsets.run(from: start, watch)
  }

  /// The texts that `tree` matches: as a whole, or anywhere in them.
  ///
  /// - Parameter budget: what is left for this expression and the others of the same pattern.
  static func automaton(
    _ tree: RegexTree, spelling: Spelling, anywhere: Bool, budget: inout CompileBudget
  ) throws(GrammarError) -> ByteDFA {
    var (main, conditions) = tree.leadingLookaheads
    if anywhere { main = .sequence([.anything, main, .anything]) }
    var dfa = try plain(main, spelling, &budget)
    for (condition, isPositive) in conditions {
      let other = try plain(.sequence([.start, condition, .anything]), spelling, &budget)
      dfa = try budget.counted(
        isPositive
          ? dfa.intersection(other, watch: budget.watch) : dfa.subtracting(other, watch: budget.watch))
    }
    return try budget.counted(dfa.minimized())
  }

  /// The same for one expression alone.
  static func automaton(
    _ tree: RegexTree, spelling: Spelling, anywhere: Bool
  ) throws(GrammarError) -> ByteDFA {
    var budget = CompileBudget()
    return try automaton(tree, spelling: spelling, anywhere: anywhere, budget: &budget)
  }

  private static func plain(
    _ tree: RegexTree, _ spelling: Spelling, _ budget: inout CompileBudget
  ) throws(GrammarError) -> ByteDFA {
    let before = budget.expressions
    var nfa = ByteNFA(spelling: spelling, work: before, watch: budget.watch)
    defer { budget.expressions = nfa.work }
    let dfa = try nfa.texts(of: tree)
    try budget.spend(before - nfa.work)
    return dfa
  }
}
