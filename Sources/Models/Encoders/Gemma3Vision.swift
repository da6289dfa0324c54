// Gemma 3's eyes: the whole image as a square, whatever its shape.
//
// Source: arXiv:2503.19786 and transformers' gemma3; names follow the checkpoints. Blocks of patches are averaged, and
//
//   soft = norm(mean) · mm_input_projection_weight        the norm's gain is 1 + w
//
// Soft tokens are not scaled as embeddings are. Those of one image see each other in both directions, in sliding layers
// back to the window's edge.

import Compute
import Media

/// The tower with its projector. Engine thread only.
final class Gemma3Vision: MediaEncoder {
  /// Where towers are: in MLX's layout, and in others.
  static let places = [
    "vision_tower.vision_model", "vision_tower", "model.vision_tower.vision_model", "model.vision_tower",
  ]

  private let tower: PatchTransformer
  /// Patches of the side of a block that becomes a soft token.
  private let block: Int
  private let gain: [Float]
  private let projection: Linear  // [hidden] → [the decoder's hidden]
  private let compute: ComputeContext

  static func towers(_ source: TowerSource, _ tower: LayerLoader) throws(ModelError) -> MediaTowers {
    let sizes = try PatchSizes(
      source.vision(), .init(hidden: 768, intermediate: 3072, layers: 12, heads: 12, patch: 16, image: 224))
    let tokens = try source.config.int("mm_tokens_per_image", in: 1...1 << 14, default: 256)
    guard let side = (1...sizes.side).first(where: { $0 * $0 == tokens }), sizes.side % side == 0 else {
      throw .invalidValue(
        key: "mm_tokens_per_image", found: "\(tokens)",
        expected: "the square of a divisor of the \(sizes.side) patches of a side")
    }
    var towers = MediaTowers()
    towers.images = try Gemma3Vision(sizes, block: sizes.side / side, source, tower)
    towers.rules.images = try Gemma3Images(
      source.imageProcessor, marks: source.config.marks(opening: "boi", soft: "image", closing: "eoi"),
      size: sizes.image, tokens: tokens)
    towers.areImagesWhole = true
    return towers
  }

  private init(
    _ sizes: PatchSizes, block: Int, _ source: TowerSource, _ weights: LayerLoader
  ) throws(ModelError) {
    tower = try PatchTransformer(sizes, pixels: PixelScale(source.imageProcessor), weights)
    let projector = source.weights.at(
      weights.prefix.hasPrefix("model.") ? "model.multi_modal_projector" : "multi_modal_projector")
    gain = try projector.vector("mm_soft_emb_norm.weight", sizes.hidden).map { 1 + $0 }
    projection = try Self.projection(from: sizes.hidden, to: source.hidden(), projector)
    (self.block, compute) = (block, weights.compute)
  }

  /// The matrix is stored `[in][out]`.
  private static func projection(
    from inputs: Int, to outputs: Int, _ weights: LayerLoader
  ) throws(ModelError) -> Linear {
    let name = "mm_input_projection_weight"
    let stored = try weights.floats(name, shape: [inputs, outputs])
    var turned = [Float](repeating: 0, count: stored.count)
    for input in 0..<inputs {
      for output in 0..<outputs { turned[output * inputs + input] = stored[input * outputs + output] }
    }
    return try weights.linear([
      WeightTensors(dense: TensorView(name: name, shape: [outputs, inputs], floats: turned))
    ])
  }

  func begin(_ input: MediaInput) throws(ModelError) -> any MediaEncoding {
    let (means, soft) = (ScratchBuffer(), ScratchBuffer())
    return try tower.begin(input) { [tower, block, gain, projection, compute] x in
      let mean = means.rows(x.count / (block * block), x.columns)
      compute.pool(x, width: tower.sizes.side, side: block, into: mean)
      compute.rmsNorm(mean, gain: gain, epsilon: tower.sizes.epsilon, into: mean)
      let out = soft.rows(mean.count, projection.rows)
      projection(mean, into: out)
      return out
    }
  }

  func readWeights() throws(ModelError) { try tower.readWeights(self) }
}

/// The image as a square between two marks and blank lines.
struct Gemma3Images: ImageProcessor {
  let marks: MediaMarks
  /// Pixels of the square's side, and its soft tokens.
  let size, tokens: Int
  let filter: ResamplingFilter

  init(_ config: ConfigFields, marks: MediaMarks, size: Int, tokens: Int) throws(ModelError) {
    for key in ["width", "height"] {
      let found = try config.object("size")?.int(key, in: 1...1 << 14, default: size) ?? size
      guard found == size else {
        throw .unsupportedSetting(
          key: config.name(of: "size." + key), value: "\(found)",
          supported: "vision_config.image_size = \(size)")
      }
    }
    if try config.bool("do_pan_and_scan", default: false) {
      throw .unsupportedSetting(
        key: config.name(of: "do_pan_and_scan"), value: "true", supported: "false: crops are not cut here")
    }
    filter = try ResamplingFilter(config, usual: .bilinear)
    (self.marks, self.size, self.tokens) = (marks, size, tokens)
  }

  /// The template writes the opening mark alone.
  var placeholder: Int32 { marks.opening }
  var reserved: [Int32] { [marks.opening, marks.soft, marks.closing] }
  var margin: String { "\n\n" }
  var budgets: ImageBudgets { ImageBudgets(low: tokens, usual: tokens, high: tokens, most: tokens) }

  func passage(
    of image: PixelImage, tokens budget: Int, claim: (_ bytes: Int) -> Bool
  ) throws(MediaError) -> MediaPassage {
    let square = try image.resized(width: size, height: size, by: filter, claim: claim)
    return MediaPassage(MediaInput(content: .image(square), tokenCount: tokens), between: marks)
  }
}
