// SmolVLM's and Idefics3's eyes: an image in square tiles, and then the whole of it as one more tile.
//
// Sources: arXiv:2408.12637, arXiv:2504.05299 and transformers' idefics3 and smolvlm; names follow the checkpoints. Each
// tile goes through the tower as an image of its own. Neighbouring patches are then joined, s · s of them, patches by rows
// and channels innermost, and soft = connector.modality_projection.proj(joined).

import Compute
import Media

/// The tower with its connector. Engine thread only.
final class Idefics3Vision: MediaEncoder {
  /// Where towers are: in MLX's layout, and in transformers'.
  static let places = ["vision_model", "model.vision_model"]

  private let tower: PatchTransformer
  /// Patches of the side of a square that becomes a soft token.
  private let joined: Int
  private let projection: Linear  // [hidden · joined · joined] → [the decoder's hidden]
  private let compute: ComputeContext

  static func towers(_ source: TowerSource, _ tower: LayerLoader) throws(ModelError) -> MediaTowers {
    let sizes = try PatchSizes(
      source.vision(),
      .init(hidden: 1152, intermediate: 3072, layers: 12, heads: 16, patch: 32, image: 224))
    let joined = try source.config.int("scale_factor", in: 1...16, default: 2)
    guard sizes.side % joined == 0 else {
      throw .invalidValue(
        key: "scale_factor", found: "\(joined)", expected: "a divisor of the \(sizes.side) patches of a side")
    }
    var towers = MediaTowers()
    towers.images = try Idefics3Vision(sizes, joined: joined, source, tower)
    let side = sizes.side / joined
    towers.rules.images = try Idefics3Images(
      source.imageProcessor, soft: try source.config.token("image"), tile: sizes.image, tokens: side * side)
    return towers
  }

  private init(
    _ sizes: PatchSizes, joined: Int, _ source: TowerSource, _ weights: LayerLoader
  ) throws(ModelError) {
    tower = try PatchTransformer(sizes, pixels: PixelScale(source.imageProcessor), weights)
    let connector = source.weights.at(
      (weights.prefix.hasPrefix("model.") ? "model." : "") + "connector.modality_projection")
    projection = try connector.linear(["proj": source.hidden()], from: sizes.hidden * joined * joined)
    (self.joined, compute) = (joined, weights.compute)
  }

  func begin(_ input: MediaInput) throws(ModelError) -> any MediaEncoding {
    let (near, soft) = (ScratchBuffer(), ScratchBuffer())
    return try tower.begin(input) { [tower, joined, projection] x in
      let together = near.rows(x.count / (joined * joined), x.columns * joined * joined)
      x.join(columns: tower.sizes.side, side: joined, into: together)
      let out = soft.rows(together.count, projection.rows)
      projection(together, into: out)
      return out
    }
  }

  func readWeights() throws(ModelError) { try tower.readWeights(self) }
}

/// Into which tiles an image is cut, and what stands around them.
struct Idefics3Images: ImageProcessor {
  let placeholder: Int32
  /// Pixels of a tile's side.
  let tile: Int
  /// Pixels of the longer side before it is cut.
  let longest: Int
  /// Soft tokens of a tile.
  let tokens: Int
  /// Whether the checkpoint cuts images where a request says nothing.
  let splits: Bool
  let filter: ResamplingFilter

  /// Most tokens of an image where a request says nothing, and where it wants all that the model can see.
  private static let (usualTokens, mostTokens) = (1280, 4096)
  /// Of the side to which an image is brought first.
  private static let longestLimit = 4096

  init(_ config: ConfigFields, soft: Int32, tile: Int, tokens: Int) throws(ModelError) {
    func edge(_ key: String, _ usual: Int) throws(ModelError) -> Int {
      try config.object(key)?.int("longest_edge", in: 1...Self.longestLimit, default: usual) ?? usual
    }
    let tiles = try edge("max_image_size", tile)
    guard tiles == tile else {
      throw .unsupportedSetting(
        key: config.name(of: "max_image_size.longest_edge"), value: "\(tiles)",
        supported: "vision_config.image_size = \(tile)")
    }
    longest = try edge("size", min(4 * tile, Self.longestLimit))
    splits = try config.bool("do_image_splitting", default: true)
    filter = try ResamplingFilter(config, usual: .lanczos)
    (placeholder, self.tile, self.tokens) = (soft, tile, tokens)
  }

  var budgets: ImageBudgets {
    let rows = (longest + tile - 1) / tile
    let whole = rows > 1 ? (rows * rows + 1) * tokens : tokens
    func most(_ count: Int) -> Int { max(tokens, min(count, whole)) }
    return ImageBudgets(
      low: tokens, usual: splits ? most(Self.usualTokens) : tokens, high: most(Self.mostTokens),
      most: most(Self.mostTokens))
  }

  /// The sizes to which an image is brought, one after the other: the longer side first has `longest` pixels, and then
  /// both sides whole tiles. Python's arithmetic in float64, whose roundings decide about a pixel.
  func sizes(width: Int, height: Int, longest: Int) -> (first: ImageSize, second: ImageSize) {
    let ratio = Double(width) / Double(height)
    func even(_ side: Double) -> Int { max(1, Int(side) + Int(side) % 2) }
    func whole(_ side: Int) -> Int { (side + tile - 1) / tile * tile }
    let first =
      width >= height
      ? ImageSize(width: longest, height: even(Double(longest) / ratio))
      : ImageSize(width: even(Double(longest) * ratio), height: longest)
    let shape = Double(first.width) / Double(first.height)
    guard first.width < first.height else {
      let side = whole(first.width)
      return (first, ImageSize(width: side, height: whole(Int(Double(side) / shape))))
    }
    let side = whole(first.height)
    return (first, ImageSize(width: whole(Int(Double(side) * shape)), height: side))
  }

  /// Tokens of an image that is brought to this size.
  private func count(_ size: ImageSize) -> Int {
    let tiles = size.width / tile * (size.height / tile)
    return (tiles > 1 ? tiles + 1 : 1) * tokens
  }

  func passage(
    of image: PixelImage, tokens budget: Int, claim: (_ bytes: Int) -> Bool
  ) throws(MediaError) -> MediaPassage {
    // Where the checkpoint's own size has too many tiles, one with a row less is tried.
    for edge in [longest] + stride(from: (longest - 1) / tile * tile, to: tile, by: -tile) {
      let (first, second) = sizes(width: image.width, height: image.height, longest: edge)
      guard count(second) <= budget, budget > tokens else { continue }
      let scaled = try image.resized(width: first.width, height: first.height, by: filter, claim: claim)
      return try cut(
        try scaled.resized(width: second.width, height: second.height, by: filter, claim: claim), claim)
    }
    let (first, _) = sizes(width: image.width, height: image.height, longest: longest)
    let scaled = try image.resized(width: first.width, height: first.height, by: filter, claim: claim)
    return passage([], try scaled.resized(width: tile, height: tile, by: filter, claim: claim))
  }

  /// Tiles row by row, and the whole.
  private func cut(_ image: PixelImage, _ claim: (_ bytes: Int) -> Bool) throws(MediaError) -> MediaPassage {
    let (rows, columns) = (image.height / tile, image.width / tile)
    guard rows * columns > 1 else { return passage([], image) }
    guard claim(image.pixels.count) else { throw .noMemory(bytes: image.pixels.count) }
    let tiles = (0..<rows).map { row in
      (0..<columns).map { image.cut(x: $0 * tile, y: row * tile, width: tile, height: tile) }
    }
    return passage(tiles, try image.resized(width: tile, height: tile, by: filter, claim: claim))
  }

  private func passage(_ tiles: [[PixelImage]], _ whole: PixelImage) -> MediaPassage {
    let mark = "<fake_token_around_image>"
    var parts: [MediaPassage.Part] = []
    var before = ""
    func add(_ place: String, _ tile: PixelImage) {
      parts.append(.text(before + mark + place))
      parts.append(.soft(MediaInput(content: .image(tile), tokenCount: tokens)))
      before = ""
    }
    for (row, line) in tiles.enumerated() {
      for (column, tile) in line.enumerated() { add("<row_\(row + 1)_col_\(column + 1)>", tile) }
      before = "\n"
    }
    if !tiles.isEmpty { before += "\n" }
    add("<global-img>", whole)
    parts.append(.text(mark))
    return MediaPassage(kind: .image, soft: placeholder, parts: parts)
  }
}
