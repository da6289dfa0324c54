// Puts a response on a socket: head and body in one write, or a stream chunk by chunk.

import Platform

struct ResponseSender {
  struct Outcome: Equatable {
    let status: Int
    /// Of the body.
    let bytes: Int
    let keepsAlive: Bool
    /// The body has no end mark: the client left, or the stream failed.
    let isCut: Bool
  }

  let socket: Socket
  let stallSeconds: Double
  let keepsAlive: Bool
  let watch: ClientWatch

  /// - Throws: `SocketError` when a response of known bytes could not be sent. A stream that could not be
  ///   sent to its end is an outcome.
  func send(_ response: Response, _ exchange: Exchange, errors: ErrorFormat) throws(SocketError) -> Outcome {
    defer { watch.endInterim() }
    switch response.body {
    case .bytes(let bytes): return try send(response, bytes, exchange)
    case .stream(let write):
      if exchange.request.method == "HEAD" || Self.hasNoBody(response.status) {
        return try sendHead(response, exchange)
      }
      return try stream(response, write, exchange, errors)
    // Answered by `Connection` itself.
    case .upgrade: return try sendHead(response, exchange)
    }
  }

  /// Bodies up to this size go out in one write with the head; a copy of a longer one would hold its memory twice.
  private static let copiedBytes = 64 << 10

  private static func hasNoBody(_ status: Int) -> Bool { status < 200 || status == 204 || status == 304 }

  private func send(
    _ response: Response, _ bytes: [UInt8], _ exchange: Exchange
  ) throws(SocketError) -> Outcome {
    let hasNoBody = Self.hasNoBody(response.status)
    var out = head(response, hasNoBody ? .none : .length(bytes.count), exchange, keepsAlive: keepsAlive)
    let isSent = !hasNoBody && exchange.request.method != "HEAD"
    if isSent, bytes.count > Self.copiedBytes {
      try socket.send(out, stallSeconds: stallSeconds)
      out = bytes
    } else if isSent {
      out += bytes
    }
    try socket.send(out, stallSeconds: stallSeconds)
    return Outcome(
      status: response.status, bytes: isSent ? bytes.count : 0, keepsAlive: keepsAlive, isCut: false)
  }

  /// The head that a GET would get, without running the stream.
  private func sendHead(_ response: Response, _ exchange: Exchange) throws(SocketError) -> Outcome {
    let framing: ResponseWriter.Framing =
      Self.hasNoBody(response.status)
      ? .none
      : response.length.map { .length($0) } ?? (exchange.request.minorVersion == 0 ? .none : .chunked)
    try socket.send(
      head(response, framing, exchange, keepsAlive: keepsAlive), stallSeconds: stallSeconds)
    return Outcome(status: response.status, bytes: 0, keepsAlive: keepsAlive, isCut: false)
  }

  private func stream(
    _ response: Response, _ write: (BodyWriter) throws -> Void, _ exchange: Exchange, _ errors: ErrorFormat
  ) throws(SocketError) -> Outcome {
    let length = response.length
    let isChunked = length == nil && exchange.request.minorVersion > 0
    let keepsAlive = keepsAlive && (isChunked || length != nil)
    let framing: ResponseWriter.Framing =
      length.map { .length($0) } ?? (isChunked ? .chunked : .untilClose)
    var pending: [UInt8]? = head(response, framing, exchange, keepsAlive: keepsAlive)
    func framed(_ bytes: [UInt8], isLast: Bool) -> [UInt8] {
      isChunked ? ResponseWriter.chunk(bytes, isLast: isLast) : bytes
    }
    let writer = BodyWriter(
      gone: { [watch] in watch.isClientGone() },
      output: { [socket, stallSeconds] (bytes: [UInt8], isLast: Bool) throws(SocketError) in
        let out = (pending ?? []) + framed(bytes, isLast: isLast)
        pending = nil
        try socket.send(out, stallSeconds: stallSeconds)
      })
    // Before the head has gone out an interim response is the probe, then a piece of the body.
    let interim = watch.probe
    watch.probe = { [weak writer] in
      if pending != nil { return interim() }
      guard let piece = writer?.probe, !piece.isEmpty else { return .none }
      return .bytes(framed(piece, isLast: false))
    }
    var isCut = false
    do {
      try write(writer)
      writer.finish()
    } catch {
      if !(error is SocketError) { Log.error("stream failed", ["error": "\(error)"]) }
      if pending != nil && !(error is SocketError) {
        let failure = errors.response(.internalError, to: exchange.request, exchange.context)
        return try send(failure, exchange, errors: errors)
      }
      isCut = !writer.isFinished
    }
    isCut = isCut || length.map { $0 != writer.bytesWritten } ?? false
    return Outcome(
      status: response.status, bytes: writer.bytesWritten, keepsAlive: keepsAlive && !writer.closesConnection,
      isCut: isCut)
  }

  private func head(
    _ response: Response, _ framing: ResponseWriter.Framing, _ exchange: Exchange, keepsAlive: Bool
  ) -> [UInt8] {
    // HTTP/1.0 clients must be told that the connection stays, later ones that it does not.
    let connection: String? =
      keepsAlive ? (exchange.request.minorVersion == 0 ? "keep-alive" : nil) : "close"
    return ResponseWriter.head(
      response, framing: framing, connection: connection, requestID: exchange.context.requestID)
  }
}
