// Gemma 4, text: sliding and full layers with head sizes of their own, upper layers that read the keys and values
// of lower ones, and a second embedding that feeds every layer.
//
// Source: the model cards and transformers' gemma4; names follow the Hugging Face checkpoints. A layer computes
//
//   x += norm(o(attend(rope(norm(q)), rope(norm(k)), norm(v))))      of norm(x), scores not scaled
//   x += norm(down(gelu(gate) · up))                                 of norm(x); see also Gemma4Experts
//   x += norm(projection(gelu(gate(x)) · second embedding))          where the model has one
//   x *= scalar

package import Compute
package import Media

/// Decoder whose layers from `num_hidden_layers - num_kv_shared_layers` on cache nothing of their own.
package final class Gemma4: CausalModel {
  private struct Layer {
    let inputNorm, postAttentionNorm: [Float]  // [hidden], around attention
    let preFeedforwardNorm, postFeedforwardNorm: [Float]  // [hidden], around the MLP
    let attention: SelfAttention
    let mlp: FeedForward
    let experts: Gemma4Experts?
    let second: GemmaSecondInput?
    let scalar: Float

    var byteCount: Int {
      attention.byteCount + mlp.byteCount + (second?.byteCount ?? 0) + (experts?.byteCount ?? 0)
    }
  }

  private let frame: DecoderFrame
  private let config: Gemma4Config
  /// Of the sliding layers; the frame's is that of the full ones.
  private let localRope: RoPE
  private let second: GemmaSecondEmbedding?
  private let layers: [Layer]
  private let towers: MediaTowers
  package var tableBytes: Int { second?.tableBytes ?? 0 }

  private let expertRows = ScratchBuffer()
  private let chosenRows = ScratchBuffer()

  init(_ fields: ConfigFields, towers: MediaTowers, _ checkpoint: LayerLoader) throws(ModelError) {
    let config = try Gemma4Config(fields)
    let frame = try DecoderFrame(config.sizes, rope: config.fullRope, checkpoint)
    let localRope = config.localRope.rope
    second =
      config.secondWidth > 0
      ? try GemmaSecondEmbedding(
        width: config.secondWidth, vocabulary: config.secondVocabulary, lowerLayers: config.writers,
        config.sizes, frame) : nil
    layers = try frame.layers { index, weights throws(ModelError) in
      let rope = config.attention(index).window == nil ? frame.rope : localRope
      return try Self.layer(index, config, rope, frame, weights.given(config.named))
    }
    (self.towers, self.config, self.frame) = (towers, config, frame)
    self.localRope = localRope
  }

  private static func layer(
    _ index: Int, _ config: Gemma4Config, _ rope: RoPE, _ frame: DecoderFrame, _ weights: LayerLoader
  ) throws(ModelError) -> Layer {
    let hidden = config.sizes.hidden
    func norm(_ name: String) throws(ModelError) -> [Float] { try weights.norm(name, hidden) }
    return Layer(
      inputNorm: try norm("input_layernorm"), postAttentionNorm: try norm("post_attention_layernorm"),
      preFeedforwardNorm: try norm("pre_feedforward_layernorm"),
      postFeedforwardNorm: try norm("post_feedforward_layernorm"),
      attention: try SelfAttention(
        config.attention(index), layer: config.cacheLayer(index), rope: rope,
        .init(
          keys: config.keys(index), norms: .heads, normsValues: true, bias: config.hasBias,
          outputBias: config.hasBias, projectsExactly: true), frame, weights.at("self_attn")),
      mlp: .dense(
        try DenseMLP(hidden, config.intermediate(index), activation: .gelu, weights.at("mlp"))),
      experts: try config.experts.map { sizes throws(ModelError) in
        try Gemma4Experts(sizes, config.sizes, weights)
      },
      second: config.secondWidth == 0
        ? nil
        : try GemmaSecondInput(
          layer: index < config.writers ? index : index - config.writers, width: config.secondWidth, frame,
          weights),
      scalar: try weights.vector("layer_scalar", 1)[0])
  }

  package var vocabularySize: Int { config.sizes.vocabulary }
  package var contextLength: Int { config.sizes.contextLength }
  package var cacheShape: [LayerCache] { layers.compactMap(\.attention.cacheShape) }
  package var weightBytesPerToken: Int {
    layers.reduce(frame.headBytes + (second?.byteCount ?? 0)) { $0 + $1.byteCount }
  }
  package func ropeVariant(forTokens tokens: Int) -> Int { 0 }
  package var adapters: AdapterShelf? { frame.weights.shelf }
  package var mediaRules: MediaRules { towers.rules }
  package func encoder(for kind: MediaKind) -> (any MediaEncoder)? { towers.encoder(for: kind) }
  package var seesImagesWhole: Bool { config.seesImagesWhole }

  package func forward(_ batch: Batch, cache: KVCache, logits: inout Logits) {
    let compute = frame.compute
    var step = frame.begin(batch, cache: cache)
    localRope.prepare(step.layout)
    let x = step.embeddings
    compute.scale(x, by: config.embeddingScale)
    // Soft tokens are not scaled, and the second embedding knows padding in their place.
    var tokens = frame.tokens
    frame.place(batch, into: x) { tokens[$0] = config.padding }
    // Layers from `writers` on write no keys and values: rows without logits, most of a prompt, end before them.
    let upperLayout = frame.layOutChosen(batch, cache: cache)
    let chosen = chosenRows.rows(upperLayout.rows, x.columns)
    frame.select(batch, from: x, to: chosen)
    let lower = second?.lowerRows(of: tokens, x)
    let upper = second?.upperRows(chosen) { frame.select(batch, from: $0, to: $1) }
    for layer in layers[..<config.writers] { run(layer, x, lower, step) }
    frame.select(batch, from: x, to: chosen)
    if chosen.count > 0 {
      frame.rope.prepare(upperLayout)
      localRope.prepare(upperLayout)
      step.layout = upperLayout
      for layer in layers[config.writers...] { run(layer, chosen, upper, step) }
    }
    let out = frame.project(chosen, into: &logits)
    if let softcap = config.softcap { compute.softcap(out, at: softcap) }
  }

  private func run(_ layer: Layer, _ x: Rows, _ second: Rows?, _ step: DecoderStep) {
    let (compute, epsilon) = (frame.compute, config.sizes.epsilon)
    let h = frame.hidden.rows(from: 0, count: x.count)
    compute.rmsNorm(x, gain: layer.inputNorm, epsilon: epsilon, into: h)
    layer.attention(h, step)
    compute.rmsNorm(h, gain: layer.postAttentionNorm, epsilon: epsilon, into: h)
    compute.add(h, to: x)

    compute.rmsNorm(x, gain: layer.preFeedforwardNorm, epsilon: epsilon, into: h)
    layer.mlp(h, frame)
    if let experts = layer.experts {
      experts.add(
        x, to: h, scratch: expertRows.rows(x.count, x.columns),
        scores: frame.routerScores(experts.count, rows: x.count), routing: frame.routing)
    }
    compute.rmsNorm(h, gain: layer.postFeedforwardNorm, epsilon: epsilon, into: h)
    compute.add(h, to: x)

    if let input = layer.second, let second {
      input(x, second, into: h, frame)
      compute.add(h, to: x)
    }
    compute.scale(x, by: layer.scalar)
    step.batch.afterLayer?(x)
  }
}
