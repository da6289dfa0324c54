// Reads elements off the front of a call's text.

/// White space between elements is passed over.
struct ElementReader {
  private var bytes: ArraySlice<UInt8>

  init(_ bytes: [UInt8]) { self.bytes = bytes[...] }

  /// Whether nothing but white space is left.
  var isAtEnd: Bool { Bytes.isSpace(bytes) }

  /// Passes over white space and this tag; false, and nothing passed, when something else stands there.
  mutating func skip(_ tag: String) -> Bool {
    let text = bytes.drop { Bytes.isSpace($0) }
    guard text.starts(with: tag.utf8) else { return false }
    bytes = text.dropFirst(tag.utf8.count)
    return true
  }

  /// The text up to a tag, which stays; nil when there is none.
  mutating func text(before tag: String) -> [UInt8]? {
    guard let end = Bytes.find(tag, in: bytes) else { return nil }
    defer { bytes = bytes[end...] }
    return Array(bytes[..<end])
  }

  /// All that is left.
  mutating func rest() -> [UInt8] {
    defer { bytes = bytes.suffix(0) }
    return Array(bytes)
  }
}
