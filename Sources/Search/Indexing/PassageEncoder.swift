// What an index wants of a model: texts become vectors, and pieces of a text become the sums of their tokens' states.

/// What a text is for; models put different words in front of the two.
package enum TextRole: Sendable {
  case query, passage
}

/// A text in pieces.
package struct PiecedText: Sendable {
  package var pieces: [String]
  package var role: TextRole

  package init(_ pieces: [String], as role: TextRole) { (self.pieces, self.role) = (pieces, role) }
}

/// The states of a text in pieces.
package struct PiecedStates: Sendable {
  /// Of all tokens, special ones and those of a prompt included: what the text's vector is made of.
  package var whole: StateSum
  package var pieces: [StateSum]

  package init(whole: StateSum, pieces: [StateSum]) { (self.whole, self.pieces) = (whole, pieces) }
}

/// Of a piece, the sum of its tokens' states, and how many there are.
package struct StateSum: Sendable {
  package var sum: [Float]
  package var tokens: Int

  package init(sum: [Float], tokens: Int) { (self.sum, self.tokens) = (sum, tokens) }
}

/// A model that makes vectors of texts. Usable from any thread.
package protocol PassageEncoder: Sendable {
  /// Components of a vector.
  var dimensions: Int { get }
  /// Names everything that vectors depend on.
  var fingerprint: String { get }
  /// Names everything that the bits of states depend on: beside `fingerprint`, how this machine computes.
  var computation: String { get }
  /// Whether the model gives states that its vectors are means of.
  var givesStates: Bool { get }
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
  /// For each text, and each of the pieces that it is made of, the sum of the tokens' last states.
  ///
  /// - Throws: `encoder` when the model gives none, `cancelled` when nobody waits any more.
  func states(_ texts: [PiecedText], isUnwanted: () -> Bool) throws(SearchError) -> [PiecedStates]
}
