// From the bytes of an image file to RGB pixels, within bounds.

/// A format that has a decoder; the raw value is its name in messages.
package enum ImageFormat: String, Sendable {
  case png = "PNG"
  case jpeg = "JPEG"
}

/// What a decoder takes at most.
package struct ImageLimits {
  /// Most pixels of one image: cameras of 50 megapixels pass (8192 x 6144).
  package var pixels: Int
  /// Asked once, before they are allocated, for the bytes that decoding takes beside the file; false refuses the
  /// image.
  package var claim: (_ bytes: Int) -> Bool

  package init(pixels: Int = 48 << 20, claim: @escaping (_ bytes: Int) -> Bool = { _ in true }) {
    (self.pixels, self.claim) = (pixels, claim)
  }

  /// - Returns: the number of pixels.
  func check(width: Int, height: Int) throws(MediaError) -> Int {
    let (count, overflow) = width.multipliedReportingOverflow(by: height)
    guard !overflow, count <= pixels else {
      throw .tooManyPixels(width: width, height: height, limit: pixels)
    }
    return count
  }

  /// Memory for the picture itself, twice because it may have to be turned, and for what it is made from.
  func claim(pixels: Int, beside bytes: Int) throws(MediaError) {
    let sum = 2 * 3 * pixels + bytes
    guard claim(sum) else { throw .noMemory(bytes: sum) }
  }
}

/// Images in any format that is read here.
package enum ImageDecoder {

  /// The format that the first bytes show.
  ///
  /// - Throws: `unknownFormat`, with the name of one that is recognised and has no decoder.
  package static func format(of bytes: [UInt8]) throws(MediaError) -> ImageFormat {
    if bytes.starts(with: PNG.signature) { return .png }
    if bytes.starts(with: [0xFF, 0xD8, 0xFF]) { return .jpeg }
    throw .unknownFormat(foreignName(bytes) ?? otherName(bytes))
  }

  private static func starts(_ bytes: [UInt8], _ text: String, at offset: Int = 0) -> Bool {
    bytes.dropFirst(offset).starts(with: text.utf8)
  }

  /// The name of a format of pictures that has no decoder here, where other programs have one; nil for any other bytes.
  package static func foreignName(_ bytes: [UInt8]) -> String? {
    if starts(bytes, "GIF8") { return "GIF" }
    if starts(bytes, "RIFF"), starts(bytes, "WEBP", at: 8) { return "WebP" }
    if starts(bytes, "BM") { return "BMP" }
    if starts(bytes, "II*\0") || starts(bytes, "MM\0*") { return "TIFF" }
    if starts(bytes, "ftyp", at: 4) { return "HEIF or AVIF" }
    return nil
  }

  private static func otherName(_ bytes: [UInt8]) -> String? {
    if bytes.isEmpty { return "an empty file" }
    if starts(bytes, "%PDF") { return "PDF" }
    if starts(bytes, "<svg") || starts(bytes, "<?xml") { return "SVG" }
    return nil
  }

  /// The image, upright, without its alpha channel; grey is spread over the colours.
  ///
  /// - Throws: a typed error for anything that is no such image, in time and memory bounded by the file's size and
  ///   `limits`.
  package static func decode(
    _ bytes: [UInt8], limits: ImageLimits = ImageLimits()
  ) throws(MediaError) -> PixelImage {
    switch try format(of: bytes) {
    case .png: try PNG.decode(bytes, limits)
    case .jpeg: try JPEG.decode(bytes, limits)
    }
  }
}
