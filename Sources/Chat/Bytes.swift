// Searching and trimming UTF-8 bytes; markers and whitespace are ASCII, so cuts never split a character.

/// A set of bytes.
struct ByteSet: Sendable {
  private var words = SIMD4<UInt64>.zero

  func contains(_ byte: UInt8) -> Bool { words[Int(byte >> 6)] >> UInt64(byte & 63) & 1 == 1 }

  mutating func insert(_ byte: UInt8) { words[Int(byte >> 6)] |= 1 << UInt64(byte & 63) }
}

enum Bytes {
  static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || (0x09...0x0D).contains(byte) }

  static func isSpace(_ bytes: some Sequence<UInt8>) -> Bool { bytes.allSatisfy(isSpace) }

  /// Index of the first `part` at or after `start`.
  static func find(_ part: [UInt8], in bytes: ArraySlice<UInt8>, from start: Int? = nil) -> Int? {
    guard let first = part.first else { return nil }
    var at = max(bytes.startIndex, start ?? bytes.startIndex)
    while at <= bytes.endIndex - part.count {
      if bytes[at] == first, bytes[at..<at + part.count].elementsEqual(part) { return at }
      at += 1
    }
    return nil
  }

  static func find(_ part: String, in bytes: ArraySlice<UInt8>, from start: Int? = nil) -> Int? {
    find(Array(part.utf8), in: bytes, from: start)
  }

  /// Length of the longest end of `bytes` that begins `marker` without being all of it.
  static func heldBack(of bytes: ArraySlice<UInt8>, before marker: [UInt8]) -> Int {
    var length = min(marker.count - 1, bytes.count)
    while length > 0 {
      if bytes.suffix(length).elementsEqual(marker.prefix(length)) { return length }
      length -= 1
    }
    return 0
  }

  /// Without whitespace at the end.
  static func trimmedEnd(_ bytes: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
    guard let last = bytes.lastIndex(where: { !isSpace($0) }) else { return bytes.prefix(0) }
    return bytes[...last]
  }

  /// Without whitespace at both ends.
  static func trimmed(_ bytes: [UInt8]) -> [UInt8] {
    guard let first = bytes.firstIndex(where: { !isSpace($0) }),
      let last = bytes.lastIndex(where: { !isSpace($0) })
    else { return [] }
    return Array(bytes[first...last])
  }

  static func text(_ bytes: some Collection<UInt8>) -> String { String(decoding: bytes, as: UTF8.self) }

  static func contains(_ text: String, _ part: String) -> Bool {
    find(part, in: Array(text.utf8)[...]) != nil
  }
}
