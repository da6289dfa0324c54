// How errors of this module look in a response body: the server above chooses.

/// Makes responses of errors.
package struct ErrorFormat: Sendable {
  /// Of `body`.
  package var contentType: String
  /// The body that tells of an error.
  package var body: @Sendable (HTTPError) -> [UInt8]

  /// Plain text unless told otherwise.
  package init(
    contentType: String = "text/plain; charset=utf-8",
    body: @escaping @Sendable (HTTPError) -> [UInt8] = { Array("\($0)\n".utf8) }
  ) {
    self.contentType = contentType
    self.body = body
  }

  /// The whole response for `error`. After all but 404 and 405 the connection is closed: the bytes that
  /// follow on it can no longer be trusted, or are not wanted.
  package func response(_ error: HTTPError) -> Response {
    var response = Response(status: error.status, contentType: contentType, bytes: body(error))
    response.errorCode = error.code
    if let seconds = error.retryAfterSeconds { response.headers.add("retry-after", String(seconds)) }
    switch error {
    case .methodNotAllowed(_, let allowed): response.headers.add("allow", allowed.joined(separator: ", "))
    case .notFound: break
    default: response.closesConnection = true
    }
    return response
  }
}
