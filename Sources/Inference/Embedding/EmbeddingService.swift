// Texts as token ids in, vectors or scores out: what is asked of an encoder, and how its answers come.

package import Compute

/// A text to encode.
package struct EmbeddingText: Sendable {
  /// What is wanted of it.
  package enum Output: Sendable {
    /// One vector, pooled and through the dense layers; not normalised. `dimensions` elements.
    case vector
    /// The last hidden state of every token, token after token. `tokens · hidden` elements.
    case states
    /// A logit for each label.
    case labels
    /// A weight for each token of the vocabulary.
    case sparse
  }

  /// Special tokens included.
  package var tokens: [Int32]
  /// Where the second text of a pair begins; nil for a text that stands alone, and for models without token types.
  package var second: Int?
  /// Tokens at the start that pooling leaves out.
  package var unpooled: Int
  package var output: Output

  package init(tokens: [Int32], second: Int? = nil, unpooled: Int = 0, output: Output = .vector) {
    (self.tokens, self.second, self.unpooled) = (tokens, second, unpooled)
    self.output = output
  }
}

/// Who is served first.
package enum EmbeddingPriority: Int, Sendable, CaseIterable {
  /// Somebody waits, such as for the results of a search.
  case interactive
  /// Work that may take its time, such as an index.
  case background
}

/// Texts that are encoded for one client.
package struct EmbeddingRequest: Sendable {
  package var texts: [EmbeddingText]
  package var priority: EmbeddingPriority
  /// The client, as a number that says nothing else; 0 is nobody in particular.
  package var tenant: UInt64

  package init(
    _ texts: [EmbeddingText], priority: EmbeddingPriority = .interactive, tenant: UInt64 = 0
  ) {
    (self.texts, self.priority, self.tenant) = (texts, priority, tenant)
  }
}

/// One `result` for each text, in any order; then `finished`, or `failed` before that.
package enum EmbeddingEvent: Sendable {
  case result(index: Int, values: [Float])
  case finished
  case failed(InferenceError)
}

/// Texts that are being encoded. Those that no step holds yet when it is cancelled are not encoded.
package typealias EmbeddingJob = EngineWork<EmbeddingEvent>

/// What an encoder takes and gives.
package struct EmbeddingLimits: Sendable, Equatable {
  /// Most tokens of one text, special tokens included.
  package var maxTokens: Int
  /// Token ids must be below this.
  package var vocabularySize: Int
  /// Elements of a vector.
  package var dimensions: Int
  /// Elements of a token's state.
  package var hidden: Int
  /// Labels of a classifier; 0 for models that make vectors.
  package var labels = 0
  /// Whether the model makes sparse vectors.
  package var isSparse = false
  package var pooling: [Pooling] = [.mean]
  /// Whether the tokens of a prompt are pooled too.
  package var poolsPrompt = true

  /// As sentence-transformers names them.
  package var poolingNames: [String] { pooling.map(\.rawValue) }

  package init(maxTokens: Int, vocabularySize: Int, dimensions: Int, hidden: Int) {
    (self.maxTokens, self.vocabularySize, self.dimensions) = (maxTokens, vocabularySize, dimensions)
    self.hidden = hidden
  }
}

/// What an encoder has done since it started.
package struct EmbeddingStatistics: Sendable, Equatable {
  package var texts = 0
  /// Of those that were computed.
  package var tokens = 0
  /// Of the texts, those that were scored.
  package var pairs = 0
  /// Of the tokens, those whose states were there already, from texts with the same beginning.
  package var reusedTokens = 0
  /// Texts whose vectors were kept from an earlier request.
  package var cacheHits = 0
  package var steps = 0
  /// That steps took.
  package var seconds = 0.0
  package var waiting = 0

  package init() {}
}

/// What encodes texts: an engine's client, or a script in tests. Usable from any thread.
package protocol EmbeddingService: Sendable {
  var limits: EmbeddingLimits { get }
  var embeddingStatistics: EmbeddingStatistics { get }

  /// Queues texts; never blocks. A text gets the same bits alone, with others, and at any time.
  ///
  /// - Throws: `emptyPrompt`, `textTooLong` or `tokenOutOfRange` for what cannot be computed, `queueFull` or `draining` for what
  ///   could be at another time.
  func submit(_ request: EmbeddingRequest) throws(InferenceError) -> EmbeddingJob
}
