// What sets the APIs that this server speaks apart: how an error looks, and what clients look for in every answer.

import HTTP
import JSON
import Wire

/// One API. Each owns the shape of its errors: an error stays a value until its wire writes it.
struct Wire: Sendable {
  /// Its paths are these and those below them.
  let roots: [String]
  /// The header in which its clients look for the request's id, beside the server's own `x-request-id`.
  let idHeader: String?
  /// The name of the schema of an error in /openapi.json, and statuses that mean more here than elsewhere.
  var schema = "Error"
  var failures: [String] = []
  /// The type of an event that tells of an error in a stream, and what ends every stream; nil for none.
  var errorEvent: String?
  var endMark: String?
  /// The body that tells of an error, or the data of an event.
  let json: @Sendable (_ error: APIError, _ requestID: String) -> JSONValue

  /// OpenAI's, and that of every path that no other wire has.
  static let openAI = Wire(roots: ["/"], idHeader: nil, endMark: "[DONE]") { error, _ in error.json }

  func owns(_ path: String) -> Bool {
    roots.contains { root in
      guard path.utf8.starts(with: root.utf8) else { return false }
      let next = path.utf8.dropFirst(root.utf8.count).first
      return next == nil || next == UInt8(ascii: "/")
    }
  }

  /// The whole response that tells of an error.
  func response(_ error: APIError, requestID: String) -> Response {
    var response = Response(json: json(error, requestID), status: error.status)
    response.errorCode = error.code ?? error.type
    if let retryAfter = error.retryAfter { response.headers.add("retry-after", String(retryAfter)) }
    // The SDK repeats requests after every 5xx unless told that it is of no use.
    if error.status == 500 { response.headers.add("x-should-retry", "false") }
    return response
  }

  /// The response with what all answers of this wire carry.
  func finished(_ response: Response, requestID: String) -> Response {
    guard let idHeader else { return response }
    var response = response
    response.headers.set(idHeader, requestID)
    return response
  }
}
