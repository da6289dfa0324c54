// What a streamed body is written to.

/// Used on the connection's thread only, and only until the stream's closure returns.
package final class BodyWriter {
  /// Takes bytes, and whether they are the last ones.
  private let output: ([UInt8], Bool) throws(SocketError) -> Void
  private let gone: () -> Bool

  /// Body bytes written so far.
  package private(set) var bytesWritten = 0
  /// Whether the last bytes were given; later ones are dropped.
  package private(set) var isFinished = false
  /// Set to close the connection when the body is complete, after an error in the stream for example.
  package var closesConnection = false
  /// A piece of body that means nothing: sent once when the client has ended its sending, because only
  /// then can one that closed be told from one that waits. Without it, only writes show that.
  package var probe: [UInt8] = []

  /// - Parameters:
  ///   - gone: whether the client left.
  ///   - output: takes pieces of the body, and whether a piece is the last one.
  package init(
    gone: @escaping () -> Bool = { false },
    output: @escaping ([UInt8], Bool) throws(SocketError) -> Void
  ) {
    (self.output, self.gone) = (output, gone)
  }

  /// Sends `bytes` at once, as one chunk in one write; the first one together with the response's head.
  ///
  /// - Throws: `SocketError.clientGone` or `.clientTooSlow`: stop working for this client.
  package func write(_ bytes: [UInt8]) throws(SocketError) {
    guard !isFinished, !bytes.isEmpty else { return }
    try output(bytes, false)
    bytesWritten += bytes.count
  }

  /// Sends the last bytes and the end of the body in one write. A client that leaves without reading the
  /// end has lost nothing, so this never fails.
  package func finish(_ bytes: [UInt8] = []) {
    guard !isFinished else { return }
    isFinished = true
    do throws(SocketError) {
      try output(bytes, true)
      bytesWritten += bytes.count
    } catch {
      closesConnection = true
    }
  }

  /// Whether the client has left, found out without waiting.
  package func isClientGone() -> Bool { gone() }
}
