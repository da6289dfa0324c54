// Where a server listens, or where a client comes from: a numeric address and a port, or a Unix socket.

import Platform

/// One end of a connection.
package struct Endpoint: Sendable, Equatable, CustomStringConvertible {
  /// IPv4 or IPv6, without brackets, or the name of a host; `unix` for a Unix socket.
  package let address: String
  /// 0 for a Unix socket.
  package let port: Int
  /// Of a Unix socket; empty for the clients of one, which have no name.
  package let path: String?

  package init(address: String, port: Int) {
    (self.address, self.port) = (address, port)
    path = nil
  }

  package init(unixPath: String) {
    address = "unix"
    port = 0
    path = unixPath
  }

  /// Whether it is this machine by its loopback address.
  package var isLoopback: Bool {
    path == nil && (address.utf8.starts(with: "127.".utf8) || address.utf8.elementsEqual("::1".utf8))
  }

  /// What one client is known by who may choose among addresses: the whole of an IPv4 address, the first half of an
  /// IPv6 address.
  package var network: String {
    var storage = in6_addr()
    guard address.utf8.contains(UInt8(ascii: ":")), inet_pton(AF_INET6, address, &storage) == 1 else {
      return address
    }
    let bytes = withUnsafeBytes(of: &storage) { Array($0) }
    // An IPv4 address in the form of an IPv6 one.
    guard bytes.prefix(10).contains(where: { $0 != 0 }) || bytes[10] != 0xFF else { return address }
    return bytes.prefix(8).map { String($0, radix: 16) }.joined(separator: ":") + "/64"
  }

  /// As in a URL, where an IPv6 literal stands in brackets (RFC 3986 section 3.2.2): `127.0.0.1:80`, `[::1]:80`,
  /// `unix:/run/server`.
  package var description: String {
    if let path { return path.utf8.isEmpty ? "unix" : "unix:" + path }
    return address.utf8.contains(UInt8(ascii: ":")) ? "[\(address)]:\(port)" : "\(address):\(port)"
  }
}
