// A response: status, headers, and a body of known bytes or one that is written while it is made.

/// What a handler answers; framing, date and connection fields are added when it is sent.
package struct Response {
  /// Bytes that are known, or what makes them.
  package enum Body {
    case bytes([UInt8])
    /// Called on the connection's thread after the handler has returned. It may block. An error it throws
    /// ends the connection without the end mark of the body, so the client knows it is cut.
    case stream((BodyWriter) throws -> Void)
    /// No body: after the head the connection speaks another protocol, to its end. Made by `Response.webSocket`.
    case upgrade((UpgradedConnection) -> Void)
  }

  /// Status code (RFC 9110 section 15).
  package var status: Int
  /// Framing fields (`content-length`, `transfer-encoding`, `connection`, `date`) are the server's to add.
  package var headers: Headers
  package var body: Body
  /// Bytes of a stream, where they are known before it: its client is told, and it is not cut into chunks.
  package var length: Int?
  /// Close the connection after this response.
  package var closesConnection = false
  /// The error that this response tells of, as one stable word for log and counters.
  package var errorCode: String?

  /// A response with these headers; empty unless `body` says more.
  package init(status: Int = 200, headers: Headers = [:], body: Body = .bytes([])) {
    (self.status, self.headers, self.body) = (status, headers, body)
  }

  /// A response with a body of this type.
  package init(status: Int = 200, contentType: String, bytes: [UInt8]) {
    self.init(status: status, headers: ["content-type": contentType], body: .bytes(bytes))
  }

  /// A stream of events.
  package static func events(
    _ form: EventStream.Form = .events, _ send: @escaping (EventStream) throws -> Void
  ) -> Response {
    Response(
      headers: [
        "content-type": form.contentType,
        "cache-control": "no-cache",
        // Tells a reverse proxy not to hold events back.
        "x-accel-buffering": "no",
      ],
      body: .stream { writer in try send(EventStream(writer, form)) })
  }

  /// The whole body in memory, a stream's too: for routes called without a socket.
  ///
  /// - Parameter accepts: whether there is room for so many bytes more; asked before they are kept.
  /// - Throws: what ended a stream; `SocketError.clientGone` where there is no room.
  package func collectedBody(accepts: @escaping (Int) -> Bool = { _ in true }) throws -> [UInt8] {
    switch body {
    case .bytes(let bytes):
      guard accepts(bytes.count) else { throw SocketError.clientGone }
      return bytes
    case .stream(let write):
      let sink = Sink()
      try write(
        BodyWriter { (bytes, _) throws(SocketError) in
          guard accepts(bytes.count) else { throw .clientGone }
          sink.bytes += bytes
        })
      return sink.bytes
    case .upgrade: return []
    }
  }

  private final class Sink { var bytes: [UInt8] = [] }

  /// The words after the status code (RFC 9110 section 15).
  static func reason(_ status: Int) -> String {
    switch status {
    case 100: "Continue"
    case 101: "Switching Protocols"
    case 200: "OK"
    case 201: "Created"
    case 202: "Accepted"
    case 204: "No Content"
    case 304: "Not Modified"
    case 400: "Bad Request"
    case 401: "Unauthorized"
    case 403: "Forbidden"
    case 404: "Not Found"
    case 405: "Method Not Allowed"
    case 408: "Request Timeout"
    case 409: "Conflict"
    case 411: "Length Required"
    case 413: "Content Too Large"
    case 414: "URI Too Long"
    case 415: "Unsupported Media Type"
    case 417: "Expectation Failed"
    case 422: "Unprocessable Content"
    case 426: "Upgrade Required"
    case 429: "Too Many Requests"
    case 431: "Request Header Fields Too Large"
    case 500: "Internal Server Error"
    case 501: "Not Implemented"
    case 503: "Service Unavailable"
    case 504: "Gateway Timeout"
    case 505: "HTTP Version Not Supported"
    case 507: "Insufficient Storage"
    default: "Status"
    }
  }
}
