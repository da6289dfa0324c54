// What compiling one pattern may cost, counted in steps: the same pattern is refused on any machine, or on none.

struct CompileBudget {
  /// Steps for making expressions deterministic: of one schema, or of all expressions and grammars beside schemas.
  var expressions = ByteNFA.totalWork
  /// Steps for all of the pattern: the above, cells of other automata, members and alternatives that are compared.
  private(set) var steps = Self.limit

  static let limit = 200_000_000
  /// Steps between two questions to `isUnwanted`.
  static let stepsPerQuestion = 1_000_000

  private let isUnwanted: () -> Bool
  /// `isUnwanted` is asked when no more steps than this are left: first of all at once.
  private var nextQuestion = Self.limit

  /// - Parameter isUnwanted: whether nobody waits for the grammar any more; once true, it stays true.
  init(isUnwanted: @escaping () -> Bool = { false }) { self.isUnwanted = isUnwanted }

  mutating func spend(_ count: Int) throws(GrammarError) {
    steps -= count
    guard steps >= 0 else {
      throw .tooLarge(reason: "compiling the pattern takes more than \(Self.limit) steps; make it smaller")
    }
    guard steps <= nextQuestion else { return }
    guard !isUnwanted() else { throw .unwanted }
    nextQuestion = steps - Self.stepsPerQuestion
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
