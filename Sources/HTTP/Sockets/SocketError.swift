// What can go wrong with sockets: nothing of this is ever told to a client.

/// Failures of listening, and of writing to a client.
package enum SocketError: Error, Equatable, Sendable, CustomStringConvertible {
  /// The client closed or reset the connection.
  case clientGone
  /// The client took nothing of a response for the time allowed.
  case clientTooSlow
  /// No socket listens at this place; `reason` says why, in words.
  case cannotListen(host: String, port: Int, reason: String)
  /// Another socket listens there.
  case placeTaken(host: String, port: Int)
  /// The same for a Unix socket.
  case cannotListenOnPath(path: String, reason: String)

  package var description: String {
    switch self {
    case .clientGone: "the client closed the connection"
    case .clientTooSlow: "the client reads too slowly"
    case .cannotListen(let host, let port, let reason): "cannot listen on \(host):\(port): \(reason)"
    case .placeTaken(let host, let port):
      "cannot listen on \(host):\(port): another program uses this port. Stop it or choose another port"
    case .cannotListenOnPath(let path, let reason): "cannot listen on \(path): \(reason)"
    }
  }
}
