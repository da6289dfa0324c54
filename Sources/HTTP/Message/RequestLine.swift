// The request line, byte by byte: `METHOD SP target SP HTTP/1.x CRLF` (RFC 9112 section 3).

struct RequestLine {
  private enum State {
    case start, startLineFeed, method, target
    case version(Int)
    case lineEnd, lineFeed
  }

  /// Longer than every registered method; a longer one is answered without reading to its end.
  private static let methodLimit = 32
  /// Empty lines before the request line that are skipped: some clients end a body with a stray CRLF.
  private static let emptyLineLimit = 4
  private static let prefix = Array("HTTP/".utf8)
  /// Methods this server can route. Others are answered 501 once the line is known to be HTTP.
  private static let methods = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"]

  private(set) var method = ""
  private(set) var target: [UInt8] = []
  /// 0 for HTTP/1.0, 1 for all later minor versions.
  private(set) var minorVersion = 1
  /// Whether any byte has been read, skipped empty lines included.
  private(set) var hasBegun = false

  private let targetLimit: Int
  private var state = State.start
  private var emptyLines = 0
  private var methodBytes: [UInt8] = []

  init(targetLimit: Int) { self.targetLimit = targetLimit }

  /// Bytes of this line that count against the limit of the head.
  var countedBytes: Int { methodBytes.count + target.count + 12 }

  /// Takes one byte; true when the line is complete.
  mutating func feed(_ byte: UInt8) throws(HTTPError) -> Bool {
    hasBegun = true
    switch state {
    case .start:
      if byte == ASCII.carriageReturn && emptyLines < Self.emptyLineLimit {
        state = .startLineFeed
      } else {
        try readMethod(byte)
      }
    case .startLineFeed:
      guard byte == ASCII.lineFeed else { throw .malformed("a carriage return without a line feed") }
      emptyLines += 1
      state = .start
    case .method: try readMethod(byte)
    case .target: try readTarget(byte)
    case .version(let index): try readVersion(byte, at: index)
    case .lineEnd:
      guard byte == ASCII.carriageReturn else { throw .malformed("bytes after the HTTP version") }
      state = .lineFeed
    case .lineFeed:
      guard byte == ASCII.lineFeed else { throw .malformed("a carriage return without a line feed") }
      method = String(decoding: methodBytes, as: UTF8.self)
      guard Self.methods.contains(where: { $0.utf8.elementsEqual(methodBytes) }) else {
        throw .unsupportedMethod
      }
      return true
    }
    return false
  }

  private mutating func readMethod(_ byte: UInt8) throws(HTTPError) {
    if byte == ASCII.space && !methodBytes.isEmpty {
      state = .target
      return
    }
    guard ASCII.isToken(byte) else { throw .malformed("a byte that a method must not contain") }
    guard methodBytes.count < Self.methodLimit else { throw .unsupportedMethod }
    methodBytes.append(byte)
    state = .method
  }

  private mutating func readTarget(_ byte: UInt8) throws(HTTPError) {
    if byte == ASCII.space && !target.isEmpty {
      state = .version(0)
      return
    }
    guard byte > 0x20 && byte < 0x7F && byte != UInt8(ascii: "#") else {
      throw .malformed("a byte that a request target must not contain")
    }
    guard target.count < targetLimit else { throw .targetTooLong(limit: targetLimit) }
    target.append(byte)
  }

  private mutating func readVersion(_ byte: UInt8, at index: Int) throws(HTTPError) {
    switch index {
    case 0..<Self.prefix.count:
      guard byte == Self.prefix[index] else { throw .malformed("no HTTP version after the request target") }
    case 5:
      guard ASCII.isDigit(byte) else { throw .malformed("an HTTP version that is not two digits") }
      guard byte == UInt8(ascii: "1") else { throw .unsupportedVersion }
    case 6:
      guard byte == UInt8(ascii: ".") else { throw .malformed("an HTTP version that is not two digits") }
    default:
      guard ASCII.isDigit(byte) else { throw .malformed("an HTTP version that is not two digits") }
      minorVersion = byte == UInt8(ascii: "0") ? 0 : 1
      state = .lineEnd
      return
    }
    state = .version(index + 1)
  }
}
