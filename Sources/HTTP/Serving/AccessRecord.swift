// One line of the access log.

import Platform

/// What is known of a request when its response has ended.
package struct AccessRecord: Sendable {
  package let method: String
  /// Without the query, which may hold what nobody should log.
  package let path: String
  package let status: Int
  /// Of the body, without framing.
  package let bytes: Int
  /// From the complete head of the request to the end of the response.
  package let seconds: Double
  package let requestID: String
  package let peer: Endpoint
  /// False when the client left, or the stream was cut, before the end.
  package let isComplete: Bool
  /// The pattern of the route; nil when the request got to none.
  package let route: String?
  /// Of a response that tells of an error.
  package let errorCode: String?
  package let client: ClientIdentity
  /// What the handler added.
  package let facts: [(name: String, value: String)]

  /// A longer path would push the fields after it out of the log line.
  private static let loggedPathBytes = 256

  /// Writes the record to the log.
  package func log() {
    guard Log.isWritten(.info) else { return }
    let micros = Int(exactly: (seconds * 1e6).rounded()) ?? 0
    let fraction = String(micros % 1_000_000)
    let padded = String(repeating: "0", count: max(0, 6 - fraction.utf8.count)) + fraction
    var fields = [
      ("method", method), ("path", String(decoding: path.utf8.prefix(Self.loggedPathBytes), as: UTF8.self)),
      ("status", String(status)), ("bytes", String(bytes)),
      ("seconds", "\(micros / 1_000_000).\(padded)"), ("request_id", requestID), ("peer", peer.description),
      ("complete", isComplete ? "yes" : "no"),
    ]
    if let errorCode { fields.append(("error", errorCode)) }
    if let name = client.name { fields.append(("key", name)) }
    Log.info("request", fields: fields + facts.map { ($0.name, $0.value) })
  }
}
