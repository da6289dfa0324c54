// Where a body ends and what else the head decides, judged field by field (RFC 9112 sections 3.2 and 6).
//
// Two readings of one message are how requests are smuggled past a proxy, so every doubt is an error here:
// length and coding together, either of them twice, a coding that is not exactly `chunked`.

struct Framing {
  enum BodyLength: Equatable {
    case fixed(Int)
    case chunked
  }

  /// Fields that must not come twice: a proxy might use the other one.
  private static let single = [
    "host", "content-length", "transfer-encoding", "authorization", "x-api-key", "content-type", "origin",
    "expect",
  ]

  private(set) var expectsContinue = false
  private var seen: Set<Int> = []
  private var length: Int?
  private var isChunked = false

  /// Judges one complete field.
  mutating func read(_ field: Headers.Field) throws(HTTPError) {
    guard let index = Self.single.firstIndex(where: field.isNamed) else { return }
    guard seen.insert(index).inserted else {
      throw .malformed("two \(Self.single[index]) fields")
    }
    switch Self.single[index] {
    case "host":
      guard Authority.isValid(field.value[...]) else { throw .malformed("an invalid host") }
    case "content-length":
      guard let value = ASCII.decimal(field.value) else {
        throw .malformed("a content-length that is not a number")
      }
      length = value
    case "transfer-encoding":
      try Self.checkCoding(field.value)
      isChunked = true
    default: break
    }
    guard length == nil || !isChunked else {
      throw .malformed("both content-length and transfer-encoding")
    }
  }

  /// Judges the whole head.
  mutating func finish(
    _ headers: Headers, minorVersion: Int, limits: Limits
  ) throws(HTTPError) -> BodyLength {
    if minorVersion == 0 {
      guard !isChunked else { throw .malformed("transfer-encoding in an HTTP/1.0 request") }
    } else {
      guard headers.contains("host") else { throw .malformed("no host field") }
      if let expectation = headers.first("expect") {
        guard ASCII.equalIgnoringCase(expectation.value, "100-continue".utf8) else {
          throw .unsupportedExpectation
        }
        expectsContinue = true
      }
    }
    if isChunked { return .chunked }
    let length = length ?? 0
    guard length <= limits.bodyBytes else { throw .bodyTooLarge(limit: limits.bodyBytes) }
    return .fixed(length)
  }

  /// Accepts `chunked` alone. Other codings before a final `chunked` are legal but not read here.
  private static func checkCoding(_ value: [UInt8]) throws(HTTPError) {
    if ASCII.equalIgnoringCase(value, "chunked".utf8) { return }
    let codings = value.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false)
      .map(ASCII.trimmed)
    let chunked = codings.filter { ASCII.equalIgnoringCase($0, "chunked".utf8) }
    guard chunked.count == 1, let last = codings.last, ASCII.equalIgnoringCase(last, "chunked".utf8),
      codings.allSatisfy({ !$0.isEmpty && $0.allSatisfy(ASCII.isToken) })
    else { throw .malformed("a transfer-encoding that is not chunked") }
    throw .unsupportedCoding
  }
}
