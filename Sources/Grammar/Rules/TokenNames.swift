// Tokens as rules and patterns name them: by number, and special ones by spelling.

/// How grammars name tokens.
struct TokenNames: Sendable {
  /// Ids are below this.
  let count: Int
  /// The token of a spelling that never stands for its text.
  var special: @Sendable (String) -> Int32? = { _ in nil }
}
