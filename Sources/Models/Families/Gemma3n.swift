// Gemma 3n, text: several residual streams of which a layer runs one and predicts the others (AltUp), a low-rank
// path beside attention (Laurel), sparse MLPs, upper layers that read the keys and values of lower ones, and a second
// embedding that feeds every layer.
//
// Sources: arXiv:2301.13310 (AltUp), arXiv:2411.07501 (Laurel), and transformers' gemma3n; names follow the Hugging
// Face checkpoints. With streams X and the first of them the active one, a layer computes
//
//   P = X + X · coefficients(X0)
//   n = norm(P0);  u = (P0 + norm(attention(n)) + n + norm(laurel(n))) / √2
//   v = u + norm(down(gelu(outliers(gate)) · up))                    of norm(u)
//   X = P + (1 + factors(v)) · (v - P0)
//   X[1...] += norm(projection(gelu(gate(X0 · scale)) · second embedding))

import Checkpoint
package import Compute

/// Decoder whose layers from `num_hidden_layers - num_kv_shared_layers` on cache nothing of their own.
package final class Gemma3n: CausalModel {
  private struct Layer {
    let inputNorm, postAttentionNorm: [Float]  // [hidden], around attention
    let preFeedforwardNorm, postFeedforwardNorm: [Float]  // [hidden], around the MLP
    let qNorm, kNorm: [Float]  // [headDim], shared by the heads; no kNorm with another layer's keys
    let qkv: Linear  // [hidden] → [q | k | v], or [q]
    let o: Linear  // [heads · headDim] → [hidden]
    let gateUp: Linear  // [hidden] → [gate | up]
    let down: Linear  // [intermediate] → [hidden]
    let intermediate: Int
    /// How many standard deviations above the mean a gate must be to count; nil for an ordinary MLP.
    let deviations: Float?
    let altUp: AltUp
    let laurel: Laurel
    let second: SecondInput
    let attention: AttentionShape
    /// The layer of the cache that is written or, by layers without keys of their own, read.
    let cacheLayer: Int
    let ownsKeys: Bool

    var byteCount: Int {
      [
        qkv, o, gateUp, down, altUp.router, altUp.prediction, altUp.correction, laurel.left, laurel.right,
        second.gate, second.projection,
      ].reduce(0) { $0 + $1.byteCount }
    }
  }

  /// What predicts and corrects the streams.
  private struct AltUp {
    let routerNorm: [Float]  // [hidden], divided by hidden
    let router: Linear  // [hidden] → [streams]
    let prediction: Linear  // [streams] → [streams · streams]
    let correction: Linear  // [streams] → [streams]
    let outputScale: [Float]?  // [hidden]
  }

  /// The low-rank path beside attention.
  private struct Laurel {
    let left: Linear  // [hidden] → [rank]
    let right: Linear  // [rank] → [hidden]
    let norm: [Float]  // [hidden]
  }

  /// How a layer takes in the second embedding.
  private struct SecondInput {
    let gate: Linear  // [hidden] → [width]
    let projection: Linear  // [width] → [hidden]
    let norm: [Float]  // [hidden]
  }

  /// Rows of a step on their way through the layers, with two sets of streams that change places at every layer.
  private struct Step {
    var streams: [Rows]
    var predicted: [Rows]
    let second: Rows  // [rows, layers · width]
    let layout: StepLayout
    var count: Int { second.count }
  }

  private let frame: DecoderFrame
  private let config: Gemma3nConfig
  /// Of the sliding layers; the frame's is that of the full ones.
  private let localRope: RoPE
  private let second: GemmaSecondEmbedding
  /// From the embedding to the streams but the first, and back.
  private let projections, unprojections: [Linear]
  private let layers: [Layer]
  package let weightBytesPerToken: Int
  package var tableBytes: Int { second.tableBytes }

  private let upperLayout = StepLayout()
  private let projected = ScratchBuffer()
  private let attended = ScratchBuffer()
  private let gated = ScratchBuffer()
  private let low = ScratchBuffer()
  private let branch = ScratchBuffer()
  private let modes = ScratchBuffer()
  private let coefficients = ScratchBuffer()
  private let secondGated = ScratchBuffer()
  private let chosenSecond = ScratchBuffer()
  private let allStreams, allPredicted, chosenStreams, chosenPredicted: [ScratchBuffer]

  init(_ fields: ConfigFields, weights: WeightMap, compute: ComputeContext) throws(ModelError) {
    let config = try Gemma3nConfig(fields)
    let (hidden, streams) = (config.sizes.hidden, config.streams)
    let frame = try DecoderFrame(
      config.sizes, rope: RoPE(variants: config.fullRope.variants), weights: weights, compute: compute)
    self.config = config
    self.frame = frame
    localRope = RoPE(variants: config.localRope.variants)
    second = try GemmaSecondEmbedding(
      width: config.secondWidth, vocabulary: config.secondVocabulary, lowerLayers: config.sizes.layers,
      config.sizes, frame)
    func maps(_ name: String) throws(ModelError) -> [Linear] {
      var maps: [Linear] = []
      for index in 0..<streams - 1 {
        maps.append(
          try Linear(["\(name).\(index)": hidden], columns: hidden, at: frame.weights, compute: compute))
      }
      return maps
    }
    projections = try maps("altup_projections")
    unprojections = try maps("altup_unembed_projections")
    var layers: [Layer] = []
    for index in 0..<config.sizes.layers { layers.append(try Self.layer(index, config, frame)) }
    self.layers = layers
    weightBytesPerToken = (projections + unprojections).reduce(
      frame.headBytes + second.byteCount + layers.reduce(0) { $0 + $1.byteCount }
    ) { $0 + $1.byteCount }
    func buffers() -> [ScratchBuffer] { (0..<streams).map { _ in ScratchBuffer() } }
    (allStreams, allPredicted, chosenStreams, chosenPredicted) = (buffers(), buffers(), buffers(), buffers())
  }

  package var vocabularySize: Int { config.sizes.vocabulary }
  package var contextLength: Int { config.sizes.contextLength }
  package var cacheShape: [LayerCache] {
    [LayerCache](repeating: config.sizes.cacheShape, count: config.writers)
  }
  package func ropeVariant(forTokens tokens: Int) -> Int { 0 }

  package func forward(_ batch: Batch, cache: KVCache, logits: inout Logits) {
    let x = frame.begin(batch, cache: cache)
    localRope.prepare(frame.layout)
    frame.compute.scale(x, by: config.embeddingScale)
    var step = Step(
      streams: rows(of: allStreams, x.count), predicted: rows(of: allPredicted, x.count),
      second: second.lowerRows(of: frame.tokens, x), layout: frame.layout)
    spread(x, to: step.streams)
    for index in 0..<config.writers { run(index, &step, cache) }
    // The other layers write no keys and values, so rows without logits end here: most of a prompt.
    step = choose(batch, of: step, cache)
    if step.count > 0 {
      for index in config.writers..<layers.count { run(index, &step, cache) }
    }
    let out = frame.project(gather(step), into: &logits)
    if let softcap = config.softcap { frame.compute.softcap(out, at: softcap) }
  }

  private func rows(of buffers: [ScratchBuffer], _ count: Int) -> [Rows] {
    buffers.map { $0.rows(count, config.sizes.hidden) }
  }

  /// The first stream is the embedding, the others projections of it with its magnitude.
  private func spread(_ x: Rows, to streams: [Rows]) {
    copy(x, to: streams[0])
    for (stream, projection) in zip(streams.dropFirst(), projections) {
      projection(x, into: stream)
      frame.compute.matchMagnitude(stream, to: x, floor: Gemma3nConfig.magnitudeFloor)
    }
  }

  /// The mean of all streams, projected back.
  private func gather(_ step: Step) -> Rows {
    let compute = frame.compute
    let sum = branch.rows(step.count, config.sizes.hidden)
    copy(step.streams[0], to: sum)
    for (index, back) in unprojections.enumerated() {
      back(step.streams[index + 1], into: step.predicted[0])
      compute.matchMagnitude(step.predicted[0], to: step.streams[0], floor: Gemma3nConfig.magnitudeFloor)
      compute.add(step.predicted[0], to: sum)
    }
    compute.scale(sum, by: 1 / Float(config.streams))
    return sum
  }

  private func copy(_ x: Rows, to y: Rows) {
    for row in 0..<x.count { x.copyRow(row, to: y, at: row) }
  }

  /// The rows whose logits are requested, with angles and a layout of their own.
  private func choose(_ batch: Batch, of step: Step, _ cache: KVCache) -> Step {
    upperLayout.reset()
    for span in batch.spans where !span.logitRows.isEmpty {
      upperLayout.append(
        count: span.logitRows.count, start: span.start + span.logitRows.lowerBound, table: span.blocks,
        blockCount: cache.blockCount, ropeVariant: span.ropeVariant)
    }
    frame.rope.prepare(upperLayout)
    localRope.prepare(upperLayout)
    let count = upperLayout.rows
    let chosen = Step(
      streams: rows(of: chosenStreams, count), predicted: rows(of: chosenPredicted, count),
      second: chosenSecond.rows(count, step.second.columns), layout: upperLayout)
    for (from, to) in zip(step.streams, chosen.streams) { frame.select(batch, from: from, to: to) }
    frame.select(batch, from: step.second, to: chosen.second)
    return chosen
  }

  private func run(_ index: Int, _ step: inout Step, _ cache: KVCache) {
    let (compute, layer, epsilon) = (frame.compute, layers[index], config.sizes.epsilon)
    let (hidden, streams) = (config.sizes.hidden, config.streams)
    let h = frame.hidden.rows(from: 0, count: step.count)
    let mix = coefficients.rows(step.count, streams * streams)
    layer.altUp.prediction.exactly(modes(of: step.streams[0], layer.altUp, h), into: mix)
    compute.mix(step.streams, by: mix, into: step.predicted)
    let active = step.predicted[0]

    // u = (active + norm(attention(n)) + n + norm(laurel(n))) / √2
    let u = branch.rows(step.count, hidden)
    compute.rmsNorm(active, gain: layer.inputNorm, epsilon: epsilon, into: h)
    let rank = low.rows(step.count, config.laurelRank)
    layer.laurel.left(h, into: rank)
    layer.laurel.right(rank, into: u)
    compute.rmsNorm(u, gain: layer.laurel.norm, epsilon: epsilon, into: u)
    compute.add(h, to: u)
    attend(layer, h, step, cache)
    compute.rmsNorm(h, gain: layer.postAttentionNorm, epsilon: epsilon, into: h)
    compute.add(h, to: u)
    compute.add(active, to: u)
    compute.scale(u, by: Float(0.5).squareRoot())

    // v = u + norm(mlp(norm(u))), in the place of u
    compute.rmsNorm(u, gain: layer.preFeedforwardNorm, epsilon: epsilon, into: h)
    feedForward(layer, h)
    compute.rmsNorm(h, gain: layer.postFeedforwardNorm, epsilon: epsilon, into: h)
    compute.add(h, to: u)

    let factors = coefficients.rows(step.count, streams)
    layer.altUp.correction.exactly(modes(of: u, layer.altUp, h), into: factors)
    compute.correct(step.predicted, toward: u, by: factors)

    copy(step.predicted[0], to: h)
    if let scale = layer.altUp.outputScale { compute.scaleColumns(h, by: scale) }
    let gate = secondGated.rows(step.count, config.secondWidth)
    layer.second.gate(h, into: gate)
    compute.gatedGELU(
      gate, step.second.columns(from: index * config.secondWidth, count: config.secondWidth), into: gate)
    layer.second.projection(gate, into: h)
    compute.rmsNorm(h, gain: layer.second.norm, epsilon: epsilon, into: h)
    for stream in step.predicted.dropFirst() { compute.add(h, to: stream) }
    swap(&step.streams, &step.predicted)
  }

  /// What decides how the streams mix: `tanh(router(norm(x) / hidden))`, `[rows, streams]`.
  private func modes(of x: Rows, _ altUp: AltUp, _ h: Rows) -> Rows {
    let compute = frame.compute
    let out = modes.rows(x.count, config.streams)
    compute.rmsNorm(x, gain: altUp.routerNorm, epsilon: config.sizes.epsilon, into: h)
    altUp.router.exactly(h, into: out)
    compute.softcap(out, at: 1)
    return out
  }

  /// `h = mlp(h)`.
  private func feedForward(_ layer: Layer, _ h: Rows) {
    let gateUp = gated.rows(h.count, 2 * layer.intermediate)
    let gate = gateUp.columns(from: 0, count: layer.intermediate)
    layer.gateUp(h, into: gateUp)
    if let deviations = layer.deviations { frame.compute.keepOutliers(gate, beyond: deviations) }
    frame.compute.gatedGELU(
      gate, gateUp.columns(from: layer.intermediate, count: layer.intermediate), into: gate)
    layer.down(gate, into: h)
  }

  /// `h = o(attention of h)`, writing keys and values unless they are another layer's.
  private func attend(_ layer: Layer, _ h: Rows, _ step: Step, _ cache: KVCache) {
    let (compute, sizes) = (frame.compute, config.sizes)
    let rope = layer.attention.window == nil ? frame.rope : localRope
    let qkv = projected.rows(h.count, sizes.queryWidth + 2 * sizes.keyWidth)
    let q = qkv.columns(from: 0, count: sizes.queryWidth)
    let k = qkv.columns(from: sizes.queryWidth, count: sizes.keyWidth)
    let v = qkv.columns(from: sizes.queryWidth + sizes.keyWidth, count: sizes.keyWidth)
    layer.qkv(h, into: layer.ownsKeys ? qkv : q)
    compute.rmsNormHeads(q, gain: layer.qNorm, epsilon: sizes.epsilon)
    compute.rotate(q, headDim: sizes.headDim, by: rope)
    if layer.ownsKeys {
      compute.rmsNormHeads(k, gain: layer.kNorm, epsilon: sizes.epsilon)
      compute.rotate(k, headDim: sizes.headDim, by: rope)
      compute.rmsNormHeads(v, gain: config.ones, epsilon: sizes.epsilon)
    }
    let out = attended.rows(h.count, sizes.queryWidth)
    compute.attend(
      q, adding: layer.ownsKeys ? (k, v) : nil, shape: layer.attention, layer: layer.cacheLayer, of: cache,
      at: step.layout, into: out)
    layer.o(out, into: h)
  }
}

// MARK: - Loading

extension Gemma3n {
  private static func layer(
    _ index: Int, _ config: Gemma3nConfig, _ frame: DecoderFrame
  ) throws(ModelError) -> Layer {
    let (map, sizes) = (frame.layerWeights[index].given(config.named), config.sizes)
    let (hidden, width) = (sizes.hidden, config.intermediates[index])
    let (attention, laurel, mlp) = (map.at("self_attn"), map.at("laurel"), map.at("mlp"))
    func norm(_ name: String, _ map: WeightMap) throws(ModelError) -> [Float] {
      try DecoderFrame.vector(name + ".weight", count: hidden, at: map)
    }
    func linear(_ name: String, _ rows: Int, _ columns: Int, _ map: WeightMap) throws(ModelError) -> Linear {
      try Linear([name: rows], columns: columns, at: map, compute: frame.compute)
    }
    let ownsKeys = index < config.writers
    return Layer(
      inputNorm: try norm("input_layernorm", map),
      postAttentionNorm: try norm("post_attention_layernorm", map),
      preFeedforwardNorm: try norm("pre_feedforward_layernorm", map),
      postFeedforwardNorm: try norm("post_feedforward_layernorm", map),
      qNorm: try DecoderFrame.vector("q_norm.weight", count: sizes.headDim, at: attention),
      kNorm: ownsKeys
        ? try DecoderFrame.vector("k_norm.weight", count: sizes.headDim, at: attention) : [],
      // Checkpoints hold k_proj and v_proj of all layers; those of layers that read another's are not used.
      qkv: ownsKeys
        ? try Linear(
          ["q_proj": sizes.queryWidth, "k_proj": sizes.keyWidth, "v_proj": sizes.keyWidth],
          columns: hidden, at: attention, compute: frame.compute)
        : try linear("q_proj", sizes.queryWidth, hidden, attention),
      o: try linear("o_proj", hidden, sizes.queryWidth, attention),
      gateUp: try Linear(
        ["gate_proj": width, "up_proj": width], columns: hidden, at: mlp, compute: frame.compute),
      down: try linear("down_proj", hidden, width, mlp),
      intermediate: width, deviations: config.deviations(index),
      altUp: try altUp(config, map.at("altup"), frame.compute),
      laurel: Laurel(
        left: try linear("linear_left", config.laurelRank, hidden, laurel),
        right: try linear("linear_right", hidden, config.laurelRank, laurel),
        norm: try norm("post_laurel_norm", laurel)),
      second: SecondInput(
        gate: try linear("per_layer_input_gate", config.secondWidth, hidden, map),
        projection: try linear("per_layer_projection", hidden, config.secondWidth, map),
        norm: try norm("post_per_layer_input_norm", map)),
      attention: config.attention(index), cacheLayer: try config.cacheLayer(index), ownsKeys: ownsKeys)
  }

  private static func altUp(
    _ config: Gemma3nConfig, _ map: WeightMap, _ compute: ComputeContext
  ) throws(ModelError) -> AltUp {
    let (hidden, streams) = (config.sizes.hidden, config.streams)
    let gain = try DecoderFrame.vector("router_norm.weight", count: hidden, at: map)
    return AltUp(
      routerNorm: gain.map { $0 / Float(hidden) },
      router: try Linear(["modality_router": streams], columns: hidden, at: map, compute: compute),
      prediction: try Linear(
        ["prediction_coefs": streams * streams], columns: streams, at: map, compute: compute),
      correction: try Linear(["correction_coefs": streams], columns: streams, at: map, compute: compute),
      outputScale: config.scalesOutput
        ? try DecoderFrame.vector("correct_output_scale", count: hidden, at: map) : nil)
  }
}
