// What a streamed body is written to.

/// Used on the connection's thread only, and only until the stream's closure returns.
package final class BodyWriter {
  /// Takes bytes, and whether they are the last ones.
  private let output: ([UInt8], Bool) throws(SocketError) -> Void
  private let gone: ([UInt8]) -> Bool

  /// Body bytes written so far.
  package private(set) var bytesWritten = 0
  package private(set) var isFinished = false
  /// Set to close the connection when the body is complete, after an error in the stream for example.
  package var closesConnection = false

  /// - Parameters:
  ///   - gone: whether the client left; its argument is a harmless piece of body to find out with.
  ///   - output: takes pieces of the body; no bytes at all mean "send the head now".
  package init(
    gone: @escaping ([UInt8]) -> Bool = { _ in false },
    output: @escaping ([UInt8], Bool) throws(SocketError) -> Void
  ) {
    self.output = output
    self.gone = gone
  }

  /// Sends `bytes` at once, as one chunk in one write; the first one together with the response's head.
  ///
  /// - Throws: `SocketError.clientGone` or `.clientTooSlow`: stop working for this client.
  package func write(_ bytes: [UInt8]) throws(SocketError) {
    guard !isFinished, !bytes.isEmpty else { return }
    try output(bytes, false)
    bytesWritten += bytes.count
  }

  /// Sends the head of the response now instead of with the first write.
  package func flush() throws(SocketError) {
    if !isFinished { try output([], false) }
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
  ///
  /// - Parameter probe: sent once when the client has ended its sending: only then can one that closed the
  ///   connection be told from one that waits for the response.
  package func isClientGone(probe: [UInt8] = []) -> Bool { gone(probe) }
}
