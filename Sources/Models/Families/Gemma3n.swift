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

package import Compute

/// Decoder whose layers from `num_hidden_layers - num_kv_shared_layers` on cache nothing of their own.
package final class Gemma3n: CausalModel {
  private struct Layer {
    let inputNorm, postAttentionNorm: [Float]  // [hidden], around attention
    let preFeedforwardNorm, postFeedforwardNorm: [Float]  // [hidden], around the MLP
    let attention: SelfAttention
    let gateUp: Linear  // [hidden] → [gate | up]
    let down: Linear  // [intermediate] → [hidden]
    /// How many standard deviations above the mean a gate must be to count; nil for an ordinary MLP.
    let deviations: Float?
    let altUp: AltUp
    let laurel: Laurel
    let second: GemmaSecondInput

    var byteCount: Int {
      [
        gateUp, down, altUp.router, altUp.prediction, altUp.correction, laurel.left, laurel.right,
      ].reduce(attention.byteCount + second.byteCount) { $0 + $1.byteCount }
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

  /// Rows on their way through the layers, with two sets of streams that change places at every layer.
  private struct Streams {
    var streams: [Rows]
    var predicted: [Rows]
    let second: Rows  // [rows, layers · width]
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
  package var tableBytes: Int { second.tableBytes }

  private let low = ScratchBuffer()
  private let branch = ScratchBuffer()
  private let modes = ScratchBuffer()
  private let coefficients = ScratchBuffer()
  private let chosenSecond = ScratchBuffer()
  private let allStreams, allPredicted, chosenStreams, chosenPredicted: [ScratchBuffer]

  init(_ fields: ConfigFields, _ checkpoint: LayerLoader) throws(ModelError) {
    let config = try Gemma3nConfig(fields)
    let (hidden, streams) = (config.sizes.hidden, config.streams)
    let frame = try DecoderFrame(config.sizes, rope: config.fullRope, checkpoint)
    let localRope = config.localRope.rope
    second = try GemmaSecondEmbedding(
      width: config.secondWidth, vocabulary: config.secondVocabulary, lowerLayers: config.sizes.layers,
      config.sizes, frame)
    func maps(_ name: String) throws(ModelError) -> [Linear] {
      var maps: [Linear] = []
      for index in 0..<streams - 1 {
        maps.append(try frame.weights.linear(["\(name).\(index)": hidden], from: hidden))
      }
      return maps
    }
    projections = try maps("altup_projections")
    unprojections = try maps("altup_unembed_projections")
    layers = try frame.layers { index, weights throws(ModelError) in
      let rope = config.attention(index).window == nil ? frame.rope : localRope
      return try Self.layer(index, config, rope, frame, weights.given(config.named))
    }
    (self.config, self.frame, self.localRope) = (config, frame, localRope)
    func buffers() -> [ScratchBuffer] { (0..<streams).map { _ in ScratchBuffer() } }
    (allStreams, allPredicted, chosenStreams, chosenPredicted) = (buffers(), buffers(), buffers(), buffers())
  }

  package var vocabularySize: Int { config.sizes.vocabulary }
  package var contextLength: Int { config.sizes.contextLength }
  package var cacheShape: [LayerCache] { layers.compactMap(\.attention.cacheShape) }
  package var weightBytesPerToken: Int {
    let maps = (projections + unprojections).reduce(frame.headBytes) { $0 + $1.byteCount }
    return layers.reduce(maps + second.byteCount) { $0 + $1.byteCount }
  }
  package func ropeVariant(forTokens tokens: Int) -> Int { 0 }
  package var adapters: AdapterShelf? { frame.weights.shelf }

  package func forward(_ batch: Batch, cache: KVCache, logits: inout Logits) {
    var step = frame.begin(batch, cache: cache)
    localRope.prepare(step.layout)
    let x = step.embeddings
    frame.compute.scale(x, by: config.embeddingScale)
    var rows = Streams(
      streams: self.rows(of: allStreams, x.count), predicted: self.rows(of: allPredicted, x.count),
      second: second.lowerRows(of: frame.tokens, x))
    spread(x, to: rows.streams)
    for layer in layers[..<config.writers] { run(layer, &rows, step) }
    // The other layers write no keys and values, so rows without logits end here: most of a prompt.
    step.layout = frame.layOutChosen(batch, cache: cache)
    frame.rope.prepare(step.layout)
    localRope.prepare(step.layout)
    rows = choose(batch, step.layout.rows, of: rows)
    if rows.count > 0 {
      for layer in layers[config.writers...] { run(layer, &rows, step) }
    }
    let out = frame.project(gather(rows), into: &logits)
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
  private func gather(_ rows: Streams) -> Rows {
    let compute = frame.compute
    let sum = branch.rows(rows.count, config.sizes.hidden)
    copy(rows.streams[0], to: sum)
    for (index, back) in unprojections.enumerated() {
      back(rows.streams[index + 1], into: rows.predicted[0])
      compute.matchMagnitude(rows.predicted[0], to: rows.streams[0], floor: Gemma3nConfig.magnitudeFloor)
      compute.add(rows.predicted[0], to: sum)
    }
    compute.scale(sum, by: 1 / Float(config.streams))
    return sum
  }

  private func copy(_ x: Rows, to y: Rows) {
    for row in 0..<x.count { x.copyRow(row, to: y, at: row) }
  }

  /// The rows whose logits are requested.
  private func choose(_ batch: Batch, _ count: Int, of all: Streams) -> Streams {
    let chosen = Streams(
      streams: rows(of: chosenStreams, count), predicted: rows(of: chosenPredicted, count),
      second: chosenSecond.rows(count, all.second.columns))
    for (from, to) in zip(all.streams, chosen.streams) { frame.select(batch, from: from, to: to) }
    frame.select(batch, from: all.second, to: chosen.second)
    return chosen
  }

  private func run(_ layer: Layer, _ rows: inout Streams, _ step: DecoderStep) {
    let (compute, epsilon) = (frame.compute, config.sizes.epsilon)
    let (hidden, streams) = (config.sizes.hidden, config.streams)
    let h = frame.hidden.rows(from: 0, count: rows.count)
    let mix = coefficients.rows(rows.count, streams * streams)
    layer.altUp.prediction.exactly(modes(of: rows.streams[0], layer.altUp, h), into: mix)
    compute.mix(rows.streams, by: mix, into: rows.predicted)
    let active = rows.predicted[0]

    // u = (active + norm(attention(n)) + n + norm(laurel(n))) / √2
    let u = branch.rows(rows.count, hidden)
    compute.rmsNorm(active, gain: layer.inputNorm, epsilon: epsilon, into: h)
    let rank = low.rows(rows.count, config.laurelRank)
    layer.laurel.left(h, into: rank)
    layer.laurel.right(rank, into: u)
    compute.rmsNorm(u, gain: layer.laurel.norm, epsilon: epsilon, into: u)
    compute.add(h, to: u)
    layer.attention(h, step)
    compute.rmsNorm(h, gain: layer.postAttentionNorm, epsilon: epsilon, into: h)
    compute.add(h, to: u)
    compute.add(active, to: u)
    compute.scale(u, by: Float(0.5).squareRoot())

    // v = u + norm(mlp(norm(u))), in the place of u
    compute.rmsNorm(u, gain: layer.preFeedforwardNorm, epsilon: epsilon, into: h)
    feedForward(layer, h)
    compute.rmsNorm(h, gain: layer.postFeedforwardNorm, epsilon: epsilon, into: h)
    compute.add(h, to: u)

    let factors = coefficients.rows(rows.count, streams)
    layer.altUp.correction.exactly(modes(of: u, layer.altUp, h), into: factors)
    compute.correct(rows.predicted, toward: u, by: factors)

    copy(rows.predicted[0], to: h)
    if let scale = layer.altUp.outputScale { compute.scaleColumns(h, by: scale) }
    layer.second(h, rows.second, into: h, frame)
    for stream in rows.predicted.dropFirst() { compute.add(h, to: stream) }
    swap(&rows.streams, &rows.predicted)
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
    let gateUp = frame.gateUp(rows: h.count, layer.gateUp.rows)
    let gate = gateUp.columns(from: 0, count: gateUp.columns / 2)
    let up = gateUp.columns(from: gate.columns, count: gate.columns)
    layer.gateUp(h, into: gateUp)
    if let deviations = layer.deviations { frame.compute.keepOutliers(gate, beyond: deviations) }
    frame.compute.gatedGELU(gate, up, into: gate)
    layer.down(gate, into: h)
  }
}

// MARK: - Loading

extension Gemma3n {
  private static func layer(
    _ index: Int, _ config: Gemma3nConfig, _ rope: RoPE, _ frame: DecoderFrame, _ weights: LayerLoader
  ) throws(ModelError) -> Layer {
    let (hidden, width) = (config.sizes.hidden, config.intermediates[index])
    let (laurel, mlp) = (weights.at("laurel"), weights.at("mlp"))
    func norm(_ name: String) throws(ModelError) -> [Float] { try weights.norm(name, hidden) }
    return Layer(
      inputNorm: try norm("input_layernorm"), postAttentionNorm: try norm("post_attention_layernorm"),
      preFeedforwardNorm: try norm("pre_feedforward_layernorm"),
      postFeedforwardNorm: try norm("post_feedforward_layernorm"),
      attention: try SelfAttention(
        config.attention(index), layer: config.cacheLayer(index), rope: rope,
        .init(keys: index < config.writers ? .own : .shared, norms: .heads, normsValues: true), frame,
        weights.at("self_attn")),
      gateUp: try mlp.linear(["gate_proj": width, "up_proj": width], from: hidden),
      down: try mlp.linear(["down_proj": hidden], from: width),
      deviations: config.deviations(index),
      altUp: try altUp(config, weights.at("altup")),
      laurel: Laurel(
        left: try laurel.linear(["linear_left": config.laurelRank], from: hidden),
        right: try laurel.linear(["linear_right": hidden], from: config.laurelRank),
        norm: try laurel.norm("post_laurel_norm", hidden)),
      second: try GemmaSecondInput(layer: index, width: config.secondWidth, frame, weights))
  }

  private static func altUp(_ config: Gemma3nConfig, _ weights: LayerLoader) throws(ModelError) -> AltUp {
    let (hidden, streams) = (config.sizes.hidden, config.streams)
    return AltUp(
      routerNorm: try weights.norm("router_norm", hidden).map { $0 / Float(hidden) },
      router: try weights.linear(["modality_router": streams], from: hidden),
      prediction: try weights.linear(["prediction_coefs": streams * streams], from: streams),
      correction: try weights.linear(["correction_coefs": streams], from: streams),
      outputScale: config.scalesOutput ? try weights.vector("correct_output_scale", hidden) : nil)
  }
}
