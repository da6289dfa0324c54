// What an index wants of a model: texts become vectors, and pieces of a text become the sums of their tokens' states.

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
  /// Most tokens of a passage, without special ones and those of the prompt.
  var room: Int { get }
  /// Tokens of a text, without special ones.
  func tokenCount(_ text: String) -> Int
  /// Vectors of length 1, in the order of the texts.
  ///
  /// - Throws: `encoder` when a text is refused, `cancelled` when nobody waits any more.
  func encode(
    _ texts: [String], as role: TextRole, isUnwanted: () -> Bool
  ) throws(SearchError) -> [[Float]]
  /// Of the text that the pieces make: for each piece the sum of its tokens' last states, and how many there are. Nil when
  /// the model gives no states that its vectors are means of.
  func states(
    _ pieces: [String], as role: TextRole, isUnwanted: () -> Bool
  ) throws(SearchError) -> [(sum: [Float], tokens: Int)]?
}
