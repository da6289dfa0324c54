// An http or https URL, taken apart strictly and put together again: what is checked is what is fetched.
//
// Programs disagree about URLs that are not quite right, and such differences are how a check is passed by. So the URL
// that is fetched is never the client's text: it is written anew from the parts that were understood.

import HTTP

/// What was understood of a URL.
package struct WebURL: Sendable, Equatable {
  package let isSecure: Bool
  /// In lower case, without a final dot; an IPv6 address without brackets.
  package let host: String
  package let port: Int
  /// Path and query, percent-encoded.
  package let target: String

  /// Longest URL, bytes.
  private static let lengthLimit = 8192

  package init(_ text: String) throws(FetchError) {
    guard text.utf8.count <= Self.lengthLimit else {
      throw .badURL("it is longer than \(Self.lengthLimit) bytes")
    }
    let bytes = Array(text.utf8)
    guard let (isSecure, start) = Self.scheme(bytes) else {
      throw .badURL("it begins with no 'http://' or 'https://'")
    }
    guard bytes.allSatisfy({ $0 > 0x20 && $0 != 0x7F && $0 != UInt8(ascii: "\\") }) else {
      throw .badURL("it holds a space, a backslash or a control character")
    }
    let rest = bytes[start...].prefix { $0 != UInt8(ascii: "#") }
    let ends: [UInt8] = [UInt8(ascii: "/"), UInt8(ascii: "?")]
    let authority = rest.prefix { !ends.contains($0) }
    guard !authority.contains(UInt8(ascii: "@")) else {
      throw .badURL("it holds a user's name; leave it out")
    }
    guard let place = Authority.parse(String(decoding: authority, as: UTF8.self)),
      let host = Self.host(place.host, inBrackets: authority.first == UInt8(ascii: "[")), place.port != 0
    else { throw .badURL("its host is neither a name in ASCII nor an address as 192.0.2.1 or [2001:db8::1]") }
    (self.isSecure, self.host) = (isSecure, host)
    port = place.port ?? (isSecure ? 443 : 80)
    let target = rest.dropFirst(authority.count)
    self.target = (target.first == UInt8(ascii: "/") ? "" : "/") + Self.encoded(target)
  }

  /// The URL as it is fetched.
  package var text: String { origin + target }

  /// What `Location` says in an answer from here (RFC 9110 section 10.2.2): a whole URL, or one that begins with `//` or
  /// `/`. Paths without a slash are refused.
  package func target(of location: String) throws(FetchError) -> WebURL {
    if location.utf8.starts(with: "//".utf8) { return try WebURL((isSecure ? "https:" : "http:") + location) }
    guard location.utf8.first == UInt8(ascii: "/") else { return try WebURL(location) }
    return try WebURL(origin + location)
  }

  /// Scheme, host and port.
  package var origin: String {
    "\(isSecure ? "https" : "http")://\(Endpoint(address: host, port: port))"
  }

  /// Whether the host stands for this machine by its name.
  package var isLoopback: Bool {
    host.utf8.elementsEqual("localhost".utf8) || host.hasSuffix(".localhost")
      || host.utf8.elementsEqual("::1".utf8)
      || host.utf8.elementsEqual("0.0.0.0".utf8) || host.utf8.elementsEqual("::".utf8)
      || (host.hasPrefix("127.") && Authority.isNumeric(host))
  }

  /// Which scheme the URL has, and where the rest begins.
  private static func scheme(_ bytes: [UInt8]) -> (isSecure: Bool, start: Int)? {
    for (scheme, isSecure) in [("http://", false), ("https://", true)] {
      let head = bytes.prefix(scheme.utf8.count).map { (0x41...0x5A).contains($0) ? $0 | 0x20 : $0 }
      if head.elementsEqual(scheme.utf8) { return (isSecure, head.count) }
    }
    return nil
  }

  /// A host as `Authority` returns it, if it can be read in one way only.
  private static func host(_ text: String, inBrackets: Bool) -> String? {
    var bytes = Array(text.utf8)
    if inBrackets {
      // No zone: it would choose an interface of this machine.
      return Authority.isNumeric(text) && !bytes.contains(UInt8(ascii: "%")) ? text : nil
    }
    if bytes.last == UInt8(ascii: ".") { bytes.removeLast() }
    let labels = bytes.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
    guard bytes.count <= 253, labels.allSatisfy({ (1...63).contains($0.count) && $0.allSatisfy(isNameByte) }),
      let last = labels.last
    else { return nil }
    let plain = String(decoding: bytes, as: UTF8.self)
    // A last label that is a number makes an address of the whole, of which there are strange forms (0x7f.1, 017700000001).
    guard last.first.map(isDigit) == true else { return plain }
    let isPlain = labels.allSatisfy { $0.count == 1 || $0.first != UInt8(ascii: "0") }
    return Authority.isNumeric(plain) && isPlain ? plain : nil
  }

  private static func isDigit(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) }

  private static func isNameByte(_ byte: UInt8) -> Bool {
    isDigit(byte) || (0x61...0x7A).contains(byte) || byte == UInt8(ascii: "-") || byte == UInt8(ascii: "_")
  }

  /// What RFC 3986 does not let stand in a path or query, percent-encoded.
  private static func encoded(_ bytes: ArraySlice<UInt8>) -> String {
    let strange: [UInt8] = Array("\"<>[]^`{|}".utf8)
    var out: [UInt8] = []
    for byte in bytes {
      if byte < 0x7F && !strange.contains(byte) {
        out.append(byte)
      } else {
        out += Array("%".utf8) + Array(String(byte, radix: 16, uppercase: true).utf8)
      }
    }
    return String(decoding: out, as: UTF8.self)
  }
}
