// The request target taken apart: origin form, absolute form or `*` (RFC 9112 section 3.2).

/// A target whose path is decoded segment by segment, after splitting: `%2F` stays inside its segment.
/// Dot segments are left as they are: nothing here is a file, and no route is named `..`.
package struct RequestTarget: Sendable, Equatable {
  /// The path as sent, without the query: `/v1/models/org%2Fm`, or `*`.
  package let path: String
  /// Decoded segments of the path: `["v1", "models", "org/m"]`; a trailing slash makes a last empty one.
  package let segments: [String]
  /// The query as sent, without `?`; nil when there is none.
  package let query: String?
  /// The authority of an absolute-form target, which counts instead of the host field.
  let authority: [UInt8]?

  init(_ target: [UInt8], method: String) throws(HTTPError) {
    var rest = target[...]
    var authority: [UInt8]?
    if rest.elementsEqual([UInt8(ascii: "*")]) {
      guard method == "OPTIONS" else { throw .malformed("the target * with another method than OPTIONS") }
      (path, segments, query, self.authority) = ("*", ["*"], nil, nil)
      return
    }
    if rest.first != UInt8(ascii: "/") {
      let (host, remainder) = try Self.splitAbsolute(rest)
      authority = Array(host)
      rest = remainder
    }
    let mark = rest.firstIndex(of: UInt8(ascii: "?"))
    let pathBytes = rest[..<(mark ?? rest.endIndex)]
    path = pathBytes.isEmpty ? "/" : String(decoding: pathBytes, as: UTF8.self)
    query = mark.map { String(decoding: rest[($0 + 1)...], as: UTF8.self) }
    self.authority = authority
    var segments: [String] = []
    for part in pathBytes.dropFirst().split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false) {
      guard let bytes = Self.percentDecoded(part), !bytes.contains(0),
        let text = String(validating: bytes, as: UTF8.self)
      else { throw .malformed("a percent escape in the path that is not UTF-8 text") }
      segments.append(text)
    }
    self.segments = segments
  }

  /// Cuts `http://authority` off an absolute-form target.
  private static func splitAbsolute(
    _ target: ArraySlice<UInt8>
  ) throws(HTTPError) -> (authority: ArraySlice<UInt8>, rest: ArraySlice<UInt8>) {
    for scheme in ["http://", "https://"]
    where ASCII.equalIgnoringCase(target.prefix(scheme.utf8.count), scheme.utf8) {
      let rest = target.dropFirst(scheme.utf8.count)
      let end = rest.firstIndex { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "?") } ?? rest.endIndex
      guard Authority.isValid(rest[..<end]) else { throw .malformed("an invalid host in the request target") }
      return (rest[..<end], rest[end...])
    }
    throw .malformed("a request target that is neither a path nor an http URL")
  }

  /// The bytes with every `%XX` replaced; nil when a `%` is not followed by two hexadecimal digits.
  package static func percentDecoded(_ bytes: ArraySlice<UInt8>) -> [UInt8]? {
    var out: [UInt8] = []
    out.reserveCapacity(bytes.count)
    var index = bytes.startIndex
    while index < bytes.endIndex {
      if bytes[index] == UInt8(ascii: "%") {
        guard bytes.endIndex - index > 2, let high = ASCII.hexValue(bytes[index + 1]),
          let low = ASCII.hexValue(bytes[index + 2])
        else { return nil }
        out.append(UInt8(high << 4 | low))
        index += 3
      } else {
        out.append(bytes[index])
        index += 1
      }
    }
    return out
  }
}
