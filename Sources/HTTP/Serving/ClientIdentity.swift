// The client that sent a request, found out above this module from a key or from the address.

/// A client as it is counted and logged.
package struct ClientIdentity: Sendable, Equatable {
  /// The same for all requests of one client; 0 is nobody in particular.
  package var number: UInt64 = 0
  /// For logs and counters; nil for clients without a key. Never the key itself.
  package var name: String?
  /// The same for all requests with one key, of which a client may have several; 0 without a key.
  package var key: UInt64 = 0
  /// Whether it may do what concerns all clients.
  package var isAdmin = true

  package init(number: UInt64 = 0, name: String? = nil, key: UInt64 = 0, isAdmin: Bool = true) {
    (self.number, self.name, self.key) = (number, name, key)
    self.isAdmin = isAdmin
  }
}

/// Where a request came in.
package enum Entrance: Sendable {
  /// The only one there is.
  case only
  /// The one for clients, where another one is for who runs the server.
  case clients
  case administration
}
