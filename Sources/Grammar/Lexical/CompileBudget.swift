// What compiling one pattern may cost, counted in steps: the same pattern is refused on any machine, or on none.

struct CompileBudget {
  /// Steps for making expressions deterministic: of one schema, or of all expressions and grammars beside schemas.
  var expressions = ByteNFA.totalWork
  /// Steps for all of the pattern: the above, cells of other automata, members and alternatives that are compared.
  private(set) var steps = Self.limit

  static let limit = 200_000_000
  /// Steps between two questions to `isUnwanted`.
  static let stepsPerQuestion = 1_000_000

  /// Asked within what is counted only when it is done.
  let watch: CompileWatch
  /// Whether anybody waits is asked when no more steps than this are left: first of all at once.
  private var nextQuestion = Self.limit

  /// - Parameter isUnwanted: whether nobody waits for the grammar any more; once true, it stays true.
  init(isUnwanted: @escaping () -> Bool = { false }) { watch = CompileWatch(isUnwanted) }

  mutating func spend(_ count: Int) throws(GrammarError) {
    steps -= count
    guard steps >= 0 else {
      throw .tooLarge(reason: "compiling the pattern takes more than \(Self.limit) steps; make it smaller")
    }
    guard steps <= nextQuestion else { return }
    try watch.ask()
    nextQuestion = steps - Self.stepsPerQuestion
  }

  /// What was found of the same automata before.
  private var intersections: [ByteDFA.Pair: ByteDFA] = [:]

  /// The texts of both: made and spent once for each pair.
  mutating func intersection(_ a: ByteDFA, _ b: ByteDFA) throws(GrammarError) -> ByteDFA {
    if let quick = try a.quickIntersection(b) { return quick }
    let pair = ByteDFA.Pair(a, b)
    if let known = intersections[pair] { return known }
    let made = try counted(a.intersection(b, watch: watch))
    intersections[pair] = made
    return made
  }

  /// Spends what an automaton took.
  mutating func counted(_ dfa: ByteDFA) throws(GrammarError) -> ByteDFA {
    try spend(dfa.effort)
    return dfa
  }

  /// The same for a schema of the pattern, with steps of its own for its expressions.
  var forSchema: CompileBudget {
    var other = self
    other.expressions = ByteNFA.totalWork
    return other
  }
}

/// Asks, on the way through one automaton, whether anybody waits for it. One thread's.
final class CompileWatch {
  private let isUnwanted: () -> Bool
  private var passed = 0

  /// Cells between two questions: a millisecond or some, for a cell takes as long as several steps.
  static let cellsPerQuestion = 10_000

  init(_ isUnwanted: @escaping () -> Bool) { self.isUnwanted = isUnwanted }

  func ask() throws(GrammarError) {
    guard !isUnwanted() else { throw .unwanted }
  }

  /// Counts cells that were looked at, and asks now and then.
  func pass(_ cells: Int) throws(GrammarError) {
    passed += cells
    guard passed >= Self.cellsPerQuestion else { return }
    passed = 0
    try ask()
  }
}
