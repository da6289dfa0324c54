// A vision transformer over the patches of a square image (SigLIP), with which several families see.
//
// Source: arXiv:2303.15343 and transformers' siglip; names follow the Hugging Face checkpoints. Every patch sees every
// other:
//
//   h = patch_embedding(pixels) + position_embedding[row · side + column]
//   h += out_proj(attend(q_proj, k_proj, v_proj)) of layer_norm1(h)
//   h += fc2(gelu(fc1)) of layer_norm2(h)
//   the result is post_layernorm(h)

import Compute
import Media

/// The tower, without what a family does to its results. Engine thread only.
final class PatchTransformer {
  fileprivate struct Layer {
    let attentionNorm, mlpNorm: LayerNorm
    let qkv, out: Linear
    let up, down: Linear
  }

  /// By its presence a tower is found.
  static let firstTensor = "embeddings.patch_embedding.weight"

  let sizes: PatchSizes
  fileprivate let compute: ComputeContext
  fileprivate let pixels: PixelScale
  fileprivate let embedding: Linear  // [patch · patch · 3] → [hidden]
  fileprivate let positions: WeightStack  // [side · side, hidden]
  fileprivate let layers: [Layer]
  fileprivate let norm: LayerNorm

  /// - Parameter tower: the tensors of `embeddings`, `encoder` and `post_layernorm`.
  init(_ sizes: PatchSizes, pixels: PixelScale, _ tower: LayerLoader) throws(ModelError) {
    let tower = tower.given(sizes.named)
    let hidden = sizes.hidden
    func norm(_ name: String, _ weights: LayerLoader) throws(ModelError) -> LayerNorm {
      try LayerNorm(name, hidden, epsilon: sizes.epsilon, weights)
    }
    let embeddings = tower.at("embeddings")
    embedding = try embeddings.patchEmbedding("patch_embedding", rows: hidden, patch: sizes.patch)
    positions = try embeddings.embedding("position_embedding", rows: sizes.patches, columns: hidden)
    var layers: [Layer] = []
    for index in 0..<sizes.layers {
      let layer = tower.at("encoder.layers")[index]
      let (attention, mlp) = (layer.at("self_attn"), layer.at("mlp"))
      layers.append(
        Layer(
          attentionNorm: try norm("layer_norm1", layer), mlpNorm: try norm("layer_norm2", layer),
          qkv: try attention.linear(
            ["q_proj": hidden, "k_proj": hidden, "v_proj": hidden], from: hidden, bias: true),
          out: try attention.linear(["out_proj": hidden], from: hidden, bias: true),
          up: try mlp.linear(["fc1": sizes.intermediate], from: hidden, bias: true),
          down: try mlp.linear(["fc2": hidden], from: sizes.intermediate, bias: true)))
    }
    self.layers = layers
    self.norm = try norm("post_layernorm", tower)
    (self.sizes, self.pixels, compute) = (sizes, pixels, tower.compute)
  }

  /// Takes an image of the tower's size on.
  ///
  /// - Parameter finish: makes the soft tokens of the last layer's rows, `[side · side, hidden]`, row by row of the image.
  func begin(
    _ input: MediaInput, finish: @escaping (Rows) -> Rows
  ) throws(ModelError) -> any MediaEncoding {
    guard case .image(let image) = input.content, image.width == sizes.image, image.height == sizes.image
    else { throw .unusableMedia("it is no image of \(sizes.image) x \(sizes.image) pixels") }
    return try PatchTransformerRun(self, image, finish)
  }

  /// Encodes a black image: every weight is read.
  func readWeights(_ encoder: some MediaEncoder) throws(ModelError) {
    let side = sizes.image
    let black = PixelImage(width: side, height: side, pixels: [UInt8](repeating: 0, count: side * side * 3))
    let run = try encoder.begin(MediaInput(content: .image(black), tokenCount: 1))
    while run.advance() == nil {}
  }
}

/// One image between the layers.
private final class PatchTransformerRun: MediaEncoding {
  private let tower: PatchTransformer
  private let finish: (Rows) -> Rows
  private var image: PixelImage?
  private var nextLayer = 0
  private let attention: PatchAttention
  private let residual = ScratchBuffer()
  private let normed = ScratchBuffer()
  private let projected = ScratchBuffer()

  /// Patches that go through the feed-forward layers together: they are the widest.
  private static let chunk = 1024

  init(
    _ tower: PatchTransformer, _ image: PixelImage, _ finish: @escaping (Rows) -> Rows
  ) throws(ModelError) {
    (self.tower, self.image, self.finish) = (tower, image, finish)
    attention = try PatchAttention(tower.sizes.attention, patches: tower.sizes.patches)
  }

  private var x: Rows { residual.rows(tower.sizes.patches, tower.sizes.hidden) }

  func advance() -> [Float]? {
    if let image {
      embed(image)
      self.image = nil
    } else if nextLayer < tower.layers.count {
      run(tower.layers[nextLayer])
      nextLayer += 1
    } else {
      tower.norm(x, into: x)
      let soft = finish(x)
      return (0..<soft.count).flatMap { soft.values(ofRow: $0) }
    }
    return nil
  }

  private func embed(_ image: PixelImage) {
    let (sizes, x) = (tower.sizes, x)
    let patches = projected.rows(x.count, sizes.patch * sizes.patch * 3)
    for index in 0..<x.count {
      let (row, column) = (index / sizes.side, index % sizes.side)
      patches.set(
        index,
        to: tower.pixels.patch(image, x: column * sizes.patch, y: row * sizes.patch, side: sizes.patch)[...])
    }
    tower.embedding(patches, into: x)
    let places = normed.rows(x.count, sizes.hidden)
    tower.compute.gather((0..<x.count).map { Int32(clamping: $0) }, of: tower.positions, into: places)
    tower.compute.add(places, to: x)
  }

  private func run(_ layer: PatchTransformer.Layer) {
    let (compute, hidden, x) = (tower.compute, tower.sizes.hidden, x)
    let h = normed.rows(x.count, hidden)
    layer.attentionNorm(x, into: h)
    let all = projected.rows(x.count, 3 * hidden)
    layer.qkv(h, into: all)
    layer.out(attention(all, compute), into: h)
    compute.add(h, to: x)

    layer.mlpNorm(x, into: h)
    for start in stride(from: 0, to: x.count, by: Self.chunk) {
      let part = h.rows(from: start, count: min(Self.chunk, x.count - start))
      let inner = projected.rows(part.count, tower.sizes.intermediate)
      layer.up(part, into: inner)
      layer.down(compute.activate(.geluAlone, inner), into: part)
    }
    compute.add(h, to: x)
  }
}

/// What config.json says about such a tower, checked.
struct PatchSizes {
  let hidden, intermediate, layers: Int
  /// Pixels of a side: of a patch, and of the image.
  let patch, image: Int
  let epsilon: Float
  let attention: AttentionShape

  /// Patches of the image's side; pixels that fill no patch are left out, as a convolution does.
  var side: Int { image / patch }
  var patches: Int { side * side }

  /// What a family's reference implementation takes for sizes that are absent.
  struct Defaults {
    let hidden, intermediate, layers, heads, patch, image: Int
  }

  init(_ config: ConfigFields, _ usual: Defaults) throws(ModelError) {
    hidden = try config.int("hidden_size", in: 1...1 << 14, default: usual.hidden)
    intermediate = try config.int("intermediate_size", in: 1...1 << 16, default: usual.intermediate)
    layers = try config.int("num_hidden_layers", in: 1...256, default: usual.layers)
    patch = try config.int("patch_size", in: 1...64, default: usual.patch)
    image = try config.int("image_size", in: patch...min(4096, 128 * patch), default: usual.image)
    epsilon = Float(try config.double("layer_norm_eps", in: 0...1, default: 1e-6))
    let heads = try config.int("num_attention_heads", in: 1...256, default: usual.heads)
    guard hidden % heads == 0 else {
      throw .invalidValue(
        key: config.name(of: "num_attention_heads"), found: "\(heads)",
        expected: "a divisor of hidden_size = \(hidden)")
    }
    if let activation = try config.string("hidden_act"), activation != "gelu_pytorch_tanh" {
      throw .unsupportedSetting(
        key: config.name(of: "hidden_act"), value: activation, supported: "gelu_pytorch_tanh")
    }
    let channels = try config.int("num_channels", in: 1...1 << 10, default: 3)
    guard channels == 3 else {
      throw .unsupportedSetting(key: config.name(of: "num_channels"), value: "\(channels)", supported: "3")
    }
    let size = hidden / heads
    attention = AttentionShape(
      heads: heads, kvHeads: heads, headDim: size, scale: 1 / Float(size).squareRoot())
  }

  /// The sizes that shapes of tensors follow from, by their keys in config.json.
  var named: KeyValuePairs<String, Int> {
    [
      "vision_config.hidden_size": hidden, "vision_config.intermediate_size": intermediate,
      "vision_config.image_size": image, "vision_config.patch_size": patch,
    ]
  }
}
