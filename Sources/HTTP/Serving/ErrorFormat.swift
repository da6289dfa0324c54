// How errors of this module look in a response body: the server above chooses.

/// Makes responses of errors.
package struct ErrorFormat: Sendable {
  /// Of `body`.
  package var contentType: String
  /// The body that tells of an error; nil stands for a request whose head could not be read.
  package var body: Body

  /// Writes an error, in the words that the request's path wants.
  package typealias Body = @Sendable (HTTPError, Request?, ConnectionContext?) -> [UInt8]

  /// Plain text unless told otherwise.
  package init(
    contentType: String = "text/plain; charset=utf-8",
    body: @escaping Body = { error, _, _ in Array("\(error)\n".utf8) }
  ) {
    (self.contentType, self.body) = (contentType, body)
  }

  /// The whole response for `error`. After all but 404 and 405 the connection is closed: the bytes that
  /// follow on it can no longer be trusted, or are not wanted.
  package func response(
    _ error: HTTPError, to request: Request? = nil, _ context: ConnectionContext? = nil
  ) -> Response {
    var response = Response(
      status: error.status, contentType: contentType, bytes: body(error, request, context))
    response.errorCode = error.code
    // Also of what nobody could read, and so nobody knows who asked.
    response.headers.add("x-content-type-options", "nosniff")
    response.headers.add("cross-origin-resource-policy", "same-origin")
    if let seconds = error.retryAfterSeconds { response.headers.add("retry-after", String(seconds)) }
    switch error {
    case .methodNotAllowed(_, let allowed): response.headers.add("allow", allowed.joined(separator: ", "))
    case .notFound: break
    default: response.closesConnection = true
    }
    return response
  }
}
