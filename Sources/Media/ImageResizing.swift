// Bicubic resizing with antialiasing, in the fixed-point arithmetic of Pillow: models were trained on its results.
//
// Each axis by itself, rows first, with 8-bit values between the two. When an image shrinks, the kernel grows with the
// scale, so that every source pixel counts.

extension PixelImage {
  /// The image at another size; itself at its own.
  ///
  /// - Precondition: width and height are positive.
  package func resized(width newWidth: Int, height newHeight: Int) -> PixelImage {
    var image = self
    if newWidth != width { image = image.stretched(to: newWidth) }
    if newHeight != height { image = image.heightened(to: newHeight) }
    return image
  }

  /// Most bytes that `resized` holds beside the image: rows at their new width, the result, and the weights of both
  /// axes. A picture of a pixel's width may take a hundred times its own bytes.
  func bytesToResize(width newWidth: Int, height newHeight: Int) -> Int {
    let most = 1 << 30
    guard max(width, height, newWidth, newHeight) < most else { return .max }
    return newWidth * 3 * (height + newHeight) + Taps.bytes(from: width, to: newWidth)
      + Taps.bytes(from: height, to: newHeight)
  }

  private func stretched(to newWidth: Int) -> PixelImage {
    let taps = Taps(from: width, to: newWidth)
    var out = [UInt8](repeating: 0, count: newWidth * height * 3)
    for y in 0..<height {
      let row = y * width * 3
      var target = y * newWidth * 3
      for x in 0..<newWidth {
        let (first, range) = (taps.starts[x], taps.ranges[x])
        var (r, g, b) = (Taps.half, Taps.half, Taps.half)
        var source = row + first * 3
        for index in range {
          let weight = taps.weights[index]
          r &+= weight &* Int32(pixels[source])
          g &+= weight &* Int32(pixels[source + 1])
          b &+= weight &* Int32(pixels[source + 2])
          source += 3
        }
        out[target] = Taps.byte(r)
        out[target + 1] = Taps.byte(g)
        out[target + 2] = Taps.byte(b)
        target += 3
      }
    }
    return PixelImage(width: newWidth, height: height, pixels: out)
  }

  private func heightened(to newHeight: Int) -> PixelImage {
    let taps = Taps(from: height, to: newHeight)
    let stride = width * 3
    var out = [UInt8](repeating: 0, count: stride * newHeight)
    var sums = [Int32](repeating: 0, count: stride)
    for y in 0..<newHeight {
      for column in 0..<stride { sums[column] = Taps.half }
      var source = taps.starts[y] * stride
      for index in taps.ranges[y] {
        let weight = taps.weights[index]
        for column in 0..<stride { sums[column] &+= weight &* Int32(pixels[source + column]) }
        source += stride
      }
      for column in 0..<stride { out[y * stride + column] = Taps.byte(sums[column]) }
    }
    return PixelImage(width: width, height: newHeight, pixels: out)
  }
}

/// Which source samples make each sample of the result, and by how much.
private struct Taps {
  /// Bits after the point: sums of 8-bit values and weights up to 1.3 stay within 32 bits.
  private static let bits = 22
  static let half: Int32 = 1 << 21

  /// First source sample of each result.
  private(set) var starts: [Int] = []
  /// Its weights in `weights`.
  private(set) var ranges: [Range<Int>] = []
  private(set) var weights: [Int32] = []

  /// Most bytes of what an axis takes: four weights for each source sample or, where the image grows, five for each of
  /// the result.
  static func bytes(from count: Int, to newCount: Int) -> Int { 16 * count + 80 * newCount }

  init(from count: Int, to newCount: Int) {
    let scale = Double(count) / Double(newCount)
    let stretch = max(scale, 1)
    let support = 2 * stretch
    weights.reserveCapacity(4 * count + 5 * newCount)
    let narrowing = 1 / stretch
    for index in 0..<newCount {
      let centre = (Double(index) + 0.5) * scale
      let low = max(0, Int(centre - support + 0.5))
      let high = min(count, Int(centre + support + 0.5))
      var values = (low..<high).map { Self.kernel((Double($0) - centre + 0.5) * narrowing) }
      let sum = values.reduce(0, +)
      if sum != 0 { for place in values.indices { values[place] /= sum } }
      starts.append(low)
      ranges.append(weights.count..<weights.count + values.count)
      for value in values {
        let fixed = value * Double(1 << Self.bits)
        weights.append(Int32(fixed < 0 ? fixed - 0.5 : fixed + 0.5))
      }
    }
  }

  /// Keys' cubic convolution with a = -1/2.
  private static func kernel(_ distance: Double) -> Double {
    let (t, a) = (abs(distance), -0.5)
    if t < 1 { return ((a + 2) * t - (a + 3)) * t * t + 1 }
    if t < 2 { return (((t - 5) * t + 8) * t - 4) * a }
    return 0
  }

  static func byte(_ sum: Int32) -> UInt8 { UInt8(max(0, min(255, sum >> Int32(bits)))) }
}
