// Finds out whether the client is still there while a handler works for it.

/// Lives on the connection's thread.
///
/// TCP shows the same end of stream for a client that closed and for one that only ended its sending and
/// waits for the response. Only sending tells them apart: the closed one answers with a reset. So at the
/// first sight of an end, a probe is sent that a waiting client ignores: an interim `100 Continue` before
/// the response (RFC 9110 section 15.2), a comment within a stream of events.
final class ClientWatch {
  enum Probe {
    /// Harmless at this place of the connection's bytes.
    case bytes([UInt8])
    /// Nothing harmless can be sent: writes will show whether the client is there.
    case none
    /// An HTTP/1.0 client before its response knows no interim ones: an end is taken for a close.
    case impossible
  }

  private let socket: Socket
  private var isGone = false
  private var hasProbed = false
  /// What can be sent now. Changes when the head of the response has gone out.
  var probe: () -> Probe = { .none }

  init(_ socket: Socket) { self.socket = socket }

  /// A new request begins.
  func begin(_ request: Request) {
    hasProbed = false
    let interim: Probe = request.minorVersion > 0 ? .bytes(ResponseWriter.continueHead) : .impossible
    probe = { interim }
  }

  /// Bytes of the response are on their way: no interim response may follow.
  func endInterim() { probe = { .none } }

  func isClientGone() -> Bool {
    if isGone { return true }
    switch socket.peer() {
    case .open: return false
    case .gone: isGone = true
    case .halfClosed:
      if hasProbed { return false }
      switch probe() {
      case .none: return false
      case .impossible: isGone = true
      case .bytes(let bytes):
        hasProbed = true
        socket.sendWithoutWaiting(bytes)
        isGone = socket.peer() == .gone
      }
    }
    return isGone
  }
}
