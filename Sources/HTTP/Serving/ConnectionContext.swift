// What a handler may know about the connection its request came on.

package import Platform

/// Belongs to one request; used on the connection's thread only.
package final class ConnectionContext {
  /// How far the server is from its end.
  package enum Phase: Sendable, Comparable {
    case running
    /// The server takes no new work; what runs may finish.
    case draining
    /// The time to finish is over: streams end now, with a word to the client.
    case expired
  }

  package let peer: Endpoint
  /// The client's own `x-request-id` when it is harmless, else a fresh one. The response carries it.
  package let requestID: String
  /// The client that sent the request, as far as the server above has found out.
  package var client = ClientIdentity()
  /// The program that has sent the request, as it says itself.
  package var agent: String?
  /// The request itself, where its answer is to be written down with it.
  package var recorded: Request?
  /// Where the request came in, as the server above has set it up.
  package var entrance = Entrance.only
  /// Whether the server ends, though this entrance is still open.
  package var isLeaving = false
  /// What of the body has no effect, for a header of the answer.
  package var ignored: [String] = []
  /// The pattern of the route that the request took; nil before, and when there is none.
  package var route: String?
  /// What the handler has to say in the access log. Names are the server's own; values may be anything.
  package private(set) var facts: [(name: String, value: String)] = []
  /// False where a request leads to many answers, or nobody waits for its answer: then each has a log line of its own.
  package var isOneAnswer = true
  /// Whether nobody waits for the answer, so that the work for it gives way to all other work.
  package var givesWay = false

  /// Most bytes of a body, also after it is unpacked.
  package var bodyLimit = Limits().bodyBytes

  /// What the request takes of the server's memory beside its body, given back with its answer; nil where nobody counts.
  package var memory: MemoryLoan?

  private let gone: () -> Bool
  private let currentPhase: () -> Phase

  /// Made in code for routes called without a socket; the client never leaves by default.
  package init(
    peer: Endpoint = Endpoint(address: "127.0.0.1", port: 0), requestID: String = "req_test",
    isClientGone: @escaping () -> Bool = { false }, phase: @escaping () -> Phase = { .running }
  ) {
    (self.peer, self.requestID) = (peer, requestID)
    gone = isClientGone
    currentPhase = phase
  }

  /// Says something in the access log, in the place of what was said under this name before.
  package func tell(_ name: String, _ value: String) {
    facts.removeAll { $0.name == name }
    facts.append((name, value))
  }

  /// Whether the client has closed the connection, found out without waiting (about a microsecond).
  ///
  /// Requests that wait after this one are no sign of that. A client that ended only its sending is still
  /// there: the first time this is seen, an interim `100 Continue` is sent to find out.
  package func isClientGone() -> Bool { gone() }

  /// The server's phase now.
  package var phase: Phase { currentPhase() }

  /// Whether the server takes no new work.
  package var isDraining: Bool { isLeaving || phase != .running }

  /// An identifier for a request: the client's if it is 1 to 128 letters, digits, `.`, `_`, `-` or `:`.
  static func requestID(for headers: Headers) -> String {
    if let field = headers.first("x-request-id"), (1...128).contains(field.value.count),
      field.value.allSatisfy({ byte in
        ASCII.isDigit(byte) || ASCII.isLetter(byte) || [0x2D, 0x2E, 0x3A, 0x5F].contains(byte)
      })
    {
      return field.text
    }
    return freshRequestID()
  }

  /// An identifier that no other request has.
  package static func freshRequestID() -> String {
    let digits = String(UInt64.random(in: 0 ... .max), radix: 16)
    return "req_" + String(repeating: "0", count: 16 - digits.utf8.count) + digits
  }
}
