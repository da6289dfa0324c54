// Field lines, byte by byte: the header section of a request and the trailer section of a chunked body.
//
// RFC 9112 section 5, read strictly: CRLF only, no folding, no space before the colon, no control bytes.
// Every error is found at the byte that makes it, so nothing after it can be read as something else.

struct FieldLines {
  enum Step: Equatable { case more, field, end }

  private enum State { case lineStart, name, beforeValue, value, lineFeed, lastLineFeed }

  private(set) var headers = Headers()
  /// All bytes fed so far, line ends included.
  private(set) var totalBytes: Int

  private let lineLimit: Int
  private let countLimit: Int
  private let totalLimit: Int
  private var state = State.lineStart
  private var name: [UInt8] = []
  private var value: [UInt8] = []
  private var lineBytes = 0

  /// - Parameter alreadyRead: bytes that count against `totalLimit` before the first line.
  init(lineLimit: Int, countLimit: Int, totalLimit: Int, alreadyRead: Int = 0) {
    (self.lineLimit, self.countLimit, self.totalLimit) = (lineLimit, countLimit, totalLimit)
    totalBytes = alreadyRead
  }

  /// Takes one byte. `.field`: a line is complete and its field is the last of `headers`. `.end`: the empty line.
  mutating func feed(_ byte: UInt8) throws(HTTPError) -> Step {
    totalBytes += 1
    guard totalBytes <= totalLimit else {
      throw .headersTooLarge("header lines have more than \(totalLimit) bytes together")
    }
    switch state {
    case .lineStart:
      if byte == ASCII.carriageReturn {
        state = .lastLineFeed
        return .more
      }
      guard ASCII.isToken(byte) else { throw .malformed(Self.words(lineStart: byte)) }
      guard headers.fields.count < countLimit else {
        throw .headersTooLarge("header has more than \(countLimit) lines")
      }
      name.append(byte)
      lineBytes = 1
      state = .name
    case .name: try readName(byte)
    case .beforeValue where ASCII.isBlank(byte): try countLineByte()
    case .beforeValue, .value: return try readValue(byte)
    case .lineFeed:
      guard byte == ASCII.lineFeed else { throw .malformed("a carriage return without a line feed") }
      state = .lineStart
    case .lastLineFeed:
      guard byte == ASCII.lineFeed else { throw .malformed("a carriage return without a line feed") }
      return .end
    }
    return .more
  }

  private mutating func readName(_ byte: UInt8) throws(HTTPError) {
    try countLineByte()
    if byte == UInt8(ascii: ":") {
      state = .beforeValue
    } else {
      guard ASCII.isToken(byte) else { throw .malformed("a byte that a header name must not contain") }
      name.append(byte)
    }
  }

  private mutating func readValue(_ byte: UInt8) throws(HTTPError) -> Step {
    if byte == ASCII.carriageReturn {
      while let last = value.last, ASCII.isBlank(last) { value.removeLast() }
      headers.append(String(decoding: name, as: UTF8.self), value)
      name.removeAll(keepingCapacity: true)
      value.removeAll(keepingCapacity: true)
      state = .lineFeed
      return .field
    }
    guard ASCII.isFieldValue(byte) else { throw .malformed("a control byte in a header value") }
    try countLineByte()
    value.append(byte)
    state = .value
    return .more
  }

  private mutating func countLineByte() throws(HTTPError) {
    lineBytes += 1
    guard lineBytes <= lineLimit else {
      throw .headersTooLarge("header has a line of more than \(lineLimit) bytes")
    }
  }

  private static func words(lineStart byte: UInt8) -> String {
    switch byte {
    case ASCII.space, ASCII.tab: "a folded or indented header line"
    case UInt8(ascii: ":"): "a header line without a name"
    default: "a byte that a header name must not contain"
    }
  }
}
