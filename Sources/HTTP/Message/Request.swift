// A request as the handler sees it.

/// A request with its whole body.
package struct Request: Sendable {
  /// As sent: `GET`.
  package var method: String
  package var target: RequestTarget
  /// 0 for HTTP/1.0, 1 for HTTP/1.1 and later.
  package var minorVersion: Int
  package var headers: Headers
  /// The whole body, without its transfer coding.
  package var body: [UInt8]
  /// Set by the router: what stood at the `:name` segments of the pattern.
  package var parameters: [(name: String, value: String)] = []

  /// The path as sent, without the query.
  package var path: String { target.path }

  /// What stood at `:name` in the route's pattern, percent-decoded.
  package func parameter(_ name: String) -> String? { parameters.first { $0.name == name }?.value }

  /// The host and port the request is for: the authority of an absolute target, else the host field. Lower
  /// case, without brackets; nil in an HTTP/1.0 request that names none.
  package var host: (name: String, port: Int?)? {
    let text = target.authority.map { String(decoding: $0, as: UTF8.self) } ?? headers["host"]
    return text.flatMap { Authority.parse($0) }.map { (name: $0.host, port: $0.port) }
  }

  /// The first value of `name` in the query, decoded as a form (`+` is a space); nil when absent.
  ///
  /// A percent sign that begins no escape stands for itself; bytes that are not UTF-8 become U+FFFD.
  package func query(_ name: String) -> String? { queries(name).first }

  /// All values of `name` in the query, in order.
  package func queries(_ name: String) -> [String] {
    queryItems.filter { $0.name.utf8.elementsEqual(name.utf8) }.map(\.value)
  }

  /// All names and values of the query, in order.
  package var queryItems: [(name: String, value: String)] {
    Array((target.query ?? "").utf8).split(separator: UInt8(ascii: "&")).map { item in
      let parts = item.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
      let value = parts.count > 1 ? Self.formDecoded(parts[1]) : []
      return (
        String(decoding: Self.formDecoded(parts[0]), as: UTF8.self), String(decoding: value, as: UTF8.self)
      )
    }
  }

  /// A request made in code: for tests and for routes called without a socket.
  ///
  /// - Throws: `HTTPError.malformed` when `target` is not a request target.
  package init(
    _ method: String, _ target: String, headers: Headers = [:], body: [UInt8] = []
  ) throws(HTTPError) {
    self.method = method
    self.target = try RequestTarget(Array(target.utf8), method: method)
    minorVersion = 1
    (self.headers, self.body) = (headers, body)
  }

  init(method: String, target: RequestTarget, minorVersion: Int, headers: Headers) {
    (self.method, self.target, self.minorVersion) = (method, target, minorVersion)
    self.headers = headers
    body = []
  }

  /// Whether the client wants the connection to stay open after the response (RFC 9112 section 9.3).
  var keepsAlive: Bool {
    if headers.hasToken("close", in: "connection") { return false }
    return minorVersion > 0 || headers.hasToken("keep-alive", in: "connection")
  }

  private static func formDecoded(_ bytes: ArraySlice<UInt8>) -> [UInt8] {
    let spaced = bytes.map { $0 == UInt8(ascii: "+") ? ASCII.space : $0 }
    return RequestTarget.percentDecoded(spaced[...]) ?? spaced
  }
}
