// Where a server listens, or where a client comes from: a numeric address and a port, or a Unix socket.

/// One end of a connection.
package struct Endpoint: Sendable, Equatable, CustomStringConvertible {
  /// IPv4 or IPv6, without brackets; `unix` for a Unix socket.
  package let address: String
  /// 0 for a Unix socket.
  package let port: Int
  /// Of a Unix socket; empty for the clients of one, which have no name.
  package let path: String?

  package init(address: String, port: Int) {
    self.address = address
    self.port = port
    path = nil
  }

  package init(unixPath: String) {
    address = "unix"
    port = 0
    path = unixPath
  }

  /// As in a URL: `127.0.0.1:80`, `[::1]:80`, `unix:/run/server`.
  package var description: String {
    if let path { return path.utf8.isEmpty ? "unix" : "unix:" + path }
    return address.utf8.contains(UInt8(ascii: ":")) ? "[\(address)]:\(port)" : "\(address):\(port)"
  }
}
