// The bytes of an image file as what the model's encoder reads.

extension MediaRules.Images {
  /// - Parameters:
  ///   - tokens: the budget of soft tokens; nil for the usual one.
  ///   - limits: what the decoder may take.
  /// - Throws: what is wrong with the bytes.
  package func input(
    _ bytes: [UInt8], tokens: Int? = nil, limits: ImageLimits = ImageLimits()
  ) throws(MediaError) -> MediaInput {
    let image = try ImageDecoder.decode(bytes, limits: limits)
    let size = try grid.size(width: image.width, height: image.height, tokens: tokens ?? grid.tokens)
    let work = image.bytesToResize(width: size.width, height: size.height)
    guard limits.claim(work) else { throw .noMemory(bytes: work) }
    return MediaInput(
      content: .image(image.resized(width: size.width, height: size.height)),
      tokenCount: grid.tokenCount(width: size.width, height: size.height))
  }
}
