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

  /// JSON up to a tag that stands in no string of it; the tag stays. Nil when there is none.
  mutating func json(before tag: String) -> [UInt8]? {
    let tag = Array(tag.utf8)
    var isQuoted = false
    var at = bytes.startIndex
    while at < bytes.endIndex {
      if !isQuoted, bytes[at...].starts(with: tag) {
        defer { bytes = bytes[at...] }
        return Array(bytes[..<at])
      }
      if bytes[at] == UInt8(ascii: "\"") { isQuoted.toggle() }
      at += isQuoted && bytes[at] == UInt8(ascii: "\\") ? 2 : 1
    }
    return nil
  }

  /// What is left of a text that ended early, without what may be the beginning of this tag.
  mutating func rest(before tag: String) -> String {
    let rest = rest()
    return Bytes.text(rest.dropLast(Bytes.heldBack(of: rest[...], before: Array(tag.utf8))))
  }

  /// Whether nothing is left, or the beginning of a tag.
  func isCut(in tag: String) -> Bool { tag.utf8.starts(with: bytes.drop { Bytes.isSpace($0) }) }

  /// All that is left.
  mutating func rest() -> [UInt8] {
    defer { bytes = bytes.suffix(0) }
    return Array(bytes)
  }
}
