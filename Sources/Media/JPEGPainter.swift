// From the planes of a JPEG to RGB: subsampled planes are enlarged by libjpeg's triangle filters, colours converted
// with its tables.

struct JPEGPainter {
  enum Colours {
    case grey, yCbCr, rgb, cmyk, ycck
  }

  private let components: [JPEGComponent]
  private let width, height: Int
  private let maxH, maxV: Int

  init(components: [JPEGComponent], width: Int, height: Int, maxH: Int, maxV: Int) {
    (self.components, self.width, self.height) = (components, width, height)
    (self.maxH, self.maxV) = (maxH, maxV)
  }

  func paint(_ colours: Colours) -> [UInt8] {
    var pixels = [UInt8](repeating: 0, count: width * height * 3)
    var rows = components.map { _ in [UInt8](repeating: 0, count: width + 2 * maxH) }
    let tables = ColourTables()
    for y in 0..<height {
      for index in components.indices { enlarge(components[index], row: y, into: &rows[index]) }
      let start = y * width * 3
      switch colours {
      case .grey: Self.copy(rows[0], rows[0], rows[0], width, &pixels, start)
      case .rgb: Self.copy(rows[0], rows[1], rows[2], width, &pixels, start)
      case .yCbCr: tables.convert(rows[0], rows[1], rows[2], width, &pixels, start)
      case .cmyk:
        Self.copy(rows[0], rows[1], rows[2], width, &pixels, start)
        Self.darken(&pixels, start, by: rows[3], width)
      case .ycck:
        tables.convert(rows[0], rows[1], rows[2], width, &pixels, start)
        for index in start..<start + 3 * width { pixels[index] = 255 - pixels[index] }
        Self.darken(&pixels, start, by: rows[3], width)
      }
    }
    return pixels
  }

  private static func copy(
    _ r: [UInt8], _ g: [UInt8], _ b: [UInt8], _ width: Int, _ out: inout [UInt8], _ start: Int
  ) {
    for x in 0..<width {
      out[start + 3 * x] = r[x]
      out[start + 3 * x + 1] = g[x]
      out[start + 3 * x + 2] = b[x]
    }
  }

  /// Inks to colours. Files store them inverted, as Adobe does: what is stored is how much light is left.
  private static func darken(_ pixels: inout [UInt8], _ start: Int, by black: [UInt8], _ width: Int) {
    for x in 0..<width {
      let light = Int(black[x])
      for index in start + 3 * x..<start + 3 * x + 3 {
        // light - ink · light / 255, rounded.
        let product = (255 - Int(pixels[index])) * light + 128
        pixels[index] = UInt8(max(0, light - (product >> 8 + product) >> 8))
      }
    }
  }

  // MARK: Enlarging

  /// Row `y` of the image out of a plane.
  private func enlarge(_ plane: JPEGComponent, row y: Int, into out: inout [UInt8]) {
    let (acrossBy, downBy) = (maxH / plane.h, maxV / plane.v)
    let source = y / downBy
    switch (acrossBy, downBy) {
    case (1, 1):
      let start = source * plane.stride
      for x in 0..<plane.width { out[x] = plane.samples[start + x] }
    case (2, 1) where plane.width > 2: doubled(plane, source, &out)
    case (1, 2): mixed(plane, source, isLower: y % 2 == 1, &out)
    case (2, 2) where plane.width > 2: doubledMixed(plane, source, isLower: y % 2 == 1, &out)
    default:
      let start = source * plane.stride
      for x in 0..<width { out[x] = plane.samples[start + x / acrossBy] }
    }
  }

  /// Start of the row above or below, which at the edge is the row itself.
  private func neighbour(_ plane: JPEGComponent, _ row: Int, isLower: Bool) -> Int {
    (isLower ? min(row + 1, plane.height - 1) : max(row - 1, 0)) * plane.stride
  }

  private func doubled(_ plane: JPEGComponent, _ row: Int, _ out: inout [UInt8]) {
    let start = row * plane.stride
    func sample(_ x: Int) -> Int { Int(plane.samples[start + x]) }
    let last = plane.width - 1
    out[0] = UInt8(sample(0))
    out[1] = UInt8((sample(0) * 3 + sample(1) + 2) >> 2)
    for x in 1..<last {
      let near = sample(x) * 3
      out[2 * x] = UInt8((near + sample(x - 1) + 1) >> 2)
      out[2 * x + 1] = UInt8((near + sample(x + 1) + 2) >> 2)
    }
    out[2 * last] = UInt8((sample(last) * 3 + sample(last - 1) + 1) >> 2)
    out[2 * last + 1] = UInt8(sample(last))
  }

  private func mixed(_ plane: JPEGComponent, _ row: Int, isLower: Bool, _ out: inout [UInt8]) {
    let (near, far) = (row * plane.stride, neighbour(plane, row, isLower: isLower))
    let bias = isLower ? 2 : 1
    for x in 0..<plane.width {
      out[x] = UInt8((Int(plane.samples[near + x]) * 3 + Int(plane.samples[far + x]) + bias) >> 2)
    }
  }

  private func doubledMixed(_ plane: JPEGComponent, _ row: Int, isLower: Bool, _ out: inout [UInt8]) {
    let (near, far) = (row * plane.stride, neighbour(plane, row, isLower: isLower))
    func sum(_ x: Int) -> Int { Int(plane.samples[near + x]) * 3 + Int(plane.samples[far + x]) }
    let last = plane.width - 1
    var (before, this) = (sum(0), sum(0))
    for x in 0...last {
      let after = x < last ? sum(x + 1) : this
      out[2 * x] = UInt8((this * 3 + before + 8) >> 4)
      out[2 * x + 1] = UInt8((this * 3 + after + 7) >> 4)
      (before, this) = (this, after)
    }
  }
}

/// YCbCr to RGB in 16-bit fixed point (ITU-R BT.601, full range).
private struct ColourTables {
  private var red = [Int](repeating: 0, count: 256)
  private var blue = [Int](repeating: 0, count: 256)
  private var greenCr = [Int](repeating: 0, count: 256)
  private var greenCb = [Int](repeating: 0, count: 256)

  init() {
    let half = 1 << 15
    for index in 0..<256 {
      let x = index - 128
      red[index] = (91881 * x + half) >> 16
      blue[index] = (116130 * x + half) >> 16
      greenCr[index] = -46802 * x
      greenCb[index] = -22554 * x + half
    }
  }

  func convert(
    _ y: [UInt8], _ cb: [UInt8], _ cr: [UInt8], _ width: Int, _ out: inout [UInt8], _ start: Int
  ) {
    func byte(_ value: Int) -> UInt8 { UInt8(truncatingIfNeeded: max(0, min(255, value))) }
    for x in 0..<width {
      let (light, b, r) = (Int(y[x]), Int(cb[x]), Int(cr[x]))
      out[start + 3 * x] = byte(light + red[r])
      out[start + 3 * x + 1] = byte(light + (greenCb[b] + greenCr[r]) >> 16)
      out[start + 3 * x + 2] = byte(light + blue[b])
    }
  }
}
