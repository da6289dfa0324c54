// A connection that has left HTTP for another protocol (RFC 9110 section 7.8).

/// What the other protocol gets of the connection. Used on the connection's thread only.
package struct UpgradedConnection {
  let socket: Socket
  let limits: Limits
  /// Memory that the bodies of all connections share.
  let budget: BodyBudget
  /// Bytes that came with the request and follow it.
  let early: [UInt8]
  /// Tells the server that the connection may be ended now, false when it is ending; and that no more.
  let enterIdle: () -> Bool
  let leaveIdle: () -> Void
  /// Counts bytes of the other protocol as sent, for the log.
  let countSent: (Int) -> Void
}
