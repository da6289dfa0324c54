// What Python's `str.isspace` calls whitespace, on UTF-8 bytes.

enum Whitespace {
  /// Bytes of the whitespace character that starts at `index`; 0 when none does.
  static func length(in bytes: [UInt8], at start: Int) -> Int {
    let left = bytes.count - start
    switch bytes[start] {
    case 0x09...0x0D, 0x1C...0x20: return 1
    case 0xC2 where left >= 2: return bytes[start + 1] == 0x85 || bytes[start + 1] == 0xA0 ? 2 : 0
    case 0xE1...0xE3 where left >= 3:
      return isWide(bytes[start], bytes[start + 1], bytes[start + 2]) ? 3 : 0
    default: return 0
    }
  }

  /// Bytes of the whitespace character that ends right before `end`; 0 when none does.
  static func length(in bytes: [UInt8], before end: Int) -> Int {
    guard end > 0 else { return 0 }
    for length in 1...3 where end >= length {
      let start = end - length
      if bytes[start] & 0xC0 != 0x80 { return self.length(in: bytes, at: start) == length ? length : 0 }
    }
    return 0
  }

  /// U+1680, U+2000 to U+200A, U+2028, U+2029, U+202F, U+205F, U+3000.
  private static func isWide(_ first: UInt8, _ second: UInt8, _ third: UInt8) -> Bool {
    switch (first, second, third) {
    case (0xE1, 0x9A, 0x80), (0xE2, 0x80, 0x80...0x8A), (0xE2, 0x80, 0xA8), (0xE2, 0x80, 0xA9),
      (0xE2, 0x80, 0xAF), (0xE2, 0x81, 0x9F), (0xE3, 0x80, 0x80):
      true
    default: false
    }
  }
}
