// Big-endian and little-endian numbers out of bytes, with every read checked.

struct ByteReader {
  let bytes: [UInt8]
  private(set) var at: Int
  let end: Int

  init(_ bytes: [UInt8], in range: Range<Int>? = nil) {
    self.bytes = bytes
    let range = (range ?? bytes.indices).clamped(to: bytes.indices)
    at = range.lowerBound
    end = range.upperBound
  }

  var left: Int { end - at }

  mutating func byte() -> Int? {
    guard at < end else { return nil }
    at += 1
    return Int(bytes[at - 1])
  }

  /// `count` bytes as a number, at most 4.
  mutating func number(_ count: Int, isLittle: Bool = false) -> Int? {
    guard left >= count else { return nil }
    var value = 0
    for index in 0..<count {
      value |= Int(bytes[at + index]) << (8 * (isLittle ? index : count - 1 - index))
    }
    at += count
    return value
  }

  /// The range of the next `count` bytes, which are skipped.
  mutating func skip(_ count: Int) -> Range<Int>? {
    guard count >= 0, count <= left else { return nil }
    at += count
    return at - count..<at
  }

  mutating func move(to offset: Int) -> Bool {
    guard offset >= 0, offset <= end else { return false }
    at = offset
    return true
  }
}
