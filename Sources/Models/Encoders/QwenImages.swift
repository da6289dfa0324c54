// To which size Qwen's towers get an image: its own shape in whole blocks, within bounds of its area.

import Media

struct QwenImages: ImageProcessor {
  let placeholder: Int32
  /// Pixels of the side of a block, which becomes a soft token.
  let side: Int
  /// Pixels of the image, at least and at most.
  let area: ClosedRange<Int>
  let filter: ResamplingFilter

  /// Most of one side for each pixel of the other.
  private static let narrowest = 200
  /// Most tokens of an image where a request says nothing, and where it wants all that the model can see.
  private static let (usualTokens, mostTokens) = (1280, 4096)
  /// What is still of use.
  private static let leastTokens = 256

  init(_ config: ConfigFields, placeholder: Int32, side: Int) throws(ModelError) {
    // Their names speak of edges, and they are areas.
    let size = try config.object("size") ?? config
    func pixels(_ old: String, _ new: String, _ usual: Int) throws(ModelError) -> Int {
      let range = 1...1 << 40
      return config.has(old) ? try config.int(old, in: range) : try size.int(new, in: range, default: usual)
    }
    let least = try pixels("min_pixels", "shortest_edge", 65_536)
    let most = try pixels("max_pixels", "longest_edge", 16_777_216)
    guard least <= most, most >= side * side else {
      throw .invalidValue(
        key: config.name(of: "size"), found: "\(least) to \(most) pixels",
        expected: "a range with room for a block of \(side) x \(side)")
    }
    filter = try ResamplingFilter(config, usual: .bicubic)
    (self.placeholder, self.side, area) = (placeholder, side, least...most)
  }

  var budgets: ImageBudgets {
    let (least, whole) = (
      max(1, area.lowerBound / (side * side)), area.upperBound / (side * side)
    )
    let usual = min(Self.usualTokens, whole)
    return ImageBudgets(
      low: min(usual, max(least, min(Self.leastTokens, usual / 4))), usual: usual,
      high: min(Self.mostTokens, whole), most: min(Self.mostTokens, whole))
  }

  /// The size of an image, in float64 and with halves to even as Python has them.
  ///
  /// - Parameter tokens: most of them, but for those that the least area makes.
  /// - Throws: `tooNarrow`.
  func size(width: Int, height: Int, tokens: Int) throws(MediaError) -> ImageSize {
    let (long, short) = (max(width, height), min(width, height))
    guard long <= Self.narrowest * short else {
      throw .tooNarrow(width: width, height: height, limit: Self.narrowest)
    }
    let block = Double(side)
    func blocks(_ length: Double, _ rule: FloatingPointRoundingRule) -> Int {
      Int((length / block).rounded(rule)) * side
    }
    let (w, h) = (Double(width), Double(height))
    let rounded = ImageSize(width: blocks(w, .toNearestOrEven), height: blocks(h, .toNearestOrEven))
    let most = max(min(area.upperBound, tokens * side * side), area.lowerBound)
    if rounded.width * rounded.height > most {
      let shrink = (w * h / Double(most)).squareRoot()
      return ImageSize(
        width: max(side, blocks(w / shrink, .down)), height: max(side, blocks(h / shrink, .down)))
    }
    if rounded.width * rounded.height < area.lowerBound {
      let grow = (Double(area.lowerBound) / (w * h)).squareRoot()
      return ImageSize(width: blocks(w * grow, .up), height: blocks(h * grow, .up))
    }
    return rounded
  }

  func passage(
    of image: PixelImage, tokens: Int, claim: (_ bytes: Int) -> Bool
  ) throws(MediaError) -> MediaPassage {
    let size = try size(width: image.width, height: image.height, tokens: tokens)
    let resized = try image.resized(width: size.width, height: size.height, by: filter, claim: claim)
    let columns = size.width / side
    let input = MediaInput(
      content: .image(resized), tokenCount: columns * (size.height / side), columns: columns)
    return MediaPassage(kind: .image, soft: placeholder, parts: [.soft(input)])
  }
}

/// Pixels.
struct ImageSize: Equatable {
  let width, height: Int
}
