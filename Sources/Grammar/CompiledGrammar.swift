// A pattern made ready to mask the tokens of one vocabulary.

/// Immutable but for its own cache of masks; shared by all requests with the same pattern.
package final class CompiledGrammar: Sendable {
  package let vocabulary: GrammarVocabulary

  /// - Throws: what cannot be enforced, is malformed, or is too large; nothing is ever left out silently.
  package init(_ pattern: Pattern, vocabulary: GrammarVocabulary) throws(GrammarError) {
    throw .unsupported(keyword: "grammar", path: "", reason: "this server does not constrain its output yet")
  }
}

/// Where one answer stands in its grammar. A value: a copy is a snapshot.
package struct GrammarMatcher: Sendable {
  package let grammar: CompiledGrammar

  package init(_ grammar: CompiledGrammar) { self.grammar = grammar }

  /// The tokens that may come next; end tokens among them when the answer may end here.
  ///
  /// - Parameter remaining: tokens that may still be generated, this one included. When few are left, only those
  ///   remain that allow the answer to be completed in time, where there are any.
  package mutating func allowed(remaining: Int) -> TokenMask { TokenMask(count: grammar.vocabulary.count) }

  /// Takes a token. False, and no change, when the grammar does not allow it.
  package mutating func accept(_ token: Int32) -> Bool { false }

  /// Whether the answer may end here.
  package var canEnd: Bool { false }

  /// Whether the answer can only end here.
  package var mustEnd: Bool { false }
}
