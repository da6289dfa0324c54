// What the engine knows of a decoder: its sizes, its cache shape, and one function that runs a step.

package import Compute
package import Media

/// A decoder-only language model with its weights. Engine thread only.
package protocol CausalModel: AnyObject {
  /// Columns of the logits: rows of the output matrix, at least the tokenizer's vocabulary.
  var vocabularySize: Int { get }
  /// config.json `max_position_embeddings`, tokens.
  var contextLength: Int { get }
  /// What each layer keeps of a sequence, first layer first. Layers that read another's keys and values have no entry.
  var cacheShape: [LayerCache] { get }
  /// Weight bytes that a decode step reads.
  var weightBytesPerToken: Int { get }
  /// Bytes of tables of which a step reads the rows of its tokens and nothing else: they stay in the mapping, and
  /// memory need not hold them.
  var tableBytes: Int { get }

  /// Which RoPE table a sequence of `tokens` tokens uses; 0 for families without variants. Keys rotated by one variant
  /// are useless to another: it belongs into a prefix cache's key, and a sequence that outgrows one is computed again.
  func ropeVariant(forTokens tokens: Int) -> Int

  /// The maps that adapters may change; nil for a model that takes none.
  var adapters: AdapterShelf? { get }

  /// What the model takes beside text; nothing for most families.
  var mediaRules: MediaRules { get }

  /// The encoder of what `mediaRules` promises.
  func encoder(for kind: MediaKind) -> (any MediaEncoder)?

  /// Whether the positions of one image see each other in both directions: then they must be computed together.
  var seesImagesWhole: Bool { get }

  /// Runs all rows of the batch through the model.
  ///
  /// Writes the rows' keys and values into `cache` and the logits of the requested rows into `logits`
  /// (span by span, in order), and leaves in each span's slot of `cache.states` the state after its last row. A row's results do not depend, to the bit, on its neighbours in the batch, on
  /// how its prompt was cut into chunks, or on the number of threads. Allocates nothing once the
  /// buffers have grown to the size of the batch.
  ///
  /// - Precondition: token ids are in `0 ..< vocabularySize`, block tables cover their spans, and the spans of
  ///   one batch belong to different sequences.
  func forward(_ batch: Batch, cache: KVCache, logits: inout Logits)
}

/// What a model of text alone without a table of its own has.
extension CausalModel {
  package var tableBytes: Int { 0 }
  package var adapters: AdapterShelf? { nil }
  package var mediaRules: MediaRules { MediaRules() }
  /// None: the model takes text alone.
  package func encoder(for kind: MediaKind) -> (any MediaEncoder)? { nil }
  package var seesImagesWhole: Bool { false }
}
