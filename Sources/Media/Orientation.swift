// How the camera was held: the orientation that Exif metadata gives, and pictures turned upright.

/// Values of the TIFF tag 0x0112.
enum Orientation: Int {
  case upright = 1
  case mirrored, upsideDown, flipped, transposed, quarterRight, transverse, quarterLeft

  /// Reads the tag in the first directory of a TIFF structure; upright for anything unexpected.
  static func find(in bytes: [UInt8], _ range: Range<Int>) -> Orientation {
    let tiff = Array(bytes[range.clamped(to: bytes.indices)].prefix(1 << 16))
    guard tiff.count >= 8 else { return .upright }
    let isLittle = tiff[0] == UInt8(ascii: "I")
    guard tiff[1] == tiff[0], isLittle || tiff[0] == UInt8(ascii: "M") else { return .upright }
    var reader = ByteReader(tiff)
    guard reader.move(to: 2), reader.number(2, isLittle: isLittle) == 42,
      let start = reader.number(4, isLittle: isLittle), reader.move(to: start),
      let count = reader.number(2, isLittle: isLittle)
    else { return .upright }
    for _ in 0..<count {
      guard let tag = reader.number(2, isLittle: isLittle), let type = reader.number(2, isLittle: isLittle),
        let values = reader.number(4, isLittle: isLittle), let value = reader.number(2, isLittle: isLittle),
        reader.skip(2) != nil
      else { return .upright }
      if tag == 0x0112 {
        return type == 3 && values == 1 ? Orientation(rawValue: value) ?? .upright : .upright
      }
    }
    return .upright
  }
}

extension PixelImage {
  /// The picture as it should be seen.
  func upright(_ orientation: Orientation) -> PixelImage {
    if orientation == .upright { return self }
    let swaps = orientation.rawValue >= 5
    let (newWidth, newHeight) = swaps ? (height, width) : (width, height)
    var out = [UInt8](repeating: 0, count: pixels.count)
    for y in 0..<newHeight {
      for x in 0..<newWidth {
        let (sourceX, sourceY): (Int, Int) =
          switch orientation {
          case .upright: (x, y)
          case .mirrored: (width - 1 - x, y)
          case .upsideDown: (width - 1 - x, height - 1 - y)
          case .flipped: (x, height - 1 - y)
          case .transposed: (y, x)
          case .quarterRight: (y, height - 1 - x)
          case .transverse: (width - 1 - y, height - 1 - x)
          case .quarterLeft: (width - 1 - y, x)
          }
        let (from, to) = ((sourceY * width + sourceX) * 3, (y * newWidth + x) * 3)
        out[to] = pixels[from]
        out[to + 1] = pixels[from + 1]
        out[to + 2] = pixels[from + 2]
      }
    }
    return PixelImage(width: newWidth, height: newHeight, pixels: out)
  }
}
