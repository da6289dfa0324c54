// Decompression of zlib and gzip streams (RFC 1950, 1951, 1952) into a buffer of known size.

/// Decoders whose output has a size that is known beforehand, so that no stream can claim more memory.
enum Inflate {
  /// The most bytes of output that a byte of input becomes: a match of 258 bytes takes two bits.
  static let largestRatio = 1032

  /// The first `count` bytes of the stream.
  ///
  /// - Returns: nil when the stream is damaged or ends too early, or its check sum is wrong. What follows the bytes
  ///   asked for is not looked at.
  static func zlib(_ bytes: [UInt8], count: Int) -> [UInt8]? {
    guard bytes.count >= 2, bytes[0] & 15 == 8, bytes[0] >> 4 <= 7,
      (Int(bytes[0]) << 8 | Int(bytes[1])) % 31 == 0, bytes[1] & 0x20 == 0,
      bytes.count.multipliedReportingOverflow(by: largestRatio).partialValue >= count
    else { return nil }
    var state = Inflater(bytes, from: 2, count: count)
    guard state.run() else { return nil }
    if let sum = state.checkSum, sum != adler(state.out) { return nil }
    return state.out
  }

  private static func adler(_ bytes: [UInt8]) -> UInt32 {
    var (a, b): (UInt32, UInt32) = (1, 0)
    var start = 0
    while start < bytes.count {
      // This many sums fit into 32 bits.
      let end = min(start + 5552, bytes.count)
      for index in start..<end {
        a &+= UInt32(bytes[index])
        b &+= a
      }
      a %= 65521
      b %= 65521
      start = end
    }
    return b << 16 | a
  }
}

/// A gzip stream of one member, which nearly all are.
package struct GzipStream {
  /// The bytes that it holds, as its end says: nothing is unpacked yet.
  package let count: Int
  private let bytes: [UInt8]
  private let start: Int

  /// - Returns: nil for bytes that do not begin like one, or that are too short for what they say.
  package init?(_ bytes: [UInt8]) {
    guard bytes.count >= 18, bytes.starts(with: [0x1F, 0x8B, 8]), bytes[3] & 0xE0 == 0 else { return nil }
    count = bytes.suffix(4).reversed().reduce(0) { $0 << 8 | Int($1) }
    guard bytes.count.multipliedReportingOverflow(by: Inflate.largestRatio).partialValue >= count else {
      return nil
    }
    let flags = bytes[3]
    var at = 10
    if flags & 4 != 0 { at += 2 + (Int(bytes[10]) | Int(bytes[11]) << 8) }
    // A name and a comment, each up to a zero.
    for flag in [8, 16] as [UInt8] where flags & flag != 0 {
      guard at < bytes.count, let end = bytes[at...].firstIndex(of: 0) else { return nil }
      at = end + 1
    }
    if flags & 2 != 0 { at += 2 }
    guard at < bytes.count - 8 else { return nil }
    (self.bytes, start) = (bytes, at)
  }

  /// - Returns: nil when the stream is damaged or goes on beyond its end, or its check sum is wrong.
  package func unpacked() -> [UInt8]? {
    var state = Inflater(bytes, from: start, count: count)
    guard state.run(), let sum = state.checkSum, state.position == bytes.count - 4,
      CRC32().sum(state.out, 0..<count) == sum.byteSwapped
    else { return nil }
    return state.out
  }
}

/// A table for codes of at most 15 bits: the next bits, lowest first, lead to the symbol and its length.
private struct CodeTable {
  /// `symbol << 4 | length`; 0 for bits that are no code.
  private(set) var entries: [UInt16] = []
  private(set) var bits = 0

  /// - Returns: nil when the lengths promise more codes than there can be.
  init?(_ lengths: ArraySlice<UInt8>) {
    var counts = [Int](repeating: 0, count: 16)
    for length in lengths { counts[Int(length)] += 1 }
    counts[0] = 0
    bits = max(1, counts.lastIndex { $0 > 0 } ?? 1)
    var next = [Int](repeating: 0, count: 17)
    var code = 0
    for length in 1...15 {
      next[length] = code
      code = (code + counts[length]) << 1
      guard next[length] + counts[length] <= 1 << length else { return nil }
    }
    entries = [UInt16](repeating: 0, count: 1 << bits)
    for (symbol, length) in lengths.enumerated() where length > 0 {
      let length = Int(length)
      var reversed = 0
      for bit in 0..<length where next[length] >> bit & 1 == 1 { reversed |= 1 << (length - 1 - bit) }
      next[length] += 1
      let entry = UInt16(symbol << 4 | length)
      var index = reversed
      while index < entries.count {
        entries[index] = entry
        index += 1 << length
      }
    }
  }
}

private struct Inflater {
  private(set) var out: [UInt8]
  /// What the stream says about its bytes; nil when the output was full before its end.
  private(set) var checkSum: UInt32?
  private let bytes: [UInt8]
  private var at: Int
  private var held: UInt64 = 0
  private var heldCount = 0
  private var filled = 0

  init(_ bytes: [UInt8], from start: Int, count: Int) {
    self.bytes = bytes
    at = start
    out = [UInt8](repeating: 0, count: count)
  }

  /// Whole bytes that have been read.
  var position: Int { at - heldCount / 8 }

  /// After the end zeros follow: `heldCount` goes below zero when they are used.
  private mutating func fill() {
    while heldCount <= 48, at < bytes.count {
      held |= UInt64(bytes[at]) << UInt64(heldCount)
      heldCount += 8
      at += 1
    }
  }

  private mutating func take(_ count: Int) -> Int {
    fill()
    let value = Int(truncatingIfNeeded: held) & (1 << count - 1)
    held >>= UInt64(count)
    heldCount -= count
    return value
  }

  private mutating func symbol(_ table: CodeTable) -> Int? {
    fill()
    let entry = table.entries[Int(truncatingIfNeeded: held) & (1 << table.bits - 1)]
    let length = Int(entry & 15)
    held >>= UInt64(length)
    heldCount -= length
    return length == 0 || heldCount < 0 ? nil : Int(entry >> 4)
  }

  mutating func run() -> Bool {
    var isLast = false
    while !isLast {
      isLast = take(1) == 1
      let kind = take(2)
      guard heldCount >= 0 else { return false }
      switch kind {
      case 0: guard copyStored() else { return false }
      case 1:
        guard let literals = CodeTable(Self.fixedLiterals[...]),
          let distances = CodeTable(Self.fixedDistances[...]),
          expand(literals, distances)
        else { return false }
      case 2:
        guard let tables = readTables(), expand(tables.literals, tables.distances) else { return false }
      default: return false
      }
      if isFull { return true }
    }
    guard filled == out.count else { return false }
    readCheckSum()
    return checkSum != nil
  }

  /// Set when a symbol would have gone beyond the output.
  private var isFull = false

  private mutating func readCheckSum() {
    _ = take(heldCount & 7)
    var sum: UInt32 = 0
    for _ in 0..<4 { sum = sum << 8 | UInt32(take(8)) }
    if heldCount >= 0 { checkSum = sum }
  }

  private mutating func copyStored() -> Bool {
    _ = take(heldCount & 7)
    let (length, inverse) = (take(16), take(16))
    guard heldCount >= 0, length == ~inverse & 0xFFFF else { return false }
    for _ in 0..<length {
      let byte = take(8)
      guard heldCount >= 0 else { return false }
      guard filled < out.count else {
        isFull = true
        return true
      }
      out[filled] = UInt8(truncatingIfNeeded: byte)
      filled += 1
    }
    return true
  }

  private static let fixedLiterals =
    [UInt8](repeating: 8, count: 144) + [UInt8](repeating: 9, count: 112) + [UInt8](repeating: 7, count: 24)
    + [UInt8](repeating: 8, count: 8)
  private static let fixedDistances = [UInt8](repeating: 5, count: 30)
  private static let lengthOrder = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15]

  private mutating func readTables() -> (literals: CodeTable, distances: CodeTable)? {
    let (literals, distances, orders) = (take(5) + 257, take(5) + 1, take(4) + 4)
    guard literals <= 286, distances <= 30 else { return nil }
    var orderLengths = [UInt8](repeating: 0, count: 19)
    for index in 0..<orders { orderLengths[Self.lengthOrder[index]] = UInt8(take(3)) }
    guard heldCount >= 0, let order = CodeTable(orderLengths[...]) else { return nil }
    var lengths: [UInt8] = []
    while lengths.count < literals + distances {
      guard let symbol = symbol(order) else { return nil }
      switch symbol {
      case 0...15: lengths.append(UInt8(symbol))
      case 16:
        guard let last = lengths.last else { return nil }
        lengths += repeatElement(last, count: 3 + take(2))
      case 17: lengths += repeatElement(0, count: 3 + take(3))
      default: lengths += repeatElement(0, count: 11 + take(7))
      }
    }
    guard lengths.count == literals + distances, lengths[256] > 0,
      let first = CodeTable(lengths[..<literals]), let second = CodeTable(lengths[literals...])
    else { return nil }
    return (first, second)
  }

  private static let lengthBase = [
    3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195,
    227, 258,
  ]
  private static let lengthBits = [
    0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0,
  ]
  private static let distanceBase = [
    1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537, 2049, 3073,
    4097, 6145,
    8193, 12289, 16385, 24577,
  ]
  private static let distanceBits = [
    0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13,
  ]

  /// One block of literals and matches.
  private mutating func expand(_ literals: CodeTable, _ distances: CodeTable) -> Bool {
    while true {
      guard let symbol = symbol(literals) else { return false }
      if symbol == 256 { return true }
      guard filled < out.count else {
        isFull = true
        return true
      }
      if symbol < 256 {
        out[filled] = UInt8(symbol)
        filled += 1
        continue
      }
      guard symbol - 257 < Self.lengthBase.count else { return false }
      let wanted = Self.lengthBase[symbol - 257] + take(Self.lengthBits[symbol - 257])
      guard let code = self.symbol(distances), code < Self.distanceBase.count else { return false }
      let distance = Self.distanceBase[code] + take(Self.distanceBits[code])
      guard heldCount >= 0, distance <= filled else { return false }
      let length = min(wanted, out.count - filled)
      for index in filled..<filled + length { out[index] = out[index - distance] }
      filled += length
      if length < wanted {
        isFull = true
        return true
      }
    }
  }
}
