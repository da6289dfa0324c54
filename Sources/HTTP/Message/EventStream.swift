// Server-sent events, or lines: one event is one chunk and one write.

/// A body whose events are sent as they come. Used on the connection's thread only.
package struct EventStream {
  /// How events are written.
  package enum Form {
    /// Server-sent events (HTML Living Standard, section 9.2).
    case events
    /// Each on a line of its own, without a type.
    ///
    /// - Parameter silence: bytes that mean nothing, to show that the stream lives; empty for none.
    case lines(silence: [UInt8] = [])

    var contentType: String {
      switch self {
      case .events: "text/event-stream; charset=utf-8"
      case .lines: "application/x-ndjson"
      }
    }

    /// A comment, which clients skip.
    fileprivate var silence: [UInt8] {
      switch self {
      case .events: Array(": keep-alive\n\n".utf8)
      case .lines(let silence): silence
      }
    }
  }

  package let writer: BodyWriter
  private let form: Form

  package init(_ writer: BodyWriter, _ form: Form = .events) {
    (self.writer, self.form) = (writer, form)
    writer.probe = form.silence
  }

  /// Sends one event. Line ends in `data` begin a new `data:` line, so one call is always one event.
  ///
  /// - Parameter event: the event's type; nil for an unnamed one.
  /// - Throws: `SocketError` when the client has left or does not read.
  package func send(_ data: [UInt8], event: String? = nil) throws(SocketError) {
    try writer.write(framed(data, event: event))
  }

  /// The same for text.
  package func send(_ data: String, event: String? = nil) throws(SocketError) {
    try send(Array(data.utf8), event: event)
  }

  /// Shows proxies and clients that the stream lives.
  package func keepAlive() throws(SocketError) { try writer.write(form.silence) }

  /// Sends the last event and the end of the stream in one write. Never fails: a client that closes at the
  /// last event has read everything.
  package func finish(_ data: String, event: String? = nil) {
    writer.finish(framed(Array(data.utf8), event: event))
  }

  /// Ends the stream after an error event: the connection is closed after it.
  package func finishWithError(_ data: String, event: String? = nil) {
    writer.closesConnection = true
    finish(data, event: event)
  }

  /// Whether the client has left, found out without waiting.
  package func isClientGone() -> Bool { writer.isClientGone() }

  private func framed(_ data: [UInt8], event: String?) -> [UInt8] {
    if case .lines = form { return data + [ASCII.lineFeed] }
    return Self.framed(data, event: event)
  }

  static func framed(_ data: [UInt8], event: String?) -> [UInt8] {
    var out: [UInt8] = []
    out.reserveCapacity(data.count + 16 + (event?.utf8.count ?? 0))
    if let event {
      out += "event: ".utf8
      out += event.utf8.filter { $0 != ASCII.carriageReturn && $0 != ASCII.lineFeed }
      out.append(ASCII.lineFeed)
    }
    out += "data: ".utf8
    var previous: UInt8 = 0
    for byte in data {
      switch byte {
      // CRLF is one line end.
      case ASCII.lineFeed where previous == ASCII.carriageReturn: break
      case ASCII.lineFeed, ASCII.carriageReturn: out += "\ndata: ".utf8
      default: out.append(byte)
      }
      previous = byte
    }
    out += "\n\n".utf8
    return out
  }
}
