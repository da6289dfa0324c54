// Reads FLAC files into one channel of floats.
//
// Source: RFC 9639. Every frame's check sums are compared; the digest of all samples is not.

/// The reader of FLAC files: 4 to 32 bits, up to eight channels.
package enum FLACReader {
  /// Whether bytes begin as a file of this format does.
  package static func recognises(_ bytes: [UInt8]) -> Bool { bytes.starts(with: "fLaC".utf8) }

  /// The audio of a file. Channels are averaged.
  ///
  /// - Parameters:
  ///   - comparesSums: false takes what random inputs hold.
  ///   - claim: reserves this many bytes for samples; false when they are not to be had.
  /// - Throws: `AudioError` saying what is wrong; no more is decoded than the limits allow.
  package static func read(
    _ bytes: [UInt8], limits: AudioLimits = AudioLimits(), comparesSums: Bool = true,
    claim: (_ bytes: Int) -> Bool = { _ in true }
  ) throws(AudioError) -> AudioClip {
    guard bytes.count <= limits.bytes else { throw .tooManyBytes(bytes.count, limit: limits.bytes) }
    guard recognises(bytes) else { throw .unrecognised }
    var bits = FLACBits(bytes, from: 4)
    let stream = try FLACStream(&bits, comparesSums: comparesSums)
    let most = limits.seconds * stream.rate
    var (samples, claimed) = ([Float](), 0)
    while bits.at < 8 * bytes.count {
      // What other programs append is no sound.
      guard let frame = try FLACFrame(&bits, stream) else { break }
      guard samples.count + frame.size <= most else {
        throw .tooLong(
          seconds: Double(samples.count + frame.size) / Double(stream.rate), limit: limits.seconds)
      }
      if samples.count + frame.size > claimed {
        // An array that grows is there twice.
        let more = max(1 << 16, claimed)
        guard claim(8 * more) else { throw .noMemory(bytes: 8 * more) }
        claimed += max(more, frame.size)
      }
      try frame.decode(&bits, into: &samples)
    }
    guard !samples.isEmpty else { throw .noSamples }
    return AudioClip(samples: samples, rate: stream.rate)
  }

  static func damaged(_ problem: String) -> AudioError { .damaged(format: "FLAC", problem: problem) }
}

/// Bits of a file, the highest of a byte first.
struct FLACBits {
  let bytes: [UInt8]
  /// The next bit.
  private(set) var at: Int

  init(_ bytes: [UInt8], from byte: Int) { (self.bytes, at) = (bytes, 8 * byte) }

  var byte: Int { at / 8 }

  /// - Precondition: at most 32 bits.
  mutating func take(_ count: Int) throws(AudioError) -> UInt32 {
    guard at + count <= 8 * bytes.count else { throw FLACReader.damaged("it ends within a frame") }
    var (value, left) = (UInt64(0), count)
    while left > 0 {
      let room = 8 - at % 8
      let some = min(room, left)
      let part = UInt64(bytes[at / 8]) >> UInt64(room - some) & (1 << UInt64(some) - 1)
      value = value << UInt64(some) | part
      at += some
      left -= some
    }
    return UInt32(truncatingIfNeeded: value)
  }

  mutating func int(_ count: Int) throws(AudioError) -> Int { Int(try take(count)) }

  /// A number in two's complement of up to 33 bits.
  mutating func signed(_ count: Int) throws(AudioError) -> Int {
    guard count > 0 else { return 0 }
    let high = count > 32 ? try int(count - 32) : 0
    let value = high << 32 | Int(try take(min(count, 32)))
    return value & 1 << (count - 1) != 0 ? value - 1 << count : value
  }

  /// Zeros before the next one.
  mutating func unary() throws(AudioError) -> Int {
    let start = at
    while true {
      guard at < 8 * bytes.count else { throw FLACReader.damaged("it ends within a frame") }
      // The bits of the byte that are not taken yet.
      let rest = bytes[at / 8] << UInt8(at % 8)
      guard rest == 0 else {
        at += rest.leadingZeroBitCount + 1
        return at - 1 - start
      }
      at += 8 - at % 8
    }
  }

  mutating func skip(bytes count: Int) throws(AudioError) {
    guard at + 8 * count <= 8 * bytes.count else { throw FLACReader.damaged("it ends within its metadata") }
    at += 8 * count
  }

  mutating func align() { at = (at + 7) / 8 * 8 }
}

/// What the first block of metadata says.
struct FLACStream {
  let rate, channels, depth: Int
  let comparesSums: Bool

  init(_ bits: inout FLACBits, comparesSums: Bool) throws(AudioError) {
    self.comparesSums = comparesSums
    var (isLast, isFirst) = (false, true)
    var found: (rate: Int, channels: Int, depth: Int)?
    while !isLast {
      isLast = try bits.take(1) == 1
      let (kind, size) = (try bits.int(7), try bits.int(24))
      guard isFirst == (kind == 0), !isFirst || size == 34 else {
        throw FLACReader.damaged("its metadata does not begin with the stream's properties")
      }
      guard isFirst else {
        try bits.skip(bytes: size)
        continue
      }
      isFirst = false
      try bits.skip(bytes: 10)
      found = (try bits.int(20), try bits.int(3) + 1, try bits.int(5) + 1)
      _ = try bits.take(4)
      try bits.skip(bytes: 20)
    }
    guard let found else { throw FLACReader.damaged("it has no metadata") }
    guard 1000...768_000 ~= found.rate else {
      throw .invalidHeader(field: "sample rate", found: found.rate, expected: "1000...768000")
    }
    guard 4...32 ~= found.depth else {
      throw .invalidHeader(field: "bits per sample", found: found.depth, expected: "4...32")
    }
    (rate, channels, depth) = found
  }
}

/// One block of samples of all channels.
struct FLACFrame {
  let size: Int
  private let channels, depth: Int
  /// 8, 9, 10: left and side, side and right, middle and side; else each for itself.
  private let assignment: Int
  /// The first byte.
  private let start: Int
  private let comparesSums: Bool

  /// Reads a header.
  ///
  /// - Returns: nil where no frame begins.
  init?(_ bits: inout FLACBits, _ stream: FLACStream) throws(AudioError) {
    bits.align()
    (start, comparesSums) = (bits.byte, stream.comparesSums)
    guard start + 2 <= bits.bytes.count, bits.bytes[start] == 0xFF, bits.bytes[start + 1] & 0xFE == 0xF8
    else {
      return nil
    }
    _ = try bits.take(16)
    let (sizeCode, rateCode) = (try bits.int(4), try bits.int(4))
    assignment = try bits.int(4)
    let depthCode = try bits.int(3)
    guard try bits.take(1) == 0, assignment <= 10 else {
      throw FLACReader.damaged("a frame's header is none")
    }
    try Self.skipNumber(&bits)
    switch sizeCode {
    case 1: size = 192
    case 2...5: size = 576 << (sizeCode - 2)
    case 6: size = try bits.int(8) + 1
    case 7: size = try bits.int(16) + 1
    case 8...15: size = 256 << (sizeCode - 8)
    default: throw FLACReader.damaged("a frame has no size")
    }
    if rateCode == 12 { _ = try bits.take(8) }
    if rateCode == 13 || rateCode == 14 { _ = try bits.take(16) }
    let depths = [stream.depth, 8, 12, 0, 16, 20, 24, 32]
    depth = depths[depthCode]
    channels = assignment < 8 ? assignment + 1 : 2
    guard rateCode != 15, depth == stream.depth, channels == stream.channels else {
      throw FLACReader.damaged("a frame differs from the stream's properties")
    }
    let end = bits.byte
    let sum = try bits.take(8)
    guard !comparesSums || sum == Self.checkSum8(bits.bytes[start..<end]) else {
      throw FLACReader.damaged("the check sum of a frame's header is wrong")
    }
  }

  /// A number of up to 36 bits, coded as UTF-8 codes scalars.
  private static func skipNumber(_ bits: inout FLACBits) throws(AudioError) {
    let more = (~UInt8(truncatingIfNeeded: try bits.take(8))).leadingZeroBitCount
    guard more != 1, more <= 7 else { throw FLACReader.damaged("a frame's number is none") }
    for _ in 1..<max(1, more) { _ = try bits.take(8) }
  }

  /// Reads the channels and appends their mean.
  func decode(_ bits: inout FLACBits, into samples: inout [Float]) throws(AudioError) {
    var all: [[Int]] = []
    for channel in 0..<channels {
      let isSide =
        assignment == 8 && channel == 1 || assignment == 9 && channel == 0 || assignment == 10 && channel == 1
      all.append(try subframe(&bits, depth: depth + (isSide ? 1 : 0)))
    }
    bits.align()
    let end = bits.byte
    let sum = try bits.take(16)
    guard !comparesSums || sum == Self.checkSum16(bits.bytes[start..<end]) else {
      throw FLACReader.damaged("the check sum of a frame is wrong")
    }
    let scale = 1 / (Float(channels) * Float(1 << (depth - 1)))
    for i in 0..<size {
      var sum = 0
      switch assignment {
      case 8: sum = 2 * all[0][i] - all[1][i]
      case 9: sum = 2 * all[1][i] + all[0][i]
      // The middle has lost its lowest bit, which the side has.
      case 10: sum = 2 * all[0][i] | (all[1][i] & 1)
      default: for channel in all { sum += channel[i] }
      }
      samples.append(Float(sum) * scale)
    }
  }

  private func subframe(_ bits: inout FLACBits, depth: Int) throws(AudioError) -> [Int] {
    guard try bits.take(1) == 0 else { throw FLACReader.damaged("a channel's header is none") }
    let kind = try bits.int(6)
    var wasted = 0
    if try bits.take(1) == 1 { wasted = try bits.unary() + 1 }
    guard wasted < depth else { throw FLACReader.damaged("a channel has no bits") }
    let depth = depth - wasted
    var values = [Int](repeating: 0, count: size)
    switch kind {
    case 0:
      let value = try bits.signed(depth)
      for i in values.indices { values[i] = value }
    case 1: for i in values.indices { values[i] = try bits.signed(depth) }
    case 8...12:
      try begin(&values, order: kind - 8, depth: depth, &bits)
      let coefficients = [[], [1], [2, -1], [3, -3, 1], [4, -6, 4, -1]][kind - 8]
      try addResidual(&values, coefficients, shift: 0, &bits)
    case 32...63: try predictLinearly(&values, order: kind - 31, depth: depth, &bits)
    default: throw FLACReader.damaged("a channel is coded in an unknown way")
    }
    if wasted > 0 { for i in values.indices { values[i] <<= wasted } }
    return values
  }

  /// The samples that a prediction begins with.
  private func begin(
    _ values: inout [Int], order: Int, depth: Int, _ bits: inout FLACBits
  ) throws(AudioError) {
    guard order <= size else { throw FLACReader.damaged("a prediction is longer than its frame") }
    for i in 0..<order { values[i] = try bits.signed(depth) }
  }

  private func predictLinearly(
    _ values: inout [Int], order: Int, depth: Int, _ bits: inout FLACBits
  ) throws(AudioError) {
    try begin(&values, order: order, depth: depth, &bits)
    let precision = try bits.int(4) + 1
    let shift = try bits.signed(5)
    guard precision < 16, shift >= 0 else { throw FLACReader.damaged("a prediction's precision is none") }
    var coefficients: [Int] = []
    for _ in 0..<order { coefficients.append(try bits.signed(precision)) }
    try addResidual(&values, coefficients, shift: shift, &bits)
  }

  /// Rice codes in partitions, each with a parameter of its own. Arithmetic wraps: damaged files are told by check sums.
  private func addResidual(
    _ values: inout [Int], _ coefficients: [Int], shift: Int, _ bits: inout FLACBits
  ) throws(AudioError) {
    let order = coefficients.count
    let method = try bits.int(2)
    guard method < 2 else { throw FLACReader.damaged("a residual is coded in an unknown way") }
    let (width, escape) = method == 0 ? (4, 15) : (5, 31)
    let partitions = 1 << (try bits.int(4))
    guard size % partitions == 0, size / partitions >= order else {
      throw FLACReader.damaged("a frame cannot be cut into its partitions")
    }
    var i = order
    for partition in 0..<partitions {
      let end = (partition + 1) * (size / partitions)
      let parameter = try bits.int(width)
      let plain = parameter == escape ? try bits.int(5) : 0
      while i < end {
        var residual: Int
        if parameter == escape {
          residual = try bits.signed(plain)
        } else {
          let high = try bits.unary()
          let folded = high << parameter | Int(try bits.take(parameter))
          residual = folded >> 1 ^ -(folded & 1)
        }
        var sum = 0
        for (j, coefficient) in coefficients.enumerated() { sum &+= coefficient &* values[i - 1 - j] }
        // No sample is longer; sums stay within 64 bits.
        residual &+= sum >> shift
        values[i] = Int((Int64(truncatingIfNeeded: residual) << 28) >> 28)
        i += 1
      }
    }
  }

  // MARK: Check sums

  private static let table8 = (0..<256).map { byte in
    UInt8(
      truncatingIfNeeded: (0..<8).reduce(byte) { sum, _ in sum & 0x80 != 0 ? sum << 1 ^ 0x107 : sum << 1 })
  }

  private static let table16 = (0..<256).map { byte in
    UInt16(
      truncatingIfNeeded: (0..<8).reduce(byte << 8) { sum, _ in
        sum & 0x8000 != 0 ? sum << 1 ^ 0x18005 : sum << 1
      })
  }

  private static func checkSum8(_ bytes: ArraySlice<UInt8>) -> UInt32 {
    UInt32(bytes.reduce(0) { table8[Int($0 ^ $1)] })
  }

  private static func checkSum16(_ bytes: ArraySlice<UInt8>) -> UInt32 {
    UInt32(bytes.reduce(UInt16(0)) { $0 << 8 ^ table16[Int(UInt8(truncatingIfNeeded: $0 >> 8) ^ $1)] })
  }
}
