// What is known of an encoder of texts: its sizes, and one function that turns tokens into hidden states.

package import Compute

/// One text to encode, alone or with others: they do not see each other.
package struct EncoderText: Sendable {
  /// What is wanted of a text.
  package enum Output: Sendable {
    /// One vector: pooled, and through the dense modules; not normalised.
    case vector
    /// The last hidden state of every token.
    case states
    /// A logit for each label of a classifier.
    case labels
    /// A weight for each token of the vocabulary.
    case sparse
  }

  /// At least one, special tokens included.
  package var tokens: [Int32]
  /// Where the second text of a pair begins, with the tokens that separate it; nil for a text that stands alone.
  package var second: Int?
  /// Tokens at the start that pooling leaves out.
  package var unpooled = 0
  package var output = Output.vector

  package init(tokens: [Int32], second: Int? = nil, unpooled: Int = 0, output: Output = .vector) {
    (self.tokens, self.second, self.unpooled) = (tokens, second, unpooled)
    self.output = output
  }
}

/// A model of texts with its weights. Engine thread only.
package protocol TextEncoder: AnyObject {
  /// Elements of a hidden state.
  var hidden: Int { get }
  /// Token ids are below this.
  var vocabularySize: Int { get }
  /// Most tokens of one text.
  var maxTokens: Int { get }
  /// Bytes of buffers that one token of a step takes.
  var workBytesPerToken: Int { get }
  /// Bytes of tables of which a step reads the rows of its tokens and nothing else.
  var tableBytes: Int { get }

  /// Runs texts through all layers.
  ///
  /// A text's states do not depend, to the bit, on the other texts or on the number of threads.
  ///
  /// - Precondition: each text has from 1 to `maxTokens` tokens in `0 ..< vocabularySize`.
  /// - Returns: the last hidden states, text after text, as many of each as `rows` says; the next call overwrites them.
  /// - Throws: when there is no memory for keys and values.
  func forward(_ texts: [EncoderText]) throws(ModelError) -> Rows

  /// Whether `forward` takes pauses.
  var takesPauses: Bool { get }
  /// The same for texts that nobody waits for.
  ///
  /// - Parameter pause: called between layers; other texts may be run in it, without pauses.
  func forward(_ texts: [EncoderText], pause: () -> Void) throws(ModelError) -> Rows

  /// How many states `forward` gives of a text: those of all its tokens, or of the last ones alone where no other is used.
  func rows(of text: EncoderText) -> Int
  /// Tokens whose states were there already, from texts with the same beginning.
  var reusedTokens: Int { get }

  /// Where the encoder ends and a classifier begins; nil for models without one.
  var classifier: ClassifierHead? { get }
  /// What makes sparse vectors; nil for models without one.
  var sparseHead: SparseHead? { get }
}

extension TextEncoder {
  package var takesPauses: Bool { false }
  package func forward(_ texts: [EncoderText], pause: () -> Void) throws(ModelError) -> Rows {
    try forward(texts)
  }
  package func rows(of text: EncoderText) -> Int { text.tokens.count }
  package var reusedTokens: Int { 0 }
  package var classifier: ClassifierHead? { nil }
  package var sparseHead: SparseHead? { nil }
}
