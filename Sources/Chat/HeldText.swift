// Text that has come and is not given out yet.

/// A queue of bytes: text is added at its end and taken from its beginning. Indices of bytes stay while others are
/// added and taken.
///
/// White space is held back until it is known what follows it, and there may be no end of it: what is known to be
/// white space is not looked at again when more text comes.
struct HeldText: Sendable {
  private(set) var bytes: ArraySlice<UInt8> = []
  /// Everything before this index is white space.
  private var blankEnd = 0

  var isEmpty: Bool { bytes.isEmpty }

  mutating func append(_ more: [UInt8]) { bytes += more }

  /// The text from its first byte that is not white space.
  mutating func text() -> ArraySlice<UInt8> {
    blankEnd = max(blankEnd, bytes.startIndex)
    while blankEnd < bytes.endIndex, Bytes.isSpace(bytes[blankEnd]) { blankEnd += 1 }
    return bytes[blankEnd...]
  }

  /// Takes the bytes before `index` away.
  mutating func drop(before index: Int) { bytes = bytes[index...] }

  /// Takes white space at the beginning away.
  mutating func dropSpace() { bytes = text() }

  mutating func removeAll() { bytes = bytes.suffix(0) }

  /// Everything but the last `count` bytes and the white space in front of them.
  ///
  /// - Parameter count: at most that of the bytes in `text()`.
  mutating func certain(keeping count: Int) -> ArraySlice<UInt8> {
    let rest = text()
    return count < rest.count ? Bytes.trimmedEnd(bytes.dropLast(count)) : bytes.prefix(0)
  }
}
