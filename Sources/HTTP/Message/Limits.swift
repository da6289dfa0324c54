// How much a client may send and how long it may take.

/// Every bound has a default that suits a server for a few hundred users. Sizes are bytes, times seconds.
package struct Limits: Sendable {
  /// Request target; beyond: 414.
  package var targetBytes = 8 << 10
  /// One header line without its line end; beyond: 431.
  package var fieldLineBytes = 8 << 10
  /// Header lines of one request; beyond: 431.
  package var fieldCount = 100
  /// Request line and header lines together, line ends included; beyond: 431.
  package var headBytes = 32 << 10
  /// Body after chunk decoding; beyond: 413.
  package var bodyBytes = 8 << 20
  /// All chunk extensions of one body; beyond: 400.
  package var chunkExtensionBytes = 16 << 10
  /// All trailer lines of one body; beyond: 431.
  package var trailerBytes = 16 << 10
  /// Bodies held in memory by all connections together; beyond: 503.
  package var bufferedBodyBytes = 256 << 20

  /// From accept, or from the first byte of a later request, to the end of its head.
  package var headSeconds = 10.0
  /// A body must bring `bodyBytesPerSecond` on average in every window of this length.
  package var bodyWindowSeconds = 30.0
  /// Of a body, on average of a window; slower: 408.
  package var bodyBytesPerSecond = 1024
  /// A kept-alive connection without a request.
  package var idleSeconds = 30.0
  /// A client that takes nothing of a response for this long is given up.
  package var writeStallSeconds = 30.0
  /// After the last response of a connection: wait this long for the client to close, at most.
  package var lingerSeconds = 2.0

  /// The connection is closed after this number.
  package var requestsPerConnection = 1000
  /// Open connections, one thread each; beyond: 503.
  package var connections = 2048
  /// Of these, from one address (one network of IPv6 addresses); nil for half of them, and as many as there may be from
  /// this machine, where a proxy stands for its clients.
  package var connectionsFromOne: Int?
  /// Of these, by one key; nil for no bound of its own.
  package var connectionsPerKey: Int?
  /// What the kernel may hold of a response that the client does not read (Linux doubles it).
  package var sendBufferBytes = 128 << 10

  package init() {}

  /// Most connections that come from where `peer` does; nil for no bound of its own.
  func connectionsPerAddress(of peer: Endpoint) -> Int? {
    connectionsFromOne ?? (peer.isLoopback ? nil : max(1, connections / 2))
  }

  /// Connections beyond the others, for urgent requests.
  var reservedConnections: Int { min(32, max(2, connections / 16)) }

  /// Descriptors that are not for connections: files, pipes, listening sockets, clients that are being turned away, the
  /// reserve, an entrance for administration.
  private static let otherDescriptors = 256

  /// How many of these connections a process with so many descriptors has room for.
  package static func connections(_ wanted: Int, descriptors: Int) -> Int {
    max(1, min(wanted, max(descriptors / 2, descriptors - otherDescriptors)))
  }

  /// What a connection in the reserve has for its request, seconds.
  var reserveSeconds: Double { min(2, headSeconds) }
}
