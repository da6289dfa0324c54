// Server-sent events: one event is one chunk and one write.

/// The body of a `text/event-stream` response (HTML Living Standard, section 9.2). Used on the connection's thread only.
package struct EventStream {
  private static let comment = Array(": keep-alive\n\n".utf8)

  package let writer: BodyWriter

  package init(_ writer: BodyWriter) {
    self.writer = writer
    writer.probe = Self.comment
  }

  /// Sends one event. Line ends in `data` begin a new `data:` line, so one call is always one event.
  ///
  /// - Parameter event: the event's type; nil for an unnamed one.
  /// - Throws: `SocketError` when the client has left or does not read.
  package func send(_ data: [UInt8], event: String? = nil) throws(SocketError) {
    try writer.write(Self.framed(data, event: event))
  }

  /// The same for text.
  package func send(_ data: String, event: String? = nil) throws(SocketError) {
    try send(Array(data.utf8), event: event)
  }

  /// Sends a comment, which clients skip: shows proxies and clients that the stream lives.
  package func keepAlive() throws(SocketError) { try writer.write(Self.comment) }

  /// Sends the last event and the end of the stream in one write. Never fails: a client that closes at the
  /// last event has read everything.
  package func finish(_ data: String, event: String? = nil) {
    writer.finish(Self.framed(Array(data.utf8), event: event))
  }

  /// Ends the stream after an error event: the connection is closed after it.
  package func finishWithError(_ data: String, event: String? = nil) {
    writer.closesConnection = true
    finish(data, event: event)
  }

  /// Whether the client has left, found out without waiting.
  package func isClientGone() -> Bool { writer.isClientGone() }

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
