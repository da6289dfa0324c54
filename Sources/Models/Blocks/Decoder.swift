// A decoder of layers of one kind: what runs every family that differs from Llama in the parts of its layers alone.
//
// A family's file reads its config.json and binds its layers; the order of a step is here.

package import Compute
package import Media

/// Embedding, layers, head.
package final class Decoder: CausalModel {
  /// What a family does to embeddings and logits.
  struct Scales {
    var embeddings: Float = 1
    var logits: Float = 1
    /// The bound of the logits: `cap · tanh(logit / cap)`.
    var softcap: Float?
    var queryGrowth: QueryGrowth?
  }

  private let frame: DecoderFrame
  private let layers: [DecoderLayer]
  private let scales: Scales
  /// Rotations of some of the layers beside the frame's.
  private let otherRopes: [RoPE]
  /// What it sees with; nothing for most.
  var towers = MediaTowers()

  /// - Parameter otherRopes: of layers that do not use the frame's.
  init(
    _ frame: DecoderFrame, _ layers: [DecoderLayer], scales: Scales = Scales(), otherRopes: [RoPE] = []
  ) {
    (self.frame, self.layers, self.scales) = (frame, layers, scales)
    self.otherRopes = otherRopes
  }

  package var vocabularySize: Int { frame.sizes.vocabulary }
  package var contextLength: Int { frame.sizes.contextLength }
  package var cacheShape: [LayerCache] { layers.flatMap { $0.attention?.cacheShapes ?? [] } }
  package var weightBytesPerToken: Int { layers.reduce(frame.headBytes) { $0 + $1.byteCount } }
  package func ropeVariant(forTokens tokens: Int) -> Int { frame.ropeVariant(forTokens: tokens) }
  package var mediaRules: MediaRules { towers.rules }
  package func encoder(for kind: MediaKind) -> (any MediaEncoder)? { towers.encoder(for: kind) }
  package var seesImagesWhole: Bool { towers.areImagesWhole }

  package var adapters: AdapterShelf? { frame.weights.shelf }

  var compute: ComputeContext { frame.compute }
  /// As `DecoderFrame.headRows`.
  func headRows(_ tokens: [Int32]) -> [[Float]] { frame.headRows(tokens) }
  /// Elements of a hidden state.
  var hidden: Int { frame.sizes.hidden }
  /// Bytes of the table that embeddings come from.
  var embeddingBytes: Int { frame.embeddingBytes }
  /// About what the buffers of a step take for each token, keys and values aside.
  var bufferBytesPerToken: Int { frame.bufferBytesPerToken }
  /// How keys and values are stored that no other step reads.
  var cacheFormat: KVFormat { frame.compute.mode == .exact ? .f32 : .q16 }

  package func forward(_ batch: Batch, cache: KVCache, logits: inout Logits) {
    let x = run(batch, cache: cache)
    let out = frame.project(x, into: &logits)
    if scales.logits != 1 { frame.compute.scale(out, by: scales.logits) }
    if let softcap = scales.softcap { frame.compute.softcap(out, at: softcap) }
  }

  /// The last hidden states of the rows whose logits are requested, normed as the head gets them: for models that encode.
  func states(_ batch: Batch, cache: KVCache) -> Rows {
    let x = run(batch, cache: cache)
    frame.normalize(x)
    return x
  }

  /// The residual stream after all layers, of the rows whose logits are requested.
  private func run(_ batch: Batch, cache: KVCache) -> Rows {
    let compute = frame.compute
    var step = frame.begin(batch, cache: cache)
    for rope in otherRopes { rope.prepare(step.layout) }
    if let growth = scales.queryGrowth { step.queryFactors = growth.factors(batch) }
    var (x, h) = (step.embeddings, frame.hidden)
    if scales.embeddings != 1 { compute.scale(x, by: scales.embeddings) }
    frame.place(batch, into: x) { _ in }
    for (index, layer) in layers.enumerated() {
      layer(&x, &h, step, isLast: index == layers.count - 1)
      if index < towers.depth { frame.deepen(batch, x, after: index) }
      batch.afterLayer?(x)
    }
    return x
  }
}
