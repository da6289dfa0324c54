// JPEG (ITU-T T.81): baseline, extended and progressive Huffman images of 8 bits, with restart markers; grey, YCbCr,
// RGB, CMYK and YCCK. The arithmetic is that of libjpeg's defaults, value for value.

enum JPEG {
  static func decode(_ bytes: [UInt8], _ limits: ImageLimits) throws(MediaError) -> PixelImage {
    var decoder = JPEGDecoder(bytes, limits)
    try decoder.readSegments()
    return try decoder.image()
  }

  static func damaged(_ problem: String) -> MediaError { .damaged(format: "JPEG", problem: problem) }
}

/// One colour component of the frame.
struct JPEGComponent {
  let id: Int
  /// Samples per unit, 1 to 4.
  let h, v: Int
  let table: Int
  /// Size in samples, without padding.
  var width = 0
  var height = 0
  /// Blocks per row and column, padded to whole units of an interleaved scan.
  var blockColumns = 0
  var blockRows = 0
  /// Of a progressive image, `[blockRows][blockColumns][64]` in natural order.
  var coefficients: [Int16] = []
  /// `[blockRows · 8][blockColumns · 8]`.
  var samples: [UInt8] = []
  /// Dequantization in natural order, as it was when the first scan of the component began.
  var steps: [Int32] = []

  var stride: Int { blockColumns * 8 }
  var sampleCount: Int { blockColumns * blockRows * 64 }
}

/// What APP14 says about colours.
enum AdobeTransform: Int {
  case none, yCbCr, ycck
}

struct JPEGDecoder {
  let bytes: [UInt8]
  private let limits: ImageLimits
  private let visitLimit: Int
  private var reader: ByteReader
  private(set) var width = 0
  private(set) var height = 0
  private(set) var isProgressive = false
  var components: [JPEGComponent] = []
  private(set) var maxH = 1
  private(set) var maxV = 1
  private var steps: [[Int32]?] = [nil, nil, nil, nil]
  private var dcTables: [HuffmanTable?] = [nil, nil, nil, nil]
  private var acTables: [HuffmanTable?] = [nil, nil, nil, nil]
  private var restartInterval = 0
  private var hasJFIF = false
  private var adobe: Int?
  private var orientation = Orientation.upright
  private var scans = 0
  private var visits = 0

  /// Progressive images of cameras and encoders have about ten scans; each walks over the whole image.
  private static let scanLimit = 100
  /// The most blocks that all scans may walk over: ten passes over the largest image, about as many seconds.
  private static let visitLimit = 24 << 20

  /// - Parameter visits: most blocks that all scans may walk over.
  init(_ bytes: [UInt8], _ limits: ImageLimits, visits visitLimit: Int = Self.visitLimit) {
    (self.bytes, self.limits, self.visitLimit) = (bytes, limits, visitLimit)
    reader = ByteReader(bytes)
  }

  // MARK: Segments

  /// Reads everything up to the end of the image, or of the file after a whole scan.
  mutating func readSegments() throws(MediaError) {
    _ = reader.skip(2)
    while true {
      guard let marker = nextMarker() else {
        // A sequential image may lack its end marker; a progressive one would lack scans.
        guard scans > 0, !isProgressive else { throw JPEG.damaged("the file ends early") }
        return
      }
      switch marker {
      case 0xD9: return
      case 0x01, 0xD0...0xD7: continue
      default: break
      }
      guard let length = reader.number(2), length >= 2, let body = reader.skip(length - 2) else {
        throw JPEG.damaged("the file ends early")
      }
      switch marker {
      case 0xC0, 0xC1, 0xC2: try readFrame(body, marker)
      case 0xC4: try readHuffmanTables(body)
      case 0xC3, 0xC5...0xC7, 0xC9...0xCF:
        throw .unsupported(format: "JPEG", feature: "a lossless, hierarchical or arithmetic coding")
      case 0xDA: try readScan(body)
      case 0xDB: try readQuantization(body)
      case 0xDD:
        var inner = ByteReader(bytes, in: body)
        guard let interval = inner.number(2) else {
          throw JPEG.damaged("its restart interval is not a number")
        }
        restartInterval = interval
      case 0xE0: hasJFIF = hasJFIF || bytes[body].starts(with: "JFIF\0".utf8)
      case 0xE1:
        if orientation == .upright, bytes[body].starts(with: "Exif\0\0".utf8) {
          orientation = .find(in: bytes, body.lowerBound + 6..<body.upperBound)
        }
      case 0xEE:
        if body.count >= 12, bytes[body].starts(with: "Adobe".utf8) {
          adobe = Int(bytes[body.lowerBound + 11])
        }
      default: break
      }
    }
  }

  private mutating func nextMarker() -> Int? {
    while let byte = reader.byte() {
      guard byte == 0xFF else { continue }
      var code = reader.byte()
      while code == 0xFF { code = reader.byte() }
      if let code, code != 0 { return code }
    }
    return nil
  }

  private mutating func readQuantization(_ body: Range<Int>) throws(MediaError) {
    var inner = ByteReader(bytes, in: body)
    while let kind = inner.byte() {
      guard kind >> 4 <= 1, kind & 15 <= 3 else {
        throw JPEG.damaged("a quantization table has a wrong number")
      }
      var table = [Int32](repeating: 0, count: 64)
      for index in 0..<64 {
        guard let step = inner.number(kind >> 4 + 1) else {
          throw JPEG.damaged("a quantization table ends early")
        }
        table[JPEGBlocks.natural[index]] = Int32(step)
      }
      steps[kind & 15] = table
    }
  }

  private mutating func readHuffmanTables(_ body: Range<Int>) throws(MediaError) {
    var inner = ByteReader(bytes, in: body)
    while let kind = inner.byte() {
      guard kind >> 4 <= 1, kind & 15 <= 3, let counts = inner.skip(16) else {
        throw JPEG.damaged("a Huffman table has a wrong number")
      }
      let lengths = bytes[counts].map(Int.init)
      guard let symbols = inner.skip(lengths.reduce(0, +)),
        let table = HuffmanTable(lengths, symbols: Array(bytes[symbols]))
      else { throw JPEG.damaged("a Huffman table contradicts itself") }
      if kind >> 4 == 0 { dcTables[kind & 15] = table } else { acTables[kind & 15] = table }
    }
  }

  private mutating func readFrame(_ body: Range<Int>, _ marker: Int) throws(MediaError) {
    guard components.isEmpty else { throw JPEG.damaged("it has two frames") }
    var inner = ByteReader(bytes, in: body)
    guard let depth = inner.byte(), let height = inner.number(2), let width = inner.number(2),
      let count = inner.byte()
    else { throw JPEG.damaged("its frame header ends early") }
    guard depth == 8 else { throw .unsupported(format: "JPEG", feature: "\(depth) bits per sample") }
    guard width > 0, height > 0 else { throw JPEG.damaged("its size is zero") }
    guard count == 1 || count == 3 || count == 4 else {
      throw .unsupported(format: "JPEG", feature: "\(count) colour components")
    }
    let pixels = try limits.check(width: width, height: height)
    // No code of this format says less than a bit per block of 64 samples and component.
    guard pixels / 1024 <= bytes.count else { throw JPEG.damaged("the file is too short for its size") }
    (self.width, self.height) = (width, height)
    isProgressive = marker == 0xC2
    for _ in 0..<count {
      guard let id = inner.byte(), let factors = inner.byte(), let table = inner.byte(),
        (1...4).contains(factors >> 4), (1...4).contains(factors & 15), table <= 3
      else { throw JPEG.damaged("a component has values that do not exist") }
      components.append(JPEGComponent(id: id, h: factors >> 4, v: factors & 15, table: table))
    }
    maxH = components.reduce(1) { max($0, $1.h) }
    maxV = components.reduce(1) { max($0, $1.v) }
    for index in components.indices { try layOut(index) }
    let samples = components.reduce(0) { $0 + $1.sampleCount }
    // Coefficients of two bytes are kept until the samples are there, which are then made anew.
    try limits.claim(pixels: pixels, beside: isProgressive ? 4 * samples : samples)
    for index in components.indices {
      let count = components[index].sampleCount
      if isProgressive { components[index].coefficients = [Int16](repeating: 0, count: count) }
      components[index].samples = [UInt8](repeating: 0, count: count)
    }
  }

  private mutating func layOut(_ index: Int) throws(MediaError) {
    let (h, v) = (components[index].h, components[index].v)
    guard maxH % h == 0, maxV % v == 0 else {
      throw .unsupported(format: "JPEG", feature: "fractional subsampling")
    }
    components[index].width = (width * h + maxH - 1) / maxH
    components[index].height = (height * v + maxV - 1) / maxV
    components[index].blockColumns = unitColumns * h
    components[index].blockRows = unitRows * v
  }

  /// Units of interleaved scans.
  var unitColumns: Int { (width + 8 * maxH - 1) / (8 * maxH) }
  var unitRows: Int { (height + 8 * maxV - 1) / (8 * maxV) }

  // MARK: Scans

  private mutating func readScan(_ body: Range<Int>) throws(MediaError) {
    scans += 1
    guard !components.isEmpty else { throw JPEG.damaged("a scan comes before the frame") }
    guard scans <= Self.scanLimit else { throw JPEG.damaged("it has more than \(Self.scanLimit) scans") }
    var inner = ByteReader(bytes, in: body)
    guard let count = inner.byte(), (1...4).contains(count) else {
      throw JPEG.damaged("a scan has no components")
    }
    var parts: [JPEGScan.Part] = []
    for _ in 0..<count {
      guard let id = inner.byte(), let tables = inner.byte(), tables >> 4 <= 3, tables & 15 <= 3,
        let index = components.firstIndex(where: { $0.id == id }),
        !parts.contains(where: { $0.component == index })
      else { throw JPEG.damaged("a scan names components or tables that do not exist") }
      parts.append(JPEGScan.Part(component: index, dc: dcTables[tables >> 4], ac: acTables[tables & 15]))
      if components[index].steps.isEmpty, let table = steps[components[index].table] {
        components[index].steps = table
      }
      guard !components[index].steps.isEmpty else { throw JPEG.damaged("a quantization table is missing") }
    }
    guard let first = inner.byte(), let last = inner.byte(), let bits = inner.byte() else {
      throw JPEG.damaged("a scan header ends early")
    }
    let scan = JPEGScan(parts: parts, first: first, last: last, high: bits >> 4, low: bits & 15)
    try scan.check(isProgressive: isProgressive)
    visits += blockCount(of: scan)
    guard visits <= visitLimit else {
      throw JPEG.damaged("its \(scans) scans are more work than an image of this size can be")
    }
    var entropy = EntropyReader(bytes, from: reader.at)
    try decode(scan, &entropy, restartInterval: restartInterval)
    _ = reader.move(to: entropy.position)
  }

  // MARK: The image

  func image() throws(MediaError) -> PixelImage {
    guard scans > 0, components.allSatisfy({ !$0.steps.isEmpty }) else {
      throw JPEG.damaged("it has no image data for some component")
    }
    var planes: [JPEGComponent] = []
    for component in components {
      planes.append(isProgressive ? component.transformed() : component)
    }
    let painter = JPEGPainter(components: planes, width: width, height: height, maxH: maxH, maxV: maxV)
    return PixelImage(width: width, height: height, pixels: painter.paint(colours)).upright(orientation)
  }

  /// The colour space, by the rules of libjpeg.
  private var colours: JPEGPainter.Colours {
    switch components.count {
    case 1: return .grey
    case 4: return adobe == AdobeTransform.ycck.rawValue ? .ycck : .cmyk
    default:
      if hasJFIF { return .yCbCr }
      if let adobe { return adobe == AdobeTransform.none.rawValue ? .rgb : .yCbCr }
      return components.map(\.id) == [0x52, 0x47, 0x42] ? .rgb : .yCbCr
    }
  }
}
