// The chunks of a WAV file: where the format and the samples are.

/// How a WAV file stores its samples, checked.
struct WAVFormat: Equatable {
  enum Encoding { case unsigned8, signed16, signed24, signed32, float32, float64, aLaw, muLaw }

  var encoding: Encoding
  var channels: Int
  var rate: Int
  var sampleBytes: Int
  var frameBytes: Int { channels * sampleBytes }
}

struct WAVChunks {
  private let bytes: [UInt8]

  init(_ bytes: [UInt8]) { self.bytes = bytes }

  /// Walks the chunks up to the samples.
  func find() throws(AudioError) -> (WAVFormat, data: Range<Int>) {
    let isLarge = AudioFormat.has("RF64", in: bytes, at: 0) || AudioFormat.has("BW64", in: bytes, at: 0)
    guard isLarge || AudioFormat.has("RIFF", in: bytes, at: 0), AudioFormat.has("WAVE", in: bytes, at: 8)
    else {
      throw .unrecognised
    }
    var format: WAVFormat?
    var largeData: UInt64?
    var at = 12
    while at + 8 <= bytes.count {
      let size = WAVReader.integer(bytes, at + 4, 4)
      let start = at + 8
      let left = bytes.count - start
      if AudioFormat.has("data", in: bytes, at: at) {
        guard let format else { throw .missingChunk("fmt ") }
        return (format, try samples(from: start, size: size, large: isLarge ? largeData : nil))
      }
      let isFormat = AudioFormat.has("fmt ", in: bytes, at: at)
      let isSizes = isLarge && AudioFormat.has("ds64", in: bytes, at: at)
      guard size <= UInt64(left) else {
        throw isFormat || isSizes
          ? .truncated(chunk: isFormat ? "fmt " : "ds64", expected: size, found: left)
          : .missingChunk(format == nil ? "fmt " : "data")
      }
      if isFormat, format == nil { format = try readFormat(start, Int(size)) }
      if isSizes {
        guard size >= 24 else {
          throw .invalidHeader(field: "ds64 size", found: Int(size), expected: "at least 24")
        }
        largeData = WAVReader.integer(bytes, start + 8, 8)
      }
      // Chunks begin at even offsets.
      at = start + Int(size) + Int(size & 1)
    }
    throw .missingChunk(format == nil ? "fmt " : "data")
  }

  /// The samples' bytes. Programs that write to a pipe cannot know the size and leave 0 or a huge one.
  private func samples(from start: Int, size: UInt64, large: UInt64?) throws(AudioError) -> Range<Int> {
    let left = bytes.count - start
    var size = size
    if size == 0xFFFF_FFFF, let large, large != 0, large != .max {
      size = large
    } else if size == 0 && !reachesBeyond(start) || size >= 0x7FFF_0000 && UInt64(left) < size {
      // Sox leaves a round number just below 2 GiB, others the largest of 32 bits.
      return start..<bytes.count
    }
    guard size <= UInt64(left) else { throw .truncated(chunk: "data", expected: size, found: left) }
    return start..<start + Int(size)
  }

  /// Whether the file's own size says that something follows `start`: then a size of 0 is meant.
  private func reachesBeyond(_ start: Int) -> Bool {
    let size = WAVReader.integer(bytes, 4, 4)
    return size != 0xFFFF_FFFF && size + 8 > UInt64(start)
  }

  // MARK: Format

  private func readFormat(_ start: Int, _ size: Int) throws(AudioError) -> WAVFormat {
    guard size >= 16 else {
      throw .invalidHeader(field: "'fmt ' size", found: size, expected: "at least 16")
    }
    func field(_ offset: Int, _ count: Int) -> Int { Int(WAVReader.integer(bytes, start + offset, count)) }
    var tag = field(0, 2)
    let (channels, rate, frameBytes, bits) = (field(2, 2), field(4, 4), field(12, 2), field(14, 2))
    guard 1...32 ~= channels else {
      throw .invalidHeader(field: "number of channels", found: channels, expected: "1...32")
    }
    guard 1000...768_000 ~= rate else {
      throw .invalidHeader(field: "sample rate", found: rate, expected: "1000...768000")
    }
    if tag == 0xFFFE { tag = try extendedTag(start, size) }
    let encoding = try self.encoding(tag: tag, bits: bits)
    let format = WAVFormat(
      encoding: encoding, channels: channels, rate: rate, sampleBytes: Self.sampleBytes(encoding))
    guard frameBytes == format.frameBytes else {
      throw .invalidHeader(
        field: "block alignment", found: frameBytes,
        expected: "\(format.frameBytes), for \(channels) channels of \(bits) bits")
    }
    return format
  }

  /// The last 14 bytes of the identifiers that stand for the old two-byte tags.
  private static let tagSuffix: [UInt8] = [
    0, 0, 0, 0, 0x10, 0, 0x80, 0, 0, 0xAA, 0, 0x38, 0x9B, 0x71,
  ]

  /// The tag in the first two bytes of WAVE_FORMAT_EXTENSIBLE's identifier.
  private func extendedTag(_ start: Int, _ size: Int) throws(AudioError) -> Int {
    guard size >= 40 else {
      throw .invalidHeader(
        field: "'fmt ' size", found: size, expected: "at least 40 for the extensible format")
    }
    guard bytes[start + 26..<start + 40].elementsEqual(Self.tagSuffix) else {
      throw .unsupportedEncoding("an encoding with an identifier of its own")
    }
    return Int(WAVReader.integer(bytes, start + 24, 2))
  }

  private func encoding(tag: Int, bits: Int) throws(AudioError) -> WAVFormat.Encoding {
    func wrongBits(_ expected: String) -> AudioError {
      .invalidHeader(field: "bits per sample", found: bits, expected: expected)
    }
    switch tag {
    case 1:
      // Fewer bits than fill their bytes are in the upper ones.
      switch (bits + 7) / 8 {
      case 1 where bits > 0: return .unsigned8
      case 2: return .signed16
      case 3: return .signed24
      case 4: return .signed32
      default: throw wrongBits("1...32 for PCM")
      }
    case 3:
      switch bits {
      case 32: return .float32
      case 64: return .float64
      default: throw wrongBits("32 or 64 for floats")
      }
    case 6, 7:
      guard bits == 8 else { throw wrongBits("8 for A-law and mu-law") }
      return tag == 6 ? .aLaw : .muLaw
    default: throw .unsupportedEncoding(Self.name(ofTag: tag))
    }
  }

  private static func sampleBytes(_ encoding: WAVFormat.Encoding) -> Int {
    switch encoding {
    case .unsigned8, .aLaw, .muLaw: 1
    case .signed16: 2
    case .signed24: 3
    case .signed32, .float32: 4
    case .float64: 8
    }
  }

  private static func name(ofTag tag: Int) -> String {
    switch tag {
    case 0x02: "Microsoft ADPCM"
    case 0x11: "IMA ADPCM"
    case 0x31: "GSM 6.10"
    case 0x50: "MPEG audio"
    case 0x55: "MP3"
    case 0xFF, 0x1600, 0x1610: "AAC"
    case 0x160...0x163: "Windows Media Audio"
    case 0xF1AC: "FLAC"
    case 0x566F, 0x674F...0x6771: "Vorbis"
    default: "encoding \(tag)"
    }
  }
}
