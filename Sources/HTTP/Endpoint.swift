// A numeric address and a port: where a server listens, or where a client comes from.

package struct Endpoint: Sendable, Equatable, CustomStringConvertible {
  /// IPv4 or IPv6, without brackets.
  package let address: String
  package let port: Int

  package init(address: String, port: Int) {
    self.address = address
    self.port = port
  }

  /// As in a URL: `127.0.0.1:80`, `[::1]:80`.
  package var description: String {
    address.utf8.contains(UInt8(ascii: ":")) ? "[\(address)]:\(port)" : "\(address):\(port)"
  }
}
