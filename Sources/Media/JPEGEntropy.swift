// Bits of a JPEG scan: Huffman tables, stuffed bytes, markers.

/// A table of codes of at most 16 bits.
struct HuffmanTable {
  /// The symbol and length of codes of at most `fastBits`: `symbol << 8 | length`, 0 for longer ones.
  private(set) var fast: [UInt16]
  /// Largest code of each length, -1 where there is none.
  private var largest = [Int](repeating: -1, count: 18)
  /// What leads from a code of each length to its symbol.
  private var offset = [Int](repeating: 0, count: 18)
  private let symbols: [UInt8]

  static let fastBits = 10

  /// - Parameter counts: codes of the lengths 1 to 16.
  /// - Returns: nil when there are more codes than the lengths allow.
  init?(_ counts: [Int], symbols: [UInt8]) {
    guard symbols.count <= 256 else { return nil }
    self.symbols = symbols
    fast = [UInt16](repeating: 0, count: 1 << Self.fastBits)
    var code = 0
    var index = 0
    for length in 1...16 {
      offset[length] = index - code
      guard code + counts[length - 1] <= 1 << length else { return nil }
      for _ in 0..<counts[length - 1] {
        if length <= Self.fastBits {
          let first = code << (Self.fastBits - length)
          let entry = UInt16(symbols[index]) << 8 | UInt16(length)
          for slot in first..<first + 1 << (Self.fastBits - length) { fast[slot] = entry }
        }
        code += 1
        index += 1
      }
      if counts[length - 1] > 0 { largest[length] = code - 1 }
      code <<= 1
    }
  }

  /// The symbol that the 16 bits begin with, for codes that the fast table lacks.
  func find(_ bits: Int) -> (symbol: Int, length: Int)? {
    for length in HuffmanTable.fastBits + 1...16 {
      let code = bits >> (16 - length)
      if code <= largest[length] { return (Int(symbols[code + offset[length]]), length) }
    }
    return nil
  }
}

/// The entropy-coded bytes of a scan, bit by bit.
struct EntropyReader {
  private let bytes: [UInt8]
  private var at: Int
  private var held: UInt64 = 0
  private var heldCount = 0
  /// Zeros that stand for bytes after the end.
  private var padding = 0

  init(_ bytes: [UInt8], from start: Int) {
    self.bytes = bytes
    at = start
  }

  /// Where the next marker is looked for.
  var position: Int { at }

  /// Whether bits were used that are not there.
  var isExhausted: Bool { heldCount < padding }

  private mutating func fill() {
    while heldCount <= 48 {
      var byte: UInt8 = 0
      if at < bytes.count, bytes[at] != 0xFF {
        byte = bytes[at]
        at += 1
      } else if at + 1 < bytes.count, bytes[at + 1] == 0 {
        byte = 0xFF
        at += 2
      } else {
        padding += 8
      }
      held = held << 8 | UInt64(byte)
      heldCount += 8
    }
  }

  /// The next `count` bits, at most 16.
  mutating func bits(_ count: Int) -> Int {
    if heldCount < count { fill() }
    heldCount -= count
    return Int(truncatingIfNeeded: held >> UInt64(heldCount)) & (1 << count - 1)
  }

  mutating func bit() -> Bool { bits(1) == 1 }

  /// The next symbol; nil for bits that are no code.
  mutating func symbol(_ table: HuffmanTable) -> Int? {
    if heldCount < 16 { fill() }
    let next = Int(truncatingIfNeeded: held >> UInt64(heldCount - 16)) & 0xFFFF
    let entry = table.fast[next >> (16 - HuffmanTable.fastBits)]
    if entry != 0 {
      heldCount -= Int(entry & 0xFF)
      return Int(entry >> 8)
    }
    guard let found = table.find(next) else { return nil }
    heldCount -= found.length
    return found.symbol
  }

  /// A value of `count` bits, negative ones stored as their distance from the smallest (T.81 F.2.2.1).
  mutating func value(_ count: Int) -> Int {
    if count == 0 { return 0 }
    let value = bits(count)
    return value < 1 << (count - 1) ? value - (1 << count) + 1 : value
  }

  /// Steps over the restart marker with this number; false when it is not there.
  mutating func restart(_ number: Int) -> Bool {
    heldCount = 0
    padding = 0
    held = 0
    // Fill bytes may stand before a marker.
    while at + 1 < bytes.count, bytes[at] == 0xFF, bytes[at + 1] == 0xFF { at += 1 }
    guard at + 1 < bytes.count, bytes[at] == 0xFF, Int(bytes[at + 1]) == 0xD0 + number else { return false }
    at += 2
    return true
  }
}
