// PNG (ISO/IEC 15948): all colour types and depths, interlaced or not. Gamma, profiles and transparency do not change
// the colours, as in Pillow's convert("RGB").

enum PNG {
  static let signature: [UInt8] = [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]
  /// Most bytes of unpacked rows: 16-bit RGBA takes eight per pixel.
  private static let rawLimit = 256 << 20

  static func decode(_ bytes: [UInt8], _ limits: ImageLimits) throws(MediaError) -> PixelImage {
    let file = try PNGFile(bytes)
    let header = file.header
    let size = try limits.check(width: header.width, height: header.height)
    let passes = header.passes
    var count = 0
    for pass in passes { count += pass.height * (1 + header.rowBytes(pass.width)) }
    guard count <= rawLimit else {
      throw .tooManyPixels(
        width: header.width, height: header.height, limit: rawLimit * 8 / header.bitsPerPixel)
    }
    try limits.claim(pixels: size, beside: count)
    guard var rows = Inflate.zlib(file.data, count: count) else {
      throw damaged("its compressed data ends early or contradicts itself")
    }
    var pixels = [UInt8](repeating: 0, count: size * 3)
    let colours = PNGColours(header, palette: file.palette)
    var start = 0
    for pass in passes {
      let rowBytes = header.rowBytes(pass.width)
      try unfilter(&rows, from: start, rowBytes: rowBytes, rows: pass.height, step: header.filterStep)
      for row in 0..<pass.height {
        let place = start + row * (1 + rowBytes) + 1
        let first = ((pass.y + row * pass.stepY) * header.width + pass.x) * 3
        guard colours.write(rows, at: place, count: pass.width, to: &pixels, at: first, step: 3 * pass.stepX)
        else { throw damaged("a pixel has a colour that the palette lacks") }
      }
      start += pass.height * (1 + rowBytes)
    }
    return PixelImage(width: header.width, height: header.height, pixels: pixels).upright(file.orientation)
  }

  static func damaged(_ problem: String) -> MediaError { .damaged(format: "PNG", problem: problem) }

  /// Undoes the filters of consecutive rows, each after its filter's number.
  private static func unfilter(
    _ data: inout [UInt8], from start: Int, rowBytes: Int, rows: Int, step: Int
  ) throws(MediaError) {
    for row in 0..<rows {
      let at = start + row * (1 + rowBytes) + 1
      let above = row > 0 ? at - 1 - rowBytes : nil
      switch data[at - 1] {
      case 0: break
      case 1:
        for index in stride(from: step, to: rowBytes, by: 1) { data[at + index] &+= data[at + index - step] }
      case 2:
        guard let above else { continue }
        for index in 0..<rowBytes { data[at + index] &+= data[above + index] }
      case 3:
        for index in 0..<rowBytes {
          let left = index >= step ? Int(data[at + index - step]) : 0
          let up = above.map { Int(data[$0 + index]) } ?? 0
          data[at + index] &+= UInt8((left + up) / 2)
        }
      case 4: paeth(&data, at: at, above: above, rowBytes: rowBytes, step: step)
      default: throw damaged("a row has a filter that does not exist")
      }
    }
  }

  private static func paeth(_ data: inout [UInt8], at: Int, above: Int?, rowBytes: Int, step: Int) {
    guard let above else {
      // With nothing above, the nearest is always what is on the left.
      for index in stride(from: step, to: rowBytes, by: 1) { data[at + index] &+= data[at + index - step] }
      return
    }
    for index in 0..<min(step, rowBytes) { data[at + index] &+= data[above + index] }
    for index in stride(from: step, to: rowBytes, by: 1) {
      let a = Int(data[at + index - step])
      let b = Int(data[above + index])
      let c = Int(data[above + index - step])
      let (pa, pb, pc) = (abs(b - c), abs(a - c), abs(a + b - 2 * c))
      data[at + index] &+= UInt8(truncatingIfNeeded: pa <= pb && pa <= pc ? a : pb <= pc ? b : c)
    }
  }
}

/// IHDR, checked.
struct PNGHeader {
  enum Kind: Int {
    case grey = 0
    case colour = 2
    case palette = 3
    case greyAlpha = 4
    case colourAlpha = 6

    var channels: Int {
      switch self {
      case .grey, .palette: 1
      case .greyAlpha: 2
      case .colour: 3
      case .colourAlpha: 4
      }
    }

    var depths: Set<Int> {
      switch self {
      case .grey: [1, 2, 4, 8, 16]
      case .palette: [1, 2, 4, 8]
      case .colour, .greyAlpha, .colourAlpha: [8, 16]
      }
    }
  }

  /// Part of an interlaced image; the whole of any other.
  struct Pass {
    let width, height: Int
    /// The first pixel's place, and the distances.
    let x, y, stepX, stepY: Int
  }

  let width, height: Int
  let depth: Int
  let kind: Kind
  let isInterlaced: Bool

  init(_ reader: inout ByteReader) throws(MediaError) {
    guard let width = reader.number(4), let height = reader.number(4), let depth = reader.byte(),
      let type = reader.byte(), let compression = reader.byte(), let filter = reader.byte(),
      let interlace = reader.byte(), reader.left == 0
    else { throw PNG.damaged("its header has the wrong length") }
    guard width > 0, height > 0, width < 1 << 31, height < 1 << 31, let kind = Kind(rawValue: type),
      kind.depths.contains(depth), compression == 0, filter == 0, interlace <= 1
    else { throw PNG.damaged("its header has values that do not exist") }
    (self.width, self.height, self.depth) = (width, height, depth)
    self.kind = kind
    isInterlaced = interlace == 1
  }

  var bitsPerPixel: Int { kind.channels * depth }
  /// Bytes between a byte and the one that its filter looks at.
  var filterStep: Int { max(1, bitsPerPixel / 8) }

  func rowBytes(_ width: Int) -> Int { (width * bitsPerPixel + 7) / 8 }

  /// Without the empty ones.
  var passes: [Pass] {
    guard isInterlaced else { return [Pass(width: width, height: height, x: 0, y: 0, stepX: 1, stepY: 1)] }
    let adam7 = [
      (0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2),
    ]
    return adam7.compactMap { x, y, stepX, stepY in
      let (columns, rows) = ((width - x + stepX - 1) / stepX, (height - y + stepY - 1) / stepY)
      guard columns > 0, rows > 0 else { return nil }
      return Pass(width: columns, height: rows, x: x, y: y, stepX: stepX, stepY: stepY)
    }
  }
}

/// The chunks that matter, with their check sums verified.
struct PNGFile {
  let header: PNGHeader
  private(set) var palette: [UInt8] = []
  /// All IDAT chunks.
  private(set) var data: [UInt8] = []
  private(set) var orientation = Orientation.upright

  init(_ bytes: [UInt8]) throws(MediaError) {
    var reader = ByteReader(bytes, in: PNG.signature.count..<bytes.count)
    let crc = CRC32()
    var header: PNGHeader?
    var hasEnded = false
    while !hasEnded {
      guard let length = reader.number(4), let name = reader.skip(4), let body = reader.skip(length),
        let sum = reader.number(4)
      else { throw PNG.damaged("the file ends early") }
      let isCritical = bytes[name.lowerBound] & 0x20 == 0
      let isAudio = crc.sum(bytes, name.lowerBound..<body.upperBound) == UInt32(truncatingIfNeeded: sum)
      guard isAudio || !isCritical else { throw PNG.damaged("a check sum is wrong") }
      let type = String(decoding: bytes[name], as: UTF8.self)
      guard (header == nil) == (type == "IHDR") else { throw PNG.damaged("its chunks are in a wrong order") }
      switch type {
      case "IHDR":
        var inner = ByteReader(bytes, in: body)
        header = try PNGHeader(&inner)
      case "PLTE":
        guard body.count % 3 == 0, body.count <= 768, data.isEmpty else {
          throw PNG.damaged("its palette is malformed")
        }
        palette = Array(bytes[body])
      case "IDAT": data += bytes[body]
      case "IEND": hasEnded = true
      case "eXIf": if isAudio { orientation = .find(in: bytes, body) }
      default:
        guard !isCritical else {
          throw .unsupported(format: "PNG", feature: "a chunk that is not in the standard")
        }
      }
    }
    guard let header else { throw PNG.damaged("it has no header") }
    if header.kind == .palette, palette.isEmpty { throw PNG.damaged("its palette is missing") }
    self.header = header
  }
}

/// The check sum of chunks, with the reflected polynomial 0xEDB88320.
struct CRC32 {
  private let table: [UInt32]

  init() {
    table = (0..<256).map { index in
      var value = UInt32(index)
      for _ in 0..<8 { value = value & 1 == 1 ? value >> 1 ^ 0xEDB8_8320 : value >> 1 }
      return value
    }
  }

  func sum(_ bytes: [UInt8], _ range: Range<Int>) -> UInt32 {
    var crc: UInt32 = 0xFFFF_FFFF
    for index in range { crc = table[Int((crc ^ UInt32(bytes[index])) & 0xFF)] ^ crc >> 8 }
    return ~crc
  }
}

/// From samples of any kind and depth to RGB.
struct PNGColours {
  private let kind: PNGHeader.Kind
  private let depth: Int
  private let palette: [UInt8]

  init(_ header: PNGHeader, palette: [UInt8]) {
    kind = header.kind
    depth = header.depth
    self.palette = palette
  }

  /// Writes `count` pixels, `step` bytes apart. False when one is not in the palette.
  func write(
    _ data: [UInt8], at start: Int, count: Int, to out: inout [UInt8], at first: Int, step: Int
  ) -> Bool {
    // Of 16-bit samples the high byte counts.
    let bytes = depth == 16 ? 2 : 1
    var to = first
    switch kind {
    case .colour, .colourAlpha:
      var from = start
      for _ in 0..<count {
        out[to] = data[from]
        out[to + 1] = data[from + bytes]
        out[to + 2] = data[from + 2 * bytes]
        from += kind.channels * bytes
        to += step
      }
    case .grey where depth >= 8, .greyAlpha:
      for index in 0..<count {
        set(data[start + index * kind.channels * bytes], &out, to)
        to += step
      }
    case .grey:
      // 1, 2 and 4 bits are stretched to 0...255.
      let factor = 255 / UInt8(1 << depth - 1)
      for index in 0..<count {
        set(sample(data, start, index) * factor, &out, to)
        to += step
      }
    case .palette:
      for index in 0..<count {
        let entry = 3 * Int(sample(data, start, index))
        guard entry + 3 <= palette.count else { return false }
        out[to] = palette[entry]
        out[to + 1] = palette[entry + 1]
        out[to + 2] = palette[entry + 2]
        to += step
      }
    }
    return true
  }

  private func set(_ value: UInt8, _ out: inout [UInt8], _ at: Int) {
    out[at] = value
    out[at + 1] = value
    out[at + 2] = value
  }

  /// Sample `index` of a row of at most 8 bits each, the first in the highest bits.
  private func sample(_ data: [UInt8], _ start: Int, _ index: Int) -> UInt8 {
    if depth == 8 { return data[start + index] }
    let bit = index * depth
    return data[start + bit / 8] >> UInt8(8 - depth - bit % 8) & UInt8(1 << depth - 1)
  }
}
