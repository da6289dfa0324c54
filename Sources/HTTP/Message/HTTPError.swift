// What this module tells a client whose request it cannot serve: status, code and words.

/// A request that cannot be served, for a reason that has nothing to do with what it asks for.
package enum HTTPError: Error, Equatable, Sendable, CustomStringConvertible {
  /// Bytes that break the grammar or the framing rules of RFC 9112; `what` says which.
  case malformed(String)
  case notFound(path: String)
  case methodNotAllowed(method: String, allowed: [String])
  /// The head did not arrive in time.
  case timeout(String, seconds: Double)
  /// The body brought fewer bytes than it has to.
  case bodyTooSlow(bytesPerSecond: Int, seconds: Double)
  case bodyTooLarge(limit: Int)
  case targetTooLong(limit: Int)
  case unsupportedExpectation
  case headersTooLarge(String)
  case internalError
  case unsupportedMethod
  case unsupportedCoding
  case unsupportedVersion
  case tooManyConnections(limit: Int)
  /// One key has as many connections as it may.
  case tooManyOfKey(limit: Int)
  /// All request bodies together exceed what the server holds in memory.
  case tooManyBodies
  case shuttingDown

  /// The status of the response (RFC 9110 section 15).
  package var status: Int {
    switch self {
    case .malformed: 400
    case .notFound: 404
    case .methodNotAllowed: 405
    case .timeout, .bodyTooSlow: 408
    case .bodyTooLarge: 413
    case .targetTooLong: 414
    case .unsupportedExpectation: 417
    case .tooManyOfKey: 429
    case .headersTooLarge: 431
    case .internalError: 500
    case .unsupportedMethod, .unsupportedCoding: 501
    case .tooManyConnections, .tooManyBodies, .shuttingDown: 503
    case .unsupportedVersion: 505
    }
  }

  /// A stable word for programs.
  package var code: String {
    switch self {
    case .malformed: "bad_http"
    case .notFound: "unknown_url"
    case .methodNotAllowed: "method_not_allowed"
    case .timeout, .bodyTooSlow: "timeout"
    case .bodyTooLarge: "request_too_large"
    case .targetTooLong: "uri_too_long"
    case .unsupportedExpectation: "unsupported_expectation"
    case .headersTooLarge: "headers_too_large"
    case .internalError: "internal"
    case .unsupportedMethod: "unsupported_method"
    case .unsupportedCoding: "unsupported_transfer_coding"
    case .unsupportedVersion: "unsupported_http_version"
    case .tooManyConnections, .tooManyOfKey: "too_many_connections"
    case .tooManyBodies: "overloaded"
    case .shuttingDown: "shutting_down"
    }
  }

  /// What is wrong and what to do, for the body.
  package var description: String {
    switch self {
    case .malformed(let what): "Malformed HTTP request: \(what)."
    case .notFound(let path): "There is nothing at \(path)."
    case .methodNotAllowed(let method, let allowed):
      "\(method) is not possible here. Use \(allowed.joined(separator: ", "))."
    case .timeout(let what, let seconds):
      "The request's \(what) did not arrive within \(Self.words(seconds)) seconds. Send it again without pauses."
    case .bodyTooSlow(let rate, let seconds):
      "The request's body brought less than \(rate) bytes per second for \(Self.words(seconds)) seconds. Send it "
        + "again without pauses."
    case .bodyTooLarge(let limit): "The request body is larger than \(limit) bytes. Send less."
    case .targetTooLong(let limit): "The request target is longer than \(limit) bytes. Send a shorter one."
    case .unsupportedExpectation: "The only expectation this server meets is 100-continue."
    case .headersTooLarge(let what): "The request's \(what). Send less."
    case .internalError: "The server failed to answer this request. Its log says why."
    case .unsupportedMethod: "This server does not know the request's method."
    case .unsupportedCoding: "The only transfer coding this server reads is chunked."
    case .unsupportedVersion: "This server speaks HTTP/1.1 and HTTP/1.0."
    case .tooManyConnections(let limit): "All \(limit) connections are taken. Try again soon."
    case .tooManyOfKey(let limit):
      "All \(limit) connections of this API key are in use. Close some of them."
    case .tooManyBodies: "The server holds too many request bodies already. Try again soon."
    case .shuttingDown: "The server is shutting down. Try another one, or again later."
    }
  }

  /// Without a fraction where there is none.
  private static func words(_ seconds: Double) -> String {
    Int(exactly: seconds).map { "\($0)" } ?? "\(seconds)"
  }

  /// Seconds after which trying again makes sense, for `retry-after`; nil when it makes none.
  package var retryAfterSeconds: Int? { status == 503 || status == 429 ? 1 : nil }
}
