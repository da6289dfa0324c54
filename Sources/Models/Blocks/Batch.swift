// The rows of one step: decode rows and prefill chunks, mixed.

package import Compute

/// Which rows of a span need logits.
package enum LogitRows: Sendable, Equatable {
  /// None: a prefill chunk that is not the last.
  case none
  /// The last token's: the next token will be sampled.
  case last
  /// Every token's: prompt log-probabilities, verification of a draft.
  case all
}

/// What one forward pass computes.
package struct Batch: Sendable {
  /// Consecutive tokens of one sequence.
  package struct Span: Sendable {
    package var tokens: [Int32]
    /// Absolute position of `tokens[0]`.
    package var start: Int
    /// The sequence's block table: entry i holds positions `32·i ..< 32·i + 32`. Covers `start + tokens.count`.
    package var blocks: [Int32]
    /// Where the sequence's state is, as it is after `start` positions; nil for models without recurrent layers.
    package var slot: Int32?
    /// From `CausalModel.ropeVariant(forTokens:)`, the same for all spans of a sequence.
    package var ropeVariant: Int
    package var logits: LogitRows
    /// The adapter that its rows want; nil for the model as it is.
    package var adapter: AdapterUse?
    /// Rows whose embeddings are ready: they take the place of their tokens'.
    package var soft: [SoftRows] = []
    /// Ranges of positions that see each other in both directions, ascending; none ends after the span.
    package var groups: [Range<Int>] = []
    /// Time, row and column of each token for models that turn by these; empty where its position is all three.
    package var places: [SIMD3<Int32>] = []

    package init(
      tokens: [Int32], start: Int, blocks: [Int32], slot: Int32? = nil, ropeVariant: Int = 0,
      logits: LogitRows
    ) {
      (self.tokens, self.start, self.blocks) = (tokens, start, blocks)
      (self.slot, self.ropeVariant, self.logits) = (slot, ropeVariant, logits)
    }

    /// Which of the span's tokens need logits.
    package var logitRows: Range<Int> {
      switch logits {
      case .none: 0..<0
      case .last: max(0, tokens.count - 1)..<tokens.count
      case .all: 0..<tokens.count
      }
    }
  }

  /// An adapter of a model's shelf.
  package struct AdapterUse: Sendable, Equatable {
    /// From `AdapterShelf.slot(of:)`.
    package var slot: Int
    /// A factor of what it adds.
    package var strength: Float

    package init(slot: Int, strength: Float = 1) { (self.slot, self.strength) = (slot, strength) }
  }

  /// Soft tokens of an image or an audio clip.
  package struct SoftRows: Sendable {
    /// The first row, within the span.
    package var row: Int
    /// `[count, width]`.
    package var values: ArraySlice<Float>
    /// Elements of a row: an embedding, and then what is added to it after each of the first layers. Nil for the embedding
    /// alone.
    package var width: Int?

    package init(row: Int, values: ArraySlice<Float>, width: Int? = nil) {
      (self.row, self.values, self.width) = (row, values, width)
    }
  }

  package var spans: [Span]
  /// Called after every layer, first layer first, with the residual stream, `[rows, hidden]`, for comparisons with a
  /// reference. The last layers compute only rows whose logits are requested. Gemma 3n, which has several streams, does
  /// not call it.
  package var afterLayer: (@Sendable (Rows) -> Void)?

  package init(spans: [Span]) { self.spans = spans }

  /// Rows of logits that `forward` will write.
  package var logitRowCount: Int { spans.reduce(0) { $0 + $1.logitRows.count } }
}
