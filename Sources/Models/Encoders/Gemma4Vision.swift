// Gemma 4's vision tower: patches of an image in, soft tokens of the decoder out.
//
// Source: transformers' gemma4 (vision); names follow the checkpoints. Every patch sees every other. With x and y the
// patch's column and row:
//
//   h = input_proj(2 · pixels - 1) + table[0][x] + table[1][y]
//   h += norm(o(attend(rope(norm(q)), rope(norm(k)), norm(v))))      of norm(h), scores not scaled
//   h += norm(down(gelu(gate) · up))                                 of norm(h)
//   soft = embedding_projection(norm(mean of 3 · 3 patches · √hidden))
//
// Rotation turns the first half of a head by x and the second by y. Linear maps of small models clamp what goes in and
// comes out, at bounds of their own.

import Compute
import Media
import Platform

/// The tower with `embed_vision`. Engine thread only.
final class Gemma4Vision: MediaEncoder {
  fileprivate struct Layer {
    let inputNorm, postAttentionNorm: [Float]  // [hidden], around attention
    let preFeedforwardNorm, postFeedforwardNorm: [Float]  // [hidden], around the MLP
    let qNorm, kNorm: [Float]  // [headDim]
    let q, k, v, o: ClampedLinear
    let gate, up, down: ClampedLinear
  }

  let grid: PatchGrid
  fileprivate let config: Gemma4VisionConfig
  fileprivate let compute: ComputeContext
  fileprivate let inputProjection: Linear  // [patch · patch · 3] → [hidden]
  /// `[2 · positions, hidden]`: columns, then rows.
  fileprivate let positions: WeightStack
  fileprivate let layers: [Layer]
  fileprivate let standard: (offset: [Float], factor: [Float])?
  fileprivate let projection: Linear  // [hidden] → [the decoder's hidden]

  /// - Parameters:
  ///   - tower: the tensors under `vision_tower`.
  ///   - projection: the tensors under `embed_vision`.
  ///   - output: elements of a soft token.
  init(
    _ fields: ConfigFields, tower: LayerLoader, projection: LayerLoader, output: Int
  ) throws(ModelError) {
    let config = try Gemma4VisionConfig(fields)
    let tower = tower.given(config.named)
    let projection = projection.given(config.named).given(["hidden_size": output])
    let (hidden, patch) = (config.hidden, config.patch)
    let embedder = tower.at("patch_embedder")
    inputProjection = try embedder.linear(["input_proj": hidden], from: patch * patch * 3)
    let table = try embedder.tensor("position_embedding_table", shape: [2, config.positions, hidden])
    guard let flat = table.reshaped([2 * config.positions, hidden]) else {
      throw .missingTensor(name: table.name, because: "its size overflows")
    }
    positions = try embedder.table(flat)
    var layers: [Layer] = []
    for index in 0..<config.layers {
      layers.append(try Self.layer(tower.at("encoder.layers")[index], config))
    }
    self.layers = layers
    standard =
      config.isStandardized
      ? (try tower.vector("std_bias", hidden), try tower.vector("std_scale", hidden)) : nil
    self.projection = try projection.linear(["embedding_projection": output], from: hidden)
    grid = PatchGrid(
      patch: patch, pooling: config.pooling, tokens: config.tokens, positions: config.positions)
    self.config = config
    compute = tower.compute
  }

  private static func layer(_ weights: LayerLoader, _ config: Gemma4VisionConfig) throws(ModelError) -> Layer
  {
    let (attention, mlp) = (weights.at("self_attn"), weights.at("mlp"))
    let (hidden, shape) = (config.hidden, config.attention)
    let (queries, width) = (shape.heads * shape.headDim, shape.kvHeads * shape.headDim)
    func norm(_ name: String) throws(ModelError) -> [Float] { try weights.norm(name, hidden) }
    return Layer(
      inputNorm: try norm("input_layernorm"), postAttentionNorm: try norm("post_attention_layernorm"),
      preFeedforwardNorm: try norm("pre_feedforward_layernorm"),
      postFeedforwardNorm: try norm("post_feedforward_layernorm"),
      qNorm: try attention.norm("q_norm", shape.headDim), kNorm: try attention.norm("k_norm", shape.headDim),
      q: try ClampedLinear("q_proj", queries, from: hidden, attention),
      k: try ClampedLinear("k_proj", width, from: hidden, attention),
      v: try ClampedLinear("v_proj", width, from: hidden, attention),
      o: try ClampedLinear("o_proj", hidden, from: queries, attention),
      gate: try ClampedLinear("gate_proj", config.intermediate, from: hidden, mlp),
      up: try ClampedLinear("up_proj", config.intermediate, from: hidden, mlp),
      down: try ClampedLinear("down_proj", hidden, from: config.intermediate, mlp))
  }

  func begin(_ input: MediaInput) throws(ModelError) -> any MediaEncoding {
    guard case .image(let image) = input.content else {
      throw .unusableMedia("it is not an image")
    }
    return try begin(
      width: image.width, height: image.height, samples: image.pixels.map { Float($0) / 255 })
  }

  /// - Parameter samples: `[height][width][3]`, 0 to 1.
  func begin(width: Int, height: Int, samples: [Float]) throws(ModelError) -> Gemma4VisionRun {
    let (columns, rows) = (width / config.patch, height / config.patch)
    guard width > 0, height > 0, width % grid.side == 0, height % grid.side == 0,
      max(columns, rows) <= config.positions, samples.count == width * height * 3
    else { throw .unusableMedia("\(width) x \(height) pixels do not fit the patches") }
    return try Gemma4VisionRun(self, columns: columns, rows: rows, samples: samples)
  }

  /// Encodes a blank image of one token: every weight is read.
  func readWeights() throws(ModelError) {
    let blank = [Float](repeating: 0, count: grid.side * grid.side * 3)
    let run = try begin(width: grid.side, height: grid.side, samples: blank)
    while run.advance() == nil {}
  }
}

/// One image between the layers.
final class Gemma4VisionRun: MediaEncoding {
  private let tower: Gemma4Vision
  /// Patches.
  private let columns, rows: Int
  private var samples: [Float]
  private var nextLayer = -1
  private let cache: KVCache
  private let layout = StepLayout()
  private let across: RoPE
  private let down: RoPE
  private let residual = ScratchBuffer()
  private let normed = ScratchBuffer()
  private let clamped = ScratchBuffer()
  private let projected = ScratchBuffer()
  private let attended = ScratchBuffer()
  private let gated = ScratchBuffer()

  /// Patches that go through the feed-forward layers together: they are the widest.
  private static let chunk = 1024

  fileprivate init(_ tower: Gemma4Vision, columns: Int, rows: Int, samples: [Float]) throws(ModelError) {
    (self.tower, self.columns, self.rows) = (tower, columns, rows)
    self.samples = samples
    let shape = tower.config.attention
    let blocks = (columns * rows + KVCache.blockTokens - 1) / KVCache.blockTokens
    let layer = KVLayerShape(kvHeads: shape.kvHeads, headDim: shape.headDim)
    cache = try computing(try KVCache(shape: [layer], blockCount: blocks))
    layout.append(
      count: columns * rows, start: 0, table: (0..<blocks).map { Int32(clamping: $0) }, blockCount: blocks,
      ropeVariant: 0, groups: [0..<columns * rows])
    across = RoPE(variants: [tower.config.rope])
    down = RoPE(variants: [tower.config.rope])
    let columns = columns
    across.prepare(positions: (0..<columns * rows).map { $0 % columns })
    down.prepare(positions: (0..<columns * rows).map { $0 / columns })
  }

  private var patches: Int { columns * rows }
  private var x: Rows { residual.rows(patches, tower.config.hidden) }

  func advance() -> [Float]? {
    if nextLayer < 0 {
      embed()
    } else if nextLayer < tower.layers.count {
      run(tower.layers[nextLayer])
    } else {
      return finish()
    }
    nextLayer += 1
    return nil
  }

  private func embed() {
    let (config, compute) = (tower.config, tower.compute)
    let (patch, width) = (config.patch, columns * config.patch * 3)
    let pixels = projected.rows(patches, patch * patch * 3)
    for index in 0..<patches {
      let first = index / columns * patch * width + index % columns * patch * 3
      var values: [Float] = []
      values.reserveCapacity(patch * patch * 3)
      for line in 0..<patch {
        for sample in samples[first + line * width..<first + line * width + patch * 3] {
          values.append(2 * (sample - 0.5))
        }
      }
      pixels.set(index, to: values[...])
    }
    samples = []
    let x = x
    tower.inputProjection(pixels, into: x)
    let columns = columns
    let places = normed.rows(patches, config.hidden)
    compute.gather((0..<patches).map { Int32(clamping: $0 % columns) }, of: tower.positions, into: places)
    compute.add(places, to: x)
    compute.gather(
      (0..<patches).map { Int32(clamping: config.positions + $0 / columns) }, of: tower.positions,
      into: places)
    compute.add(places, to: x)
  }

  private func run(_ layer: Gemma4Vision.Layer) {
    let (compute, epsilon) = (tower.compute, tower.config.epsilon)
    let x = x
    let h = normed.rows(patches, tower.config.hidden)
    compute.rmsNorm(x, gain: layer.inputNorm, epsilon: epsilon, into: h)
    attend(layer, h)
    compute.rmsNorm(h, gain: layer.postAttentionNorm, epsilon: epsilon, into: h)
    compute.add(h, to: x)

    compute.rmsNorm(x, gain: layer.preFeedforwardNorm, epsilon: epsilon, into: h)
    var start = 0
    while start < patches {
      let count = min(Self.chunk, patches - start)
      let part = h.rows(from: start, count: count)
      let both = gated.rows(count, 2 * tower.config.intermediate)
      let gate = both.columns(from: 0, count: tower.config.intermediate)
      let up = both.columns(from: tower.config.intermediate, count: tower.config.intermediate)
      layer.gate(part, into: gate, scratch: clamped)
      layer.up(part, into: up, scratch: clamped)
      compute.gatedGELU(gate, up, into: gate)
      layer.down(gate, into: part, scratch: clamped)
      start += count
    }
    compute.rmsNorm(h, gain: layer.postFeedforwardNorm, epsilon: epsilon, into: h)
    compute.add(h, to: x)
  }

  /// `h = o(attention of h)`.
  private func attend(_ layer: Gemma4Vision.Layer, _ h: Rows) {
    let (compute, shape, epsilon) = (tower.compute, tower.config.attention, tower.config.epsilon)
    let (queries, width) = (shape.heads * shape.headDim, shape.kvHeads * shape.headDim)
    let all = projected.rows(h.count, queries + 2 * width)
    let q = all.columns(from: 0, count: queries)
    let k = all.columns(from: queries, count: width)
    let v = all.columns(from: queries + width, count: width)
    layer.q(h, into: q, scratch: clamped)
    layer.k(h, into: k, scratch: clamped)
    layer.v(h, into: v, scratch: clamped)
    compute.rmsNormHeads(q, gain: layer.qNorm, epsilon: epsilon)
    compute.rmsNormHeads(k, gain: layer.kNorm, epsilon: epsilon)
    compute.rmsNormHeads(v, gain: tower.config.ones, epsilon: epsilon)
    compute.rotate(q, headDim: shape.headDim, by: across, down)
    compute.rotate(k, headDim: shape.headDim, by: across, down)
    let out = attended.rows(h.count, queries)
    compute.attend(q, adding: (k, v), shape: shape, layer: 0, of: cache, at: layout, into: out)
    layer.o(out, into: h, scratch: clamped)
  }

  /// The tower's output, one row per soft token.
  func pooled() -> Rows {
    let (config, compute) = (tower.config, tower.compute)
    let tokens = patches / (config.pooling * config.pooling)
    let out = attended.rows(tokens, config.hidden)
    compute.pool(x, width: columns, side: config.pooling, into: out)
    compute.scale(out, by: Float(config.hidden).squareRoot())
    if let standard = tower.standard {
      compute.standardize(out, offset: standard.offset, factor: standard.factor)
    }
    return out
  }

  private func finish() -> [Float] {
    let out = pooled()
    tower.compute.rmsNorm(
      out, gain: [Float](repeating: 1, count: tower.config.hidden), epsilon: tower.config.epsilon, into: out)
    let soft = projected.rows(out.count, tower.projection.rows)
    tower.projection(out, into: soft)
    return (0..<soft.count).flatMap { soft.values(ofRow: $0) }
  }
}

/// What config.json says about the tower, checked.
struct Gemma4VisionConfig {
  let hidden, intermediate, layers: Int
  let patch, pooling, tokens: Int
  /// Rows of the position table per axis.
  let positions: Int
  let epsilon: Float
  let isStandardized: Bool
  let attention: AttentionShape
  let rope: RoPEFrequencies
  /// The gain of values' norm, which has no weights.
  let ones: [Float]

  init(_ config: ConfigFields) throws(ModelError) {
    hidden = try config.int("hidden_size", in: 4...1 << 14, default: 768)
    intermediate = try config.int("intermediate_size", in: 1...1 << 16, default: 3072)
    layers = try config.int("num_hidden_layers", in: 1...256, default: 16)
    patch = try config.int("patch_size", in: 1...64, default: 16)
    pooling = try config.int("pooling_kernel_size", in: 1...16, default: 3)
    tokens = try config.int("default_output_length", in: 1...4096, default: 280)
    positions = try config.int("position_embedding_size", in: pooling...1 << 16, default: 10_240)
    epsilon = Float(try config.double("rms_norm_eps", in: 0...1, default: 1e-6))
    isStandardized = try config.bool("standardize", default: false)
    let heads = try config.int("num_attention_heads", in: 1...256, default: 12)
    let kvHeads = try config.int("num_key_value_heads", in: 1...heads, default: heads)
    let headDim = try config.int("head_dim", in: 4...1024, default: hidden / heads)
    guard heads % kvHeads == 0 else {
      throw .invalidValue(
        key: "vision_config.num_key_value_heads", found: "\(kvHeads)",
        expected: "a divisor of num_attention_heads = \(heads)")
    }
    guard headDim >= 4, headDim % 4 == 0 else {
      throw .invalidValue(
        key: "vision_config.head_dim", found: "\(headDim)", expected: "a multiple of 4, and not 0")
    }
    if let activation = try config.string("hidden_activation"), activation != "gelu_pytorch_tanh" {
      throw .unsupportedSetting(
        key: "vision_config.hidden_activation", value: activation, supported: "gelu_pytorch_tanh")
    }
    // Norms of queries and keys take the place of a scale.
    attention = AttentionShape(heads: heads, kvHeads: kvHeads, headDim: headDim, scale: 1)
    let theta =
      try config.object("rope_parameters")?.double("rope_theta", in: 2...1e15, default: 100) ?? 100
    rope = RoPEFrequencies(
      inverse: (0..<headDim / 4).map { pow(theta, -Double(4 * $0) / Double(headDim)) })
    ones = [Float](repeating: 1, count: headDim)
  }

  /// The sizes that shapes of tensors follow from, by their keys in config.json.
  var named: KeyValuePairs<String, Int> {
    [
      "vision_config.hidden_size": hidden, "vision_config.intermediate_size": intermediate,
      "vision_config.num_attention_heads": attention.heads,
      "vision_config.num_key_value_heads": attention.kvHeads, "vision_config.head_dim": attention.headDim,
      "vision_config.patch_size": patch, "vision_config.position_embedding_size": positions,
    ]
  }
}
