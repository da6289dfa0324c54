// What an index wants of a model: texts become vectors.

/// What a text is for; models put different words in front of the two.
package enum TextRole: Sendable {
  case query, passage
}

/// A model that makes vectors of texts. Usable from any thread.
package protocol PassageEncoder: Sendable {
  /// Components of a vector.
  var dimensions: Int { get }
  /// Names everything that vectors depend on.
  var fingerprint: String { get }
  /// Names everything that the bits of vectors depend on: beside `fingerprint`, how this machine computes.
  var computation: String { get }
  /// Most tokens of a passage, without special ones and those of the prompt.
  var room: Int { get }
  /// Tokens of a text, without special ones.
  func tokenCount(_ text: String) -> Int
  /// The share of a text's tokens that the model has no others for than the unknown one, 0 to 1.
  func unknownShare(of text: String) -> Float
  /// Vectors of length 1, in the order of the texts.
  ///
  /// - Throws: `encoder` when a text is refused, `cancelled` when nobody waits any more.
  func encode(
    _ texts: [String], as role: TextRole, isUnwanted: () -> Bool
  ) throws(SearchError) -> [[Float]]
}

extension PassageEncoder {
  package func unknownShare(of text: String) -> Float { 0 }

  /// Vectors of passages or parts of them, one for each.
  func passages(_ texts: [String], isUnwanted: () -> Bool) throws(SearchError) -> [[Float]] {
    guard !texts.isEmpty else { return [] }
    let vectors = try encode(texts, as: .passage, isUnwanted: isUnwanted)
    guard vectors.count == texts.count else { throw .encoder("the model gave another number of vectors") }
    return vectors
  }
}
