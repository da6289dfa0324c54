// Gemma 4's audio tower: a spectrogram in, soft tokens of the decoder out.
//
// Source: transformers' gemma4 (audio), a Conformer (arXiv:2005.08100) with local attention; names follow the
// checkpoints. After the convolutions of Gemma4AudioInput a layer computes
//
//   x += ½ norm(ffw_layer_2(silu(ffw_layer_1(norm(x)))))                          feed_forward1
//   x += norm(post(attend(q, k, v)))                                              of norm(x)
//   x += linear_end(silu(norm(convolve(a · sigmoid(b)))))                         (a, b) = linear_start(norm(x))
//   x += ½ norm(ffw_layer_2(silu(ffw_layer_1(norm(x)))))                          feed_forward2
//   x = norm(x)
//
// and soft = embedding_projection(norm(output_proj(x))). A row sees itself and the eleven rows before it; a score is
// q · (k + the key of the distance), capped. Linear maps clamp what goes in and comes out.

import Compute
import Media
import Platform

/// The tower with `embed_audio`. Engine thread only.
final class Gemma4Audio: MediaEncoder {
  fileprivate struct FeedForward {
    let norm, postNorm: [Float]  // [hidden]; the residual's weight is in the second
    let up, down: ClampedLinear  // [hidden] → [4 · hidden] → [hidden]
  }

  fileprivate struct Layer {
    let before, after: FeedForward
    let attentionNorm, postAttentionNorm: [Float]  // [hidden]
    let q, k, v, post: ClampedLinear
    let relative: Linear  // [hidden] → [hidden], of the distances' sines
    /// Multiplies queries: the score's scale and the checkpoint's own, per element of a head.
    let queryScale: [Float]  // [hidden]
    let convolutionNorm, convolvedNorm: [Float]  // [hidden]
    let start, end: ClampedLinear  // [hidden] → [a | b], [hidden] → [hidden]
    let taps: [Float]  // [taps][hidden]
    let outputNorm: [Float]  // [hidden]
  }

  let settings: MelSettings
  let config: Gemma4AudioConfig
  fileprivate let compute: ComputeContext
  fileprivate let input: Gemma4AudioInput
  fileprivate let layers: [Layer]
  fileprivate let output: Linear  // [hidden] → [output], with a bias
  fileprivate let projection: Linear  // [output] → [the decoder's hidden]

  /// - Parameters:
  ///   - tower: the tensors under `audio_tower`.
  ///   - projection: the tensors under `embed_audio`.
  ///   - output: elements of a soft token.
  init(
    _ config: Gemma4AudioConfig, settings: MelSettings, tower: LayerLoader, projection: LayerLoader,
    output: Int
  ) throws(ModelError) {
    let tower = tower.given(config.named)
    let projection = projection.given(config.named).given(["hidden_size": output])
    input = try Gemma4AudioInput(
      config, bands: settings.bands, tower.at("subsample_conv_projection"))
    var layers: [Layer] = []
    for index in 0..<config.layers { layers.append(try Self.layer(tower.at("layers")[index], config)) }
    self.layers = layers
    self.output = try tower.linear(["output_proj": config.output], from: config.hidden, bias: true)
    self.projection = try projection.linear(["embedding_projection": output], from: config.output)
    (self.settings, self.config) = (settings, config)
    compute = tower.compute
  }

  private static func layer(_ weights: LayerLoader, _ config: Gemma4AudioConfig) throws(ModelError) -> Layer {
    let (hidden, attention, convolution) = (config.hidden, weights.at("self_attn"), weights.at("lconv1d"))
    func linear(_ name: String, _ rows: Int, _ weights: LayerLoader) throws(ModelError) -> ClampedLinear {
      try ClampedLinear(name, rows, from: hidden, weights)
    }
    let ownScale = try attention.vector("per_dim_scale", config.headDim)
    return Layer(
      before: try feedForward(weights.at("feed_forward1"), config),
      after: try feedForward(weights.at("feed_forward2"), config),
      attentionNorm: try weights.norm("norm_pre_attn", hidden),
      postAttentionNorm: try weights.norm("norm_post_attn", hidden),
      q: try linear("q_proj", hidden, attention), k: try linear("k_proj", hidden, attention),
      v: try linear("v_proj", hidden, attention), post: try linear("post", hidden, attention),
      relative: try attention.linear(["relative_k_proj": hidden], from: hidden),
      queryScale: (0..<hidden).map { column in
        // softplus / ln 2, so that a scale of zero means one.
        let own = log1p(exp(Double(ownScale[column % config.headDim]))) / log(2)
        return Float(own / Double(config.headDim).squareRoot())
      },
      convolutionNorm: try convolution.norm("pre_layer_norm", hidden),
      convolvedNorm: try convolution.norm("conv_norm", hidden),
      start: try linear("linear_start", 2 * hidden, convolution),
      end: try linear("linear_end", hidden, convolution),
      taps: try taps(convolution, config), outputNorm: try weights.norm("norm_out", hidden))
  }

  private static func feedForward(
    _ weights: LayerLoader, _ config: Gemma4AudioConfig
  ) throws(ModelError) -> FeedForward {
    let (hidden, wide) = (config.hidden, 4 * config.hidden)
    return FeedForward(
      norm: try weights.norm("pre_layer_norm", hidden),
      postNorm: try weights.norm("post_layer_norm", hidden).map { $0 * config.residualWeight },
      up: try ClampedLinear("ffw_layer_1", wide, from: hidden, weights),
      down: try ClampedLinear("ffw_layer_2", hidden, from: wide, weights))
  }

  /// `[hidden, taps, 1]` or `[hidden, 1, taps]`, which is the same in memory, to `[taps][hidden]`.
  private static func taps(_ weights: LayerLoader, _ config: Gemma4AudioConfig) throws(ModelError) -> [Float]
  {
    let name = "depthwise_conv1d.weight"
    let (hidden, count) = (config.hidden, config.taps)
    let shape = weights.shape(of: name) == [hidden, 1, count] ? [hidden, 1, count] : [hidden, count, 1]
    let stored = try weights.floats(name, shape: shape)
    return (0..<count * hidden).map { stored[$0 % hidden * count + $0 / hidden] }
  }

  func begin(_ input: MediaInput) throws(ModelError) -> any MediaEncoding {
    guard case .audio(let frames) = input.content, frames.bins == settings.bands else {
      throw .unusableMedia("it is not a spectrogram of \(settings.bands) bands")
    }
    return Gemma4AudioRun(self, frames)
  }

  /// Encodes a moment of silence: every weight is read.
  func readWeights() {
    let silence = [Float](repeating: Float(log(settings.floor)), count: 4 * settings.bands)
    let run = Gemma4AudioRun(self, MelFrames(count: 4, bins: settings.bands, values: silence))
    while run.advance() == nil {}
  }
}

/// One audio clip between the layers.
final class Gemma4AudioRun: MediaEncoding {
  private let tower: Gemma4Audio
  private var frames: MelFrames?
  /// Rows after the convolutions: soft tokens.
  private let count: Int
  private var nextLayer = 0
  private let residual = ScratchBuffer()
  private let normed = ScratchBuffer()
  private let clamped = ScratchBuffer()
  private let wide = ScratchBuffer()
  private let projected = ScratchBuffer()
  private let distances = ScratchBuffer()
  private let relative = ScratchBuffer()

  fileprivate init(_ tower: Gemma4Audio, _ frames: MelFrames) {
    (self.tower, self.frames) = (tower, frames)
    count = Gemma4AudioInput.halved(Gemma4AudioInput.halved(frames.count))
    fillDistances()
  }

  private var x: Rows { residual.rows(count, tower.config.hidden) }

  func advance() -> [Float]? {
    if let frames {
      let spectrogram = wide.rows(frames.count, frames.bins)
      for row in 0..<frames.count {
        spectrogram.set(row, to: frames.values[row * frames.bins..<(row + 1) * frames.bins])
      }
      tower.input(spectrogram, into: x)
      self.frames = nil
    } else if nextLayer < tower.layers.count {
      run(tower.layers[nextLayer])
      nextLayer += 1
    } else {
      return finish()
    }
    return nil
  }

  /// `[sin(d · w) | cos(d · w)]` with frequencies w from 1 to 1/10000.
  private func fillDistances() {
    let half = tower.config.hidden / 2
    let rows = distances.rows(tower.config.distances, 2 * half)
    for distance in 0..<tower.config.distances {
      let angles = (0..<half).map { index in
        Double(distance) * exp(-Double(index) * log(10_000) / Double(max(1, half - 1)))
      }
      rows.set(distance, to: (angles.map { Float(sin($0)) } + angles.map { Float(cos($0)) })[...])
    }
  }

  private func run(_ layer: Gemma4Audio.Layer) {
    let (compute, epsilon, x) = (tower.compute, tower.config.epsilon, x)
    let h = normed.rows(count, tower.config.hidden)
    feedForward(layer.before, h)
    compute.rmsNorm(x, gain: layer.attentionNorm, epsilon: epsilon, into: h)
    attend(layer, h)
    compute.rmsNorm(h, gain: layer.postAttentionNorm, epsilon: epsilon, into: h)
    compute.add(h, to: x)
    compute.rmsNorm(x, gain: layer.convolutionNorm, epsilon: epsilon, into: h)
    convolve(layer, h)
    compute.add(h, to: x)
    feedForward(layer.after, h)
    compute.rmsNorm(x, gain: layer.outputNorm, epsilon: epsilon, into: x)
  }

  /// `x += norm(down(silu(up(norm(x)))))`.
  private func feedForward(_ block: Gemma4Audio.FeedForward, _ h: Rows) {
    let (compute, epsilon, x) = (tower.compute, tower.config.epsilon, x)
    let inner = wide.rows(count, 4 * tower.config.hidden)
    compute.rmsNorm(x, gain: block.norm, epsilon: epsilon, into: h)
    block.up(h, into: inner, scratch: clamped)
    compute.gatedSigmoid(inner, inner, into: inner)
    block.down(inner, into: h, scratch: clamped)
    compute.rmsNorm(h, gain: block.postNorm, epsilon: epsilon, into: h)
    compute.add(h, to: x)
  }

  /// `h = post(attention of h)`.
  private func attend(_ layer: Gemma4Audio.Layer, _ h: Rows) {
    let (compute, config) = (tower.compute, tower.config)
    let hidden = config.hidden
    let all = wide.rows(count, 3 * hidden)
    let (q, k, v) = (
      all.columns(from: 0, count: hidden), all.columns(from: hidden, count: hidden),
      all.columns(from: 2 * hidden, count: hidden)
    )
    layer.q(h, into: q, scratch: clamped)
    layer.k(h, into: k, scratch: clamped)
    layer.v(h, into: v, scratch: clamped)
    compute.scaleColumns(q, by: layer.queryScale)
    // softplus(1) / ln 2
    compute.scale(k, by: Float(log1p(exp(1.0)) / log(2)))
    let keys = relative.rows(config.distances, hidden)
    layer.relative(distances.rows(config.distances, hidden), into: keys)
    let out = projected.rows(count, hidden)
    compute.attendLocally(q, k, v, relative: keys, heads: config.heads, cap: config.cap, into: out)
    layer.post(out, into: h, scratch: clamped)
  }

  /// `h = linear_end(silu(norm(convolve(gate(linear_start(h))))))`.
  private func convolve(_ layer: Gemma4Audio.Layer, _ h: Rows) {
    let (compute, hidden) = (tower.compute, tower.config.hidden)
    let both = wide.rows(count, 2 * hidden)
    layer.start(h, into: both, scratch: clamped)
    let (value, gate) = (both.columns(from: 0, count: hidden), both.columns(from: hidden, count: hidden))
    compute.gatedSigmoid(gate, value, into: gate)
    let out = projected.rows(count, hidden)
    compute.convolve(gate, taps: tower.config.taps, weights: layer.taps, into: out)
    compute.rmsNorm(out, gain: layer.convolvedNorm, epsilon: tower.config.epsilon, into: out)
    compute.gatedSigmoid(out, out, into: out)
    layer.end(out, into: h, scratch: clamped)
  }

  /// The tower's output, one row per soft token.
  func towerOutput() -> Rows {
    let out = projected.rows(count, tower.config.output)
    tower.output(x, into: out)
    return out
  }

  private func finish() -> [Float] {
    let out = towerOutput()
    tower.compute.rmsNorm(
      out, gain: [Float](repeating: 1, count: tower.config.output), epsilon: tower.config.epsilon, into: out)
    let soft = wide.rows(count, tower.projection.rows)
    tower.projection(out, into: soft)
    return (0..<count).flatMap { soft.values(ofRow: $0) }
  }
}
