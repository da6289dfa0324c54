// From the bytes of an image file to RGB pixels, within bounds.

/// A format that has a decoder; the raw value is its name in messages.
package enum ImageFormat: String, Sendable {
  case png = "PNG"
  case jpeg = "JPEG"
}

/// Images in any format that is read here.
package enum ImageDecoder {
  /// Most pixels of one image: cameras of 50 megapixels pass (8192 x 6144).
  package static let pixelLimit = 48 << 20

  /// The format that the first bytes show.
  ///
  /// - Throws: `unknownFormat`, with the name of one that is recognised and has no decoder.
  package static func format(of bytes: [UInt8]) throws(MediaError) -> ImageFormat {
    if bytes.starts(with: PNG.signature) { return .png }
    if bytes.starts(with: [0xFF, 0xD8, 0xFF]) { return .jpeg }
    throw .unknownFormat(knownName(bytes))
  }

  private static func knownName(_ bytes: [UInt8]) -> String? {
    func starts(_ text: String, at offset: Int = 0) -> Bool {
      bytes.dropFirst(offset).starts(with: text.utf8)
    }
    if bytes.isEmpty { return "an empty file" }
    if starts("GIF8") { return "GIF" }
    if starts("RIFF"), starts("WEBP", at: 8) { return "WebP" }
    if starts("BM") { return "BMP" }
    if starts("II*\0") || starts("MM\0*") { return "TIFF" }
    if starts("ftyp", at: 4) { return "HEIF or AVIF" }
    if starts("%PDF") { return "PDF" }
    if starts("<svg") || starts("<?xml") { return "SVG" }
    return nil
  }

  /// The image, upright, without its alpha channel; grey is spread over the colours.
  ///
  /// - Throws: a typed error for anything that is no such image, in time and memory bounded by the file's size and
  ///   `limit`.
  package static func decode(_ bytes: [UInt8], limit: Int = pixelLimit) throws(MediaError) -> PixelImage {
    switch try format(of: bytes) {
    case .png: try PNG.decode(bytes, limit: limit)
    case .jpeg: try JPEG.decode(bytes, limit: limit)
    }
  }

  /// - Returns: the number of pixels.
  static func check(width: Int, height: Int, limit: Int) throws(MediaError) -> Int {
    let (pixels, overflow) = width.multipliedReportingOverflow(by: height)
    guard !overflow, pixels <= limit else {
      throw .tooManyPixels(width: width, height: height, limit: limit)
    }
    return pixels
  }
}
