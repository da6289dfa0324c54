// Resizing with antialiasing, in the fixed-point arithmetic of Pillow: models were trained on its results.
//
// Each axis by itself, rows first, with 8-bit values between the two. When an image shrinks, the kernel grows with the
// scale, so that every source pixel counts.

import Platform

/// How samples become others; the raw value is Pillow's number, `resample` in preprocessor_config.json.
package enum ResamplingFilter: Int, Sendable {
  case lanczos = 1
  case bilinear, bicubic

  /// Source samples to each side that count when an image keeps its size.
  var support: Int {
    switch self {
    case .lanczos: 3
    case .bilinear: 1
    case .bicubic: 2
    }
  }

  /// The weight of a sample at a distance, before weights are divided by their sum.
  func kernel(_ distance: Double) -> Double {
    let t = abs(distance)
    switch self {
    case .lanczos:
      func sinc(_ x: Double) -> Double { x == 0 ? 1 : sin(x * Double.pi) / (x * Double.pi) }
      return t < 3 ? sinc(distance) * sinc(distance / 3) : 0
    case .bilinear: return max(0, 1 - t)
    case .bicubic:
      // Keys' cubic convolution with a = -1/2.
      let a = -0.5
      if t < 1 { return ((a + 2) * t - (a + 3)) * t * t + 1 }
      if t < 2 { return (((t - 5) * t + 8) * t - 4) * a }
      return 0
    }
  }
}

extension PixelImage {
  /// The image at another size; itself at its own.
  ///
  /// - Precondition: width and height are positive.
  package func resized(
    width newWidth: Int, height newHeight: Int, by filter: ResamplingFilter = .bicubic
  ) -> PixelImage {
    var image = self
    if newWidth != width { image = image.stretched(to: newWidth, filter) }
    if newHeight != height { image = image.heightened(to: newHeight, filter) }
    return image
  }

  /// As `resized`, when there is memory for it.
  ///
  /// - Parameter claim: reserves this many bytes; false when they are not to be had.
  package func resized(
    width newWidth: Int, height newHeight: Int, by filter: ResamplingFilter = .bicubic,
    claim: (_ bytes: Int) -> Bool
  ) throws(MediaError) -> PixelImage {
    let work = bytesToResize(width: newWidth, height: newHeight, by: filter)
    guard claim(work) else { throw .noMemory(bytes: work) }
    return resized(width: newWidth, height: newHeight, by: filter)
  }

  /// A rectangle of the image.
  ///
  /// - Precondition: it lies within the image, and is not empty.
  package func cut(x: Int, y: Int, width newWidth: Int, height newHeight: Int) -> PixelImage {
    precondition(
      x >= 0 && y >= 0 && x + newWidth <= width && y + newHeight <= height, "the part is not in the image")
    var part: [UInt8] = []
    part.reserveCapacity(newWidth * newHeight * 3)
    for row in y..<y + newHeight {
      let first = (row * width + x) * 3
      part += pixels[first..<first + newWidth * 3]
    }
    return PixelImage(width: newWidth, height: newHeight, pixels: part)
  }

  /// Most bytes that `resized` holds beside the image: rows at their new width, the result, and the weights of both
  /// axes. A picture of a pixel's width may take a hundred times its own bytes.
  func bytesToResize(
    width newWidth: Int, height newHeight: Int, by filter: ResamplingFilter = .bicubic
  ) -> Int {
    let most = 1 << 30
    guard max(width, height, newWidth, newHeight) < most else { return .max }
    return newWidth * 3 * (height + newHeight) + Taps.bytes(from: width, to: newWidth, filter)
      + Taps.bytes(from: height, to: newHeight, filter)
  }

  private func stretched(to newWidth: Int, _ filter: ResamplingFilter) -> PixelImage {
    let taps = Taps(from: width, to: newWidth, filter)
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

  private func heightened(to newHeight: Int, _ filter: ResamplingFilter) -> PixelImage {
    let taps = Taps(from: height, to: newHeight, filter)
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
  /// Bits after the point: sums of 8-bit values and weights up to 1.5 stay within 32 bits.
  private static let bits = 22
  static let half: Int32 = 1 << 21

  /// First source sample of each result.
  private(set) var starts: [Int] = []
  /// Its weights in `weights`.
  private(set) var ranges: [Range<Int>] = []
  private(set) var weights: [Int32] = []

  /// Most bytes of what an axis takes: with bicubic weights four for each source sample or, where the image grows, five
  /// for each of the result.
  static func bytes(from count: Int, to newCount: Int, _ filter: ResamplingFilter) -> Int {
    8 * filter.support * count + (40 + 20 * filter.support) * newCount
  }

  init(from count: Int, to newCount: Int, _ filter: ResamplingFilter) {
    let scale = Double(count) / Double(newCount)
    let stretch = max(scale, 1)
    let support = Double(filter.support) * stretch
    weights.reserveCapacity(2 * filter.support * count + (2 * filter.support + 1) * newCount)
    let narrowing = 1 / stretch
    for index in 0..<newCount {
      let centre = (Double(index) + 0.5) * scale
      let low = max(0, Int(centre - support + 0.5))
      let high = min(count, Int(centre + support + 0.5))
      var values = (low..<high).map { filter.kernel((Double($0) - centre + 0.5) * narrowing) }
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

  static func byte(_ sum: Int32) -> UInt8 { UInt8(max(0, min(255, sum >> Int32(bits)))) }
}
