// The chunked transfer coding of a request body, strictly by its grammar (RFC 9112 section 7.1).

struct ChunkedDecoder {
  private enum State {
    case sizeStart, size, blankAfterSize
    case extensionName, extensionNameRest, blankAfterName
    case extensionValue, token, quoted, quotedPair, blankAfterValue
    case sizeLineFeed
    case data, dataEnd, dataLineFeed
    case trailers
  }

  /// More digits than this cannot be a size that fits.
  private static let digitLimit = 16

  private let limits: Limits
  private var state = State.sizeStart
  private var remaining = 0
  private var digits = 0
  private var bodyBytes = 0
  private var extensionBytes = 0
  private var trailers: FieldLines

  init(limits: Limits) {
    self.limits = limits
    trailers = FieldLines(
      lineLimit: limits.fieldLineBytes, countLimit: limits.fieldCount, totalLimit: limits.trailerBytes)
  }

  /// Decodes `input` from `position` on, which moves past what was used.
  ///
  /// - Parameter keep: false to check the framing and drop the data.
  /// - Returns: true when the coding has ended; trailers have been checked and dropped.
  mutating func decode(
    _ input: [UInt8], from position: inout Int, into body: inout [UInt8], keep: Bool
  ) throws(HTTPError) -> Bool {
    while position < input.count {
      if case .data = state {
        let count = min(remaining, input.count - position)
        if keep { body += input[position..<(position + count)] }
        position += count
        remaining -= count
        if remaining == 0 { state = .dataEnd }
        continue
      }
      let byte = input[position]
      position += 1
      if case .trailers = state {
        if try trailers.feed(byte) == .end { return true }
      } else {
        try step(byte)
      }
    }
    return false
  }

  private mutating func step(_ byte: UInt8) throws(HTTPError) {
    switch state {
    case .sizeStart, .size, .blankAfterSize: try readSize(byte)
    case .sizeLineFeed:
      guard byte == ASCII.lineFeed else { throw .malformed("a carriage return without a line feed") }
      state = remaining == 0 ? .trailers : .data
      digits = 0
    case .dataEnd:
      guard byte == ASCII.carriageReturn else { throw .malformed("a chunk longer than its size") }
      state = .dataLineFeed
    case .dataLineFeed:
      guard byte == ASCII.lineFeed else { throw .malformed("a carriage return without a line feed") }
      state = .sizeStart
    default:
      extensionBytes += 1
      guard extensionBytes <= limits.chunkExtensionBytes else {
        throw .malformed("too long chunk extensions")
      }
      try readExtension(byte)
    }
  }

  private mutating func readSize(_ byte: UInt8) throws(HTTPError) {
    if case .blankAfterSize = state {
      if ASCII.isBlank(byte) { return try countBlank() }
      guard byte == UInt8(ascii: ";") else { throw .malformed("an invalid chunk size") }
      state = .extensionName
      return
    }
    if let value = ASCII.hexValue(byte) {
      digits += 1
      // 15 digits always fit; the 16th may not.
      let (product, tooLarge) = remaining.multipliedReportingOverflow(by: 16)
      guard digits <= Self.digitLimit, !tooLarge else { throw .malformed("an invalid chunk size") }
      remaining = product | value
      state = .size
      return
    }
    guard case .size = state else { throw .malformed("an invalid chunk size") }
    switch byte {
    case ASCII.carriageReturn: try endSize()
    case UInt8(ascii: ";"): state = .extensionName
    // White space is read before an extension only: bad, but recipients must accept it there.
    case ASCII.space, ASCII.tab:
      try countBlank()
      state = .blankAfterSize
    default: throw .malformed("an invalid chunk size")
    }
  }

  private mutating func countBlank() throws(HTTPError) {
    extensionBytes += 1
    guard extensionBytes <= limits.chunkExtensionBytes else { throw .malformed("too long chunk extensions") }
  }

  /// `";" name [ "=" ( token / quoted-string ) ]`, repeated, with bad white space tolerated around `;` and `=`.
  private mutating func readExtension(_ byte: UInt8) throws(HTTPError) {
    switch (state, byte) {
    case (.extensionName, _) where ASCII.isBlank(byte): break
    case (.extensionName, _) where ASCII.isToken(byte): state = .extensionNameRest
    case (.extensionNameRest, _) where ASCII.isToken(byte): break
    case (.extensionNameRest, ASCII.space), (.extensionNameRest, ASCII.tab): state = .blankAfterName
    case (.blankAfterName, ASCII.space), (.blankAfterName, ASCII.tab): break
    case (.extensionNameRest, UInt8(ascii: "=")), (.blankAfterName, UInt8(ascii: "=")):
      state = .extensionValue
    case (.extensionValue, _) where ASCII.isBlank(byte): break
    case (.extensionValue, UInt8(ascii: "\"")): state = .quoted
    case (.extensionValue, _) where ASCII.isToken(byte): state = .token
    case (.token, _) where ASCII.isToken(byte): break
    case (.quoted, UInt8(ascii: "\"")): state = .blankAfterValue
    case (.quoted, UInt8(ascii: "\\")): state = .quotedPair
    case (.quoted, _) where ASCII.isFieldValue(byte): break
    case (.quotedPair, _) where ASCII.isFieldValue(byte): state = .quoted
    case (.token, ASCII.space), (.token, ASCII.tab): state = .blankAfterValue
    case (.blankAfterValue, ASCII.space), (.blankAfterValue, ASCII.tab): break
    case (.extensionNameRest, UInt8(ascii: ";")), (.blankAfterName, UInt8(ascii: ";")),
      (.token, UInt8(ascii: ";")), (.blankAfterValue, UInt8(ascii: ";")):
      state = .extensionName
    case (.extensionNameRest, ASCII.carriageReturn), (.token, ASCII.carriageReturn),
      (.blankAfterValue, ASCII.carriageReturn):
      try endSize()
    default: throw .malformed("an invalid chunk extension")
    }
  }

  private mutating func endSize() throws(HTTPError) {
    let (sum, overflow) = bodyBytes.addingReportingOverflow(remaining)
    guard !overflow, sum <= limits.bodyBytes else { throw .bodyTooLarge(limit: limits.bodyBytes) }
    bodyBytes = sum
    state = .sizeLineFeed
  }
}
