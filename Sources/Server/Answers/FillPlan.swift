// Filling in the middle, as the wires that offer it ask for it.

import HTTP
import Pipeline
import Platform
import Wire

extension RequestScope {
  /// The prompt for filling in the middle, and the tokens that end its answer.
  ///
  /// - Parameters:
  ///   - maxTokens: of the answer; nil where the context ends it.
  /// - Throws: 400 where the model's vocabulary has no marks for it.
  func fill(
    prefix: String, suffix: String, extras: [(name: String, text: String)] = [], maxTokens: Int?
  ) throws(APIError) -> (FillInMiddle.Result, ends: Set<Int32>) {
    guard let fill = model.fill else { throw .unsupportedParameter("suffix", cannotFill) }
    let bytes = extras.reduce(prefix.utf8.count + suffix.utf8.count) {
      $0 + $1.name.utf8.count + $1.text.utf8.count
    }
    let loan = try claimForTokens(ofBytes: bytes)
    defer { withExtendedLifetime(loan) {} }
    // At most half of the context is kept free for the answer.
    let context = model.contextTokens
    let answer = min(max(1, maxTokens ?? context / 8), context / 2)
    let result = fill.prompt(
      prefix: prefix, suffix: suffix,
      extras: extras.map { FillInMiddle.Extra(name: $0.name, text: $0.text) }, room: max(1, context - answer))
    return (result, fill.ends)
  }

  /// Why not, in words.
  var cannotFill: String {
    "the model '\(model.id)' does not fill in the middle: its vocabulary has no marks for prefix, suffix and middle, such "
      + "as <|fim_prefix|>; use one that is made for code"
  }
}
