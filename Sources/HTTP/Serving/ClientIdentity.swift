// The client that sent a request, found out above this module from a key or from the address.

/// A client as it is counted and logged.
package struct ClientIdentity: Sendable, Equatable {
  /// The same for all requests of one client; 0 is nobody in particular.
  package var number: UInt64 = 0
  /// For logs and counters; nil for clients without a key. Never the key itself.
  package var name: String?

  package init(number: UInt64 = 0, name: String? = nil) {
    self.number = number
    self.name = name
  }
}
