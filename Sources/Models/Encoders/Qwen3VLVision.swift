// Qwen3-VL's eyes: the image in its own shape, as many patches as the budget allows.
//
// Source: arXiv:2511.21631 and transformers' qwen3_vl; names follow the checkpoints. With x and y the patch's column and
// row, every patch sees every other:
//
//   h = patch_embed.proj(pixels) + pos_embed at (y, x), bilinear between the table's places
//   h += proj(attend(rope(q), rope(k), v)) of norm1(h)
//   h += linear_fc2(gelu(linear_fc1)) of norm2(h)
//   soft = merger.linear_fc2(gelu(merger.linear_fc1(join(merger.norm(h)))))
//
// `join` puts 2 · 2 patches side by side. Rotation turns the first half of a head's pairs by y and the second by x. After
// some layers a merger of its own, which norms what it has joined, makes what is added to the soft tokens after the
// decoder's first layers (deepstack). Queries, keys and values are one matrix.

import Compute
import Media
import Platform

/// The tower with its mergers. Engine thread only.
final class Qwen3VLVision: MediaEncoder {
  fileprivate struct Layer {
    let attentionNorm, mlpNorm: LayerNorm
    let qkv, out: Linear
    let up, down: Linear
  }

  fileprivate struct Merger {
    let norm: LayerNorm
    let normsFirst: Bool
    let up, down: Linear
  }

  /// Where towers are: in MLX's layout, and in others.
  static let places = ["vision_tower", "visual", "model.visual", "model.language_model.visual"]
  /// By its presence a tower is found.
  static let firstTensor = "patch_embed.proj.weight"

  fileprivate let config: Qwen3VLVisionConfig
  fileprivate let compute: ComputeContext
  fileprivate let pixels: PixelScale
  fileprivate let embedding: Linear  // [patch · patch · 3] → [hidden]
  fileprivate let positions: WeightStack  // [side · side, hidden]
  fileprivate let layers: [Layer]
  fileprivate let merger: Merger
  /// After the layers of `config.deepLayers`.
  fileprivate let deepMergers: [Merger]

  static func towers(_ source: TowerSource, _ tower: LayerLoader) throws(ModelError) -> MediaTowers {
    let config = try Qwen3VLVisionConfig(source.vision(), output: source.hidden())
    let text = try source.config.object("text_config") ?? source.config
    let depth = config.deepLayers.count
    guard depth < (try text.int("num_hidden_layers", in: 1...1024)) else {
      throw .invalidValue(
        key: "vision_config.deepstack_visual_indexes", found: "\(depth) of them",
        expected: "fewer than the decoder has layers")
    }
    var towers = MediaTowers()
    towers.depth = depth
    towers.images = try Qwen3VLVision(config, source, tower)
    towers.rules.images = try QwenImages(
      source.imageProcessor, placeholder: source.config.token("image"), side: config.patch * config.merge)
    return towers
  }

  private init(
    _ config: Qwen3VLVisionConfig, _ source: TowerSource, _ weights: LayerLoader
  ) throws(ModelError) {
    let weights = weights.given(config.named)
    let (hidden, width) = (config.hidden, config.hidden * config.merge * config.merge)
    func norm(_ name: String, _ size: Int, _ part: LayerLoader) throws(ModelError) -> LayerNorm {
      try LayerNorm(name, size, epsilon: config.epsilon, part)
    }
    func merger(_ part: LayerLoader, normsFirst: Bool) throws(ModelError) -> Merger {
      Merger(
        norm: try norm("norm", normsFirst ? hidden : width, part), normsFirst: normsFirst,
        up: try part.linear(["linear_fc1": width], from: width, bias: true),
        down: try part.linear(["linear_fc2": config.output], from: width, bias: true))
    }
    embedding = try weights.at("patch_embed").patchEmbedding(
      "proj", rows: hidden, patch: config.patch, frames: config.frames)
    positions = try weights.embedding("pos_embed", rows: config.side * config.side, columns: hidden)
    var layers: [Layer] = []
    for index in 0..<config.layers {
      let layer = weights.at("blocks")[index]
      let (attention, mlp) = (layer.at("attn"), layer.at("mlp"))
      layers.append(
        Layer(
          attentionNorm: try norm("norm1", hidden, layer), mlpNorm: try norm("norm2", hidden, layer),
          qkv: try attention.linear(["qkv": 3 * hidden], from: hidden, bias: true),
          out: try attention.linear(["proj": hidden], from: hidden, bias: true),
          up: try mlp.linear(["linear_fc1": config.intermediate], from: hidden, bias: true),
          down: try mlp.linear(["linear_fc2": hidden], from: config.intermediate, bias: true)))
    }
    self.layers = layers
    self.merger = try merger(weights.at("merger"), normsFirst: true)
    var deepMergers: [Merger] = []
    for index in config.deepLayers.indices {
      deepMergers.append(try merger(weights.at("deepstack_merger_list")[index], normsFirst: false))
    }
    self.deepMergers = deepMergers
    pixels = try PixelScale(source.imageProcessor)
    (self.config, compute) = (config, weights.compute)
  }

  func begin(_ input: MediaInput) throws(ModelError) -> any MediaEncoding {
    let side = config.patch * config.merge
    guard case .image(let image) = input.content, image.width % side == 0, image.height % side == 0,
      input.tokenCount == image.width / side * (image.height / side)
    else { throw .unusableMedia("it is no image of whole blocks of \(side) x \(side) pixels") }
    return try Qwen3VLVisionRun(self, image)
  }

  /// Encodes a black image of one token.
  func readWeights() throws(ModelError) {
    let side = config.patch * config.merge
    let black = PixelImage(width: side, height: side, pixels: [UInt8](repeating: 0, count: side * side * 3))
    let run = try begin(MediaInput(content: .image(black), tokenCount: 1, columns: 1))
    while run.advance() == nil {}
  }
}

/// One image between the layers.
private final class Qwen3VLVisionRun: MediaEncoding {
  private let tower: Qwen3VLVision
  /// Patches.
  private let columns, rows: Int
  private var image: PixelImage?
  private var nextLayer = 0
  private let attention: PatchAttention
  private let rope: RoPE
  /// Of the layers that have a merger of their own, `[tokens, output]` each.
  private var deep: [[Float]] = []
  private let residual = ScratchBuffer()
  private let normed = ScratchBuffer()
  private let projected = ScratchBuffer()
  private let joined = ScratchBuffer()
  private let merged = ScratchBuffer()

  /// Patches that go through the feed-forward layers together: they are the widest.
  private static let chunk = 1024

  init(_ tower: Qwen3VLVision, _ image: PixelImage) throws(ModelError) {
    let config = tower.config
    let (columns, rows) = (image.width / config.patch, image.height / config.patch)
    (self.tower, self.image, self.columns, self.rows) = (tower, image, columns, rows)
    attention = try PatchAttention(config.attention, patches: columns * rows)
    rope = config.rope
    rope.prepare(
      places: (0..<columns * rows).map {
        SIMD3(0, Int32(clamping: $0 / columns), Int32(clamping: $0 % columns))
      })
  }

  private var x: Rows { residual.rows(columns * rows, tower.config.hidden) }

  func advance() -> [Float]? {
    if let image {
      embed(image)
      self.image = nil
    } else if nextLayer < tower.layers.count {
      run(tower.layers[nextLayer])
      if let index = tower.config.deepLayers.firstIndex(of: nextLayer) {
        deep.append(merge(tower.deepMergers[index]))
      }
      nextLayer += 1
    } else {
      return soft(merge(tower.merger))
    }
    return nil
  }

  /// The embedding of each token, and behind it what is added after layers.
  private func soft(_ embeddings: [Float]) -> [Float] {
    guard !deep.isEmpty else { return embeddings }
    let width = tower.config.output
    return stride(from: 0, to: embeddings.count, by: width).flatMap { start in
      ([embeddings] + deep).flatMap { $0[start..<start + width] }
    }
  }

  private func embed(_ image: PixelImage) {
    let (config, compute, x) = (tower.config, tower.compute, x)
    let patches = projected.rows(x.count, config.patch * config.patch * 3)
    for index in 0..<x.count {
      let (row, column) = (index / columns, index % columns)
      patches.set(
        index,
        to: tower.pixels.patch(
          image, x: column * config.patch, y: row * config.patch, side: config.patch)[...])
    }
    tower.embedding(patches, into: x)
    // Four places of the table around each patch, weighted by how near they are.
    let (down, across) = (config.steps(rows), config.steps(columns))
    let places = normed.rows(x.count, config.hidden)
    for corner in 0..<4 {
      let pairs = (0..<x.count).map { index -> (place: Int32, weight: Float) in
        let (y, x) = (down[index / columns], across[index % columns])
        let row = corner < 2 ? y.low : y.high
        let column = corner % 2 == 0 ? x.low : x.high
        return (
          Int32(clamping: row * config.side + column),
          (corner < 2 ? 1 - y.share : y.share) * (corner % 2 == 0 ? 1 - x.share : x.share)
        )
      }
      compute.gather(pairs.map(\.place), of: tower.positions, into: places)
      compute.scaleRows(places, by: pairs.map(\.weight))
      compute.add(places, to: x)
    }
  }

  private func run(_ layer: Qwen3VLVision.Layer) {
    let (compute, config, x) = (tower.compute, tower.config, x)
    let (hidden, size) = (config.hidden, config.attention.headDim)
    let h = normed.rows(x.count, hidden)
    layer.attentionNorm(x, into: h)
    let all = projected.rows(x.count, 3 * hidden)
    layer.qkv(h, into: all)
    compute.rotate(all.columns(from: 0, count: 2 * hidden), headDim: size, by: rope)
    layer.out(attention(all, compute), into: h)
    compute.add(h, to: x)

    layer.mlpNorm(x, into: h)
    for start in stride(from: 0, to: x.count, by: Self.chunk) {
      let part = h.rows(from: start, count: min(Self.chunk, x.count - start))
      let inner = projected.rows(part.count, config.intermediate)
      layer.up(part, into: inner)
      layer.down(compute.activate(.geluAlone, inner), into: part)
    }
    compute.add(h, to: x)
  }

  private func merge(_ merger: Qwen3VLVision.Merger) -> [Float] {
    let (compute, config, x) = (tower.compute, tower.config, x)
    let parts = config.merge * config.merge
    let together = joined.rows(x.count / parts, config.hidden * parts)
    if merger.normsFirst {
      let h = normed.rows(x.count, config.hidden)
      merger.norm(x, into: h)
      h.join(columns: columns, side: config.merge, into: together)
    } else {
      x.join(columns: columns, side: config.merge, into: together)
      merger.norm(together, into: together)
    }
    let inner = projected.rows(together.count, together.columns)
    merger.up(together, into: inner)
    compute.erfGELU(inner)
    let out = merged.rows(together.count, config.output)
    merger.down(inner, into: out)
    return (0..<out.count).flatMap { out.values(ofRow: $0) }
  }
}

/// What config.json says about the tower, checked.
struct Qwen3VLVisionConfig {
  let hidden, intermediate, layers, output: Int
  /// Pixels of a patch's side, patches of a token's side, and pictures of a patch.
  let patch, merge, frames: Int
  /// Places of the position table's side.
  let side: Int
  /// Those whose results are added after the decoder's first layers.
  let deepLayers: [Int]
  let attention: AttentionShape
  private let theta: Double
  let epsilon: Float = 1e-6

  /// - Parameter output: elements of a soft token.
  init(_ config: ConfigFields, output: Int) throws(ModelError) {
    hidden = try config.int("hidden_size", in: 4...1 << 14, default: 1152)
    intermediate = try config.int("intermediate_size", in: 1...1 << 16, default: 4304)
    layers = try config.int("depth", in: 1...256, default: 27)
    patch = try config.int("patch_size", in: 1...64, default: 16)
    merge = try config.int("spatial_merge_size", in: 1...8, default: 2)
    frames = try config.int("temporal_patch_size", in: 1...16, default: 2)
    self.output = try config.int("out_hidden_size", in: 1...1 << 20, default: output)
    let places = try config.int("num_position_embeddings", in: 1...1 << 16, default: 2304)
    guard let side = (1...256).first(where: { $0 * $0 == places }), self.output == output else {
      throw .invalidValue(
        key: config.name(of: "num_position_embeddings, out_hidden_size"), found: "\(places), \(self.output)",
        expected: "a square, and the decoder's hidden_size = \(output)")
    }
    self.side = side
    let last = layers - 1
    deepLayers =
      config.has("deepstack_visual_indexes") ? try config.ints("deepstack_visual_indexes", in: 0...last) : []
    guard zip(deepLayers, deepLayers.dropFirst()).allSatisfy({ $0 < $1 }) else {
      throw .invalidValue(
        key: config.name(of: "deepstack_visual_indexes"), found: "\(deepLayers)", expected: "rising numbers")
    }
    let heads = try config.int("num_heads", in: 1...256, default: 16)
    guard hidden % heads == 0, hidden / heads % 4 == 0 else {
      throw .invalidValue(
        key: config.name(of: "num_heads"), found: "\(heads)",
        expected: "a divisor of hidden_size = \(hidden) that leaves heads of a multiple of 4")
    }
    if let activation = try config.string("hidden_act"), activation != "gelu_pytorch_tanh" {
      throw .unsupportedSetting(
        key: config.name(of: "hidden_act"), value: activation, supported: "gelu_pytorch_tanh")
    }
    let rotation = try config.object("rope_parameters")
    theta = try rotation?.double("rope_theta", in: 2...1e15, default: 10_000) ?? 10_000
    let size = hidden / heads
    attention = AttentionShape(
      heads: heads, kvHeads: heads, headDim: size, scale: 1 / Float(size).squareRoot())
  }

  /// The first half of a head's pairs turns by the row, the second by the column.
  var rope: RoPE {
    let quarter = attention.headDim / 4
    let inverse = (0..<quarter).map { pow(theta, -Double(2 * $0) / Double(2 * quarter)) }
    return RoPE(
      variants: [RoPEFrequencies(inverse: inverse + inverse)],
      axes: [Int](repeating: 1, count: quarter) + [Int](repeating: 2, count: quarter))
  }

  /// For each of `count` patches of a side the places of the table around it, and its share of the second. The first patch
  /// is at the table's first place and the last at its last.
  func steps(_ count: Int) -> [(low: Int, high: Int, share: Float)] {
    (0..<count).map { index in
      let place = Double(index * (side - 1)) / Double(max(1, count - 1))
      let low = min(Int(place), side - 1)
      return (low, min(low + 1, side - 1), Float(place - Double(low)))
    }
  }

  /// The sizes that shapes of tensors follow from, by their keys in config.json.
  var named: KeyValuePairs<String, Int> {
    [
      "vision_config.hidden_size": hidden, "vision_config.intermediate_size": intermediate,
      "vision_config.patch_size": patch, "vision_config.spatial_merge_size": merge,
      "vision_config.temporal_patch_size": frames, "vision_config.num_position_embeddings": side * side,
    ]
  }
}
