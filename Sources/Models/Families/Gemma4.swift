// Gemma 4, text: sliding and full layers with head sizes of their own, upper layers that read the keys and values
// of lower ones, and a second embedding that feeds every layer.
//
// Source: the model cards and transformers' gemma4; names follow the Hugging Face checkpoints. A layer computes
//
//   x += norm(o(attend(rope(norm(q)), rope(norm(k)), norm(v))))      of norm(x), scores not scaled
//   x += norm(down(gelu(gate) · up))                                 of norm(x); see also Gemma4Experts
//   x += norm(projection(gelu(gate(x)) · second embedding))          where the model has one
//   x *= scalar

import Checkpoint
package import Compute
package import Media

/// Decoder whose layers from `num_hidden_layers - num_kv_shared_layers` on cache nothing of their own.
package final class Gemma4: CausalModel {
  /// What a layer attends to.
  private enum Keys {
    case own
    /// `attention_k_eq_v`: the projected keys are also the values.
    case alsoValues
    /// Another layer's, as they stand in the cache.
    case shared
  }

  private struct Layer {
    let inputNorm, postAttentionNorm: [Float]  // [hidden], around attention
    let preFeedforwardNorm, postFeedforwardNorm: [Float]  // [hidden], around the MLP
    let qNorm, kNorm: [Float]  // [headDim], shared by the heads; no kNorm with shared keys
    let qkv: Linear  // [hidden] → [q | k | v], [q | k] or [q], as `keys` says
    let o: Linear  // [heads · headDim] → [hidden]
    let gateUp: Linear  // [hidden] → [gate | up]
    let down: Linear  // [intermediate] → [hidden]
    let intermediate: Int
    let experts: Gemma4Experts?
    let second: SecondInput?
    let scalar: Float
    let attention: AttentionShape
    let keys: Keys
    /// The layer of the cache that is written or, with shared keys, read.
    let cacheLayer: Int

    var byteCount: Int {
      qkv.byteCount + o.byteCount + gateUp.byteCount + down.byteCount + (second?.byteCount ?? 0)
        + (experts?.byteCount ?? 0)
    }
  }

  /// How a layer takes in the second embedding.
  private struct SecondInput {
    let gate: Linear  // [hidden] → [width]
    let projection: Linear  // [width] → [hidden]
    let norm: [Float]  // [hidden]

    var byteCount: Int { gate.byteCount + projection.byteCount }
  }

  /// Rows of a step on their way through the layers.
  private struct Step {
    let x: Rows  // [rows, hidden]
    let second: Rows?  // [rows, width of each layer from `first` on]
    let first: Int
    let layout: StepLayout
  }

  private let frame: DecoderFrame
  private let config: Gemma4Config
  /// Of the sliding layers; the frame's is that of the full ones.
  private let localRope: RoPE
  private let second: GemmaSecondEmbedding?
  private let layers: [Layer]
  private let towers: Gemma4Towers
  package let weightBytesPerToken: Int
  package var tableBytes: Int { second?.tableBytes ?? 0 }

  private let upperLayout = StepLayout()
  private let projected = ScratchBuffer()
  private let attended = ScratchBuffer()
  private let gated = ScratchBuffer()
  private let expertRows = ScratchBuffer()
  private let secondGated = ScratchBuffer()
  private let chosenRows = ScratchBuffer()

  init(
    _ fields: ConfigFields, weights: WeightMap, compute: ComputeContext, towers: Gemma4Towers
  ) throws(ModelError) {
    self.towers = towers
    let config = try Gemma4Config(fields)
    let frame = try DecoderFrame(
      config.sizes, rope: RoPE(variants: config.fullRope.variants), weights: weights, compute: compute)
    self.config = config
    self.frame = frame
    localRope = RoPE(variants: config.localRope.variants)
    second =
      config.secondWidth > 0
      ? try GemmaSecondEmbedding(
        width: config.secondWidth, vocabulary: config.secondVocabulary, lowerLayers: config.writers,
        config.sizes, frame) : nil
    var layers: [Layer] = []
    for index in 0..<config.sizes.layers { layers.append(try Self.layer(index, config, frame)) }
    self.layers = layers
    weightBytesPerToken = layers.reduce(frame.headBytes + (second?.byteCount ?? 0)) { $0 + $1.byteCount }
  }

  private static func layer(
    _ index: Int, _ config: Gemma4Config, _ frame: DecoderFrame
  ) throws(ModelError) -> Layer {
    let (map, hidden) = (frame.layerWeights[index].given(config.named), config.sizes.hidden)
    let mlp = map.at("mlp")
    let attention = map.at("self_attn")
    let shape = config.attention(index)
    let isShared = index >= config.writers
    let keys: Keys = isShared ? .shared : shape.window == nil && config.keysAreValues ? .alsoValues : .own
    let intermediate = (isShared && config.isDoubleWide ? 2 : 1) * config.sizes.intermediate
    func norm(_ name: String) throws(ModelError) -> [Float] {
      try DecoderFrame.vector(name + ".weight", count: hidden, at: map)
    }
    var input: SecondInput?
    if config.secondWidth > 0 {
      input = SecondInput(
        gate: try Linear(
          ["per_layer_input_gate": config.secondWidth], columns: hidden, at: map, compute: frame.compute),
        projection: try Linear(
          ["per_layer_projection": hidden], columns: config.secondWidth, at: map, compute: frame.compute),
        norm: try norm("post_per_layer_input_norm"))
    }
    return Layer(
      inputNorm: try norm("input_layernorm"), postAttentionNorm: try norm("post_attention_layernorm"),
      preFeedforwardNorm: try norm("pre_feedforward_layernorm"),
      postFeedforwardNorm: try norm("post_feedforward_layernorm"),
      qNorm: try DecoderFrame.vector("q_norm.weight", count: shape.headDim, at: attention),
      kNorm: isShared
        ? [] : try DecoderFrame.vector("k_norm.weight", count: shape.headDim, at: attention),
      qkv: try projections(keys, shape, config, attention, frame.compute),
      o: try Linear(
        ["o_proj": hidden], columns: shape.heads * shape.headDim, bias: config.hasBias, at: attention,
        compute: frame.compute),
      gateUp: try Linear(
        ["gate_proj": intermediate, "up_proj": intermediate], columns: hidden, at: mlp,
        compute: frame.compute),
      down: try Linear(["down_proj": hidden], columns: intermediate, at: mlp, compute: frame.compute),
      intermediate: intermediate,
      experts: try config.experts.map { sizes throws(ModelError) in
        try Gemma4Experts(sizes, config.sizes, at: map, compute: frame.compute)
      },
      second: input,
      scalar: try DecoderFrame.vector("layer_scalar", count: 1, at: map)[0],
      attention: shape, keys: keys, cacheLayer: try config.cacheLayer(index))
  }

  /// Checkpoints may hold k_proj and v_proj of layers that share another's; nothing reads them.
  private static func projections(
    _ keys: Keys, _ shape: AttentionShape, _ config: Gemma4Config, _ map: WeightMap,
    _ compute: ComputeContext
  ) throws(ModelError) -> Linear {
    let (queries, width) = (shape.heads * shape.headDim, shape.kvHeads * shape.headDim)
    let names: KeyValuePairs<String, Int> =
      switch keys {
      case .own: ["q_proj": queries, "k_proj": width, "v_proj": width]
      case .alsoValues: ["q_proj": queries, "k_proj": width]
      case .shared: ["q_proj": queries]
      }
    return try Linear(names, columns: config.sizes.hidden, bias: config.hasBias, at: map, compute: compute)
  }

  package var vocabularySize: Int { config.sizes.vocabulary }
  package var contextLength: Int { config.sizes.contextLength }
  package var cacheShape: [LayerCache] {
    layers[..<config.writers].map {
      .keysValues(KVLayerShape(kvHeads: $0.attention.kvHeads, headDim: $0.attention.headDim))
    }
  }
  package func ropeVariant(forTokens tokens: Int) -> Int { 0 }
  package var mediaRules: MediaRules { towers.rules }
  package func encoder(for kind: MediaKind) -> (any MediaEncoder)? { towers.encoder(for: kind) }
  package var seesImagesWhole: Bool { config.seesImagesWhole }

  package func forward(_ batch: Batch, cache: KVCache, logits: inout Logits) {
    let compute = frame.compute
    let x = frame.begin(batch, cache: cache)
    localRope.prepare(frame.layout)
    compute.scale(x, by: config.embeddingScale)
    // Soft tokens are not scaled, and the second embedding knows padding in their place.
    var tokens = frame.tokens
    frame.place(batch, into: x) { tokens[$0] = config.padding }
    // Layers from `writers` on write no keys and values: rows without logits, most of a prompt, end before them.
    layOutChosen(batch, cache)
    let chosen = chosenRows.rows(upperLayout.rows, x.columns)
    frame.select(batch, from: x, to: chosen)
    let all = Step(x: x, second: second?.lowerRows(of: tokens, x), first: 0, layout: frame.layout)
    let upper = second?.upperRows(chosen) { frame.select(batch, from: $0, to: $1) }
    for index in 0..<config.writers { run(index, all, cache) }
    frame.select(batch, from: x, to: chosen)
    if chosen.count > 0 {
      frame.rope.prepare(upperLayout)
      localRope.prepare(upperLayout)
      let step = Step(x: chosen, second: upper, first: config.writers, layout: upperLayout)
      for index in config.writers..<layers.count { run(index, step, cache) }
    }
    let out = frame.project(chosen, into: &logits)
    if let softcap = config.softcap { compute.softcap(out, at: softcap) }
  }

  /// Lays out the rows whose logits are requested, with angles of their own.
  private func layOutChosen(_ batch: Batch, _ cache: KVCache) {
    upperLayout.reset()
    for span in batch.spans where !span.logitRows.isEmpty {
      upperLayout.append(
        count: span.logitRows.count, start: span.start + span.logitRows.lowerBound, table: span.blocks,
        blockCount: cache.blockCount, ropeVariant: span.ropeVariant)
    }
  }

  private func run(_ index: Int, _ step: Step, _ cache: KVCache) {
    let (compute, layer, x, epsilon) = (frame.compute, layers[index], step.x, config.sizes.epsilon)
    let h = frame.hidden.rows(from: 0, count: x.count)
    compute.rmsNorm(x, gain: layer.inputNorm, epsilon: epsilon, into: h)
    attend(layer, h, step, cache)
    compute.rmsNorm(h, gain: layer.postAttentionNorm, epsilon: epsilon, into: h)
    compute.add(h, to: x)

    let gateUp = gated.rows(x.count, 2 * layer.intermediate)
    let gate = gateUp.columns(from: 0, count: layer.intermediate)
    let up = gateUp.columns(from: layer.intermediate, count: layer.intermediate)
    compute.rmsNorm(x, gain: layer.preFeedforwardNorm, epsilon: epsilon, into: h)
    layer.gateUp(h, into: gateUp)
    compute.gatedGELU(gate, up, into: gate)
    layer.down(gate, into: h)
    if let experts = layer.experts {
      experts.add(
        x, to: h, scratch: expertRows.rows(x.count, x.columns),
        scores: frame.routerScores(experts.count, rows: x.count), routing: frame.routing)
    }
    compute.rmsNorm(h, gain: layer.postFeedforwardNorm, epsilon: epsilon, into: h)
    compute.add(h, to: x)

    if let input = layer.second, let second = step.second {
      let width = config.secondWidth
      let gate = secondGated.rows(x.count, width)
      input.gate(x, into: gate)
      compute.gatedGELU(gate, second.columns(from: (index - step.first) * width, count: width), into: gate)
      input.projection(gate, into: h)
      compute.rmsNorm(h, gain: input.norm, epsilon: epsilon, into: h)
      compute.add(h, to: x)
    }
    compute.scale(x, by: layer.scalar)
  }

  /// `h = o(attention of h)`, writing keys and values unless they are another layer's.
  private func attend(_ layer: Layer, _ h: Rows, _ step: Step, _ cache: KVCache) {
    let (compute, shape, epsilon) = (frame.compute, layer.attention, config.sizes.epsilon)
    let (queries, width) = (shape.heads * shape.headDim, shape.kvHeads * shape.headDim)
    let rope = shape.window == nil ? frame.rope : localRope
    let qkv = projected.rows(h.count, queries + 2 * width)
    let q = qkv.columns(from: 0, count: queries)
    let k = qkv.columns(from: queries, count: width)
    let v = qkv.columns(from: queries + width, count: width)
    switch layer.keys {
    case .own: layer.qkv(h, into: qkv)
    case .alsoValues:
      layer.qkv(h, into: qkv.columns(from: 0, count: queries + width))
      for row in 0..<h.count { k.copyRow(row, to: v, at: row) }
    case .shared: layer.qkv(h, into: q)
    }
    compute.rmsNormHeads(q, gain: layer.qNorm, epsilon: epsilon)
    compute.rotate(q, headDim: shape.headDim, by: rope)
    if layer.keys != .shared {
      compute.rmsNormHeads(k, gain: layer.kNorm, epsilon: epsilon)
      compute.rotate(k, headDim: shape.headDim, by: rope)
      compute.rmsNormHeads(v, gain: config.ones(shape.headDim), epsilon: epsilon)
    }
    let out = attended.rows(h.count, queries)
    compute.attend(
      q, adding: layer.keys == .shared ? nil : (k, v), shape: shape, layer: layer.cacheLayer, of: cache,
      at: step.layout, into: out)
    layer.o(out, into: h)
  }
}
