// Regular expressions as trees.

/// What an expression matches.
package indirect enum RegexTree: Equatable {
  case empty
  case set(ScalarSet)
  case sequence([RegexTree])
  /// The first that leads to a match is preferred.
  case choice([RegexTree])
  case repeated(RegexTree, min: Int, max: Int?, isLazy: Bool = false)
  /// A tree that matches in one way at most, although its form does not show it.
  case once(RegexTree)
  /// The start of the text.
  case start
  /// The end of the text.
  case end
  /// Whether the tree matches directly after this place, or before it: `(?=x)`, `(?!x)`, `(?<=x)` and `(?<!x)`.
  case lookaround(RegexTree, isAhead: Bool, isPositive: Bool)

  /// Where one of the characters before and after is of a word and the other is none; or where both are, or none is.
  package static func wordBorder(_ word: ScalarSet, isPositive: Bool) -> RegexTree {
    .choice(
      [true, false].map { isWordBefore in
        .sequence([
          .lookaround(.set(word), isAhead: false, isPositive: isWordBefore),
          .lookaround(.set(word), isAhead: true, isPositive: isWordBefore != isPositive),
        ])
      })
  }
}

/// Why an expression cannot be used.
package enum RegexProblem: Error {
  /// - Parameter at: the number of characters before the place.
  case malformed(String, at: Int)
  case unsupported(String, at: Int, reason: String)
  case tooLarge(String)

  package var words: String {
    switch self {
    case .malformed(let words, let at): "\(words) at character \(at + 1)"
    case .unsupported(let what, let at, let reason): "\(what) at character \(at + 1): \(reason)"
    case .tooLarge(let words): words
    }
  }
}
