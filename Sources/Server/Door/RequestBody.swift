// The JSON body of a request, with the checks that come before its fields.

import HTTP
import JSON
import OpenAI
import Platform

extension Request {
  /// - Parameter memory: where the values of the body are claimed; nil where they are few, or claimed elsewhere.
  /// - Throws: 503 where they are not left of it, 415 for a body that is declared as something else, 400 for bytes that
  ///   are not JSON.
  func jsonBody(_ memory: MemoryLoan? = nil) throws(APIError) -> JSONValue {
    if let coding = headers["content-encoding"], coding.lowercased() != "identity" {
      throw .unsupportedMedia("A content-encoding cannot be used here. Send the JSON body as it is.")
    }
    if let type = headers["content-type"], !Self.isJSON(type) {
      throw .unsupportedMedia("The content-type must be application/json.")
    }
    guard !body.isEmpty else { throw .emptyBody }
    try claim(JSONValue.weight(ofRequest: body), of: memory)
    do {
      return try JSONValue(request: body)
    } catch {
      throw .malformedJSON(error)
    }
  }

  /// `text/plain` is what simple clients send without thinking about it.
  private static func isJSON(_ type: String) -> Bool {
    let essence = String(decoding: type.utf8.prefix { $0 != UInt8(ascii: ";") && $0 != 0x20 }, as: UTF8.self)
      .lowercased()
    return ["application/json", "text/json", "text/plain"].contains(essence)
      || (essence.hasPrefix("application/") && essence.hasSuffix("+json"))
  }
}

extension JSONValue {
  /// Values beyond which a body is refused.
  private static let mostValues = 500_000

  /// `weight(of:)` of what a client has sent.
  static func weight(ofRequest text: [UInt8]) -> Int { min(weight(of: text), mostRequestWeight) }

  /// The most that the values of what a client has sent can take.
  static var mostRequestWeight: Int { 2 * 72 * mostValues }

  /// Parses what a client has sent. 500,000 values are room for a prompt of as many token ids, and some 50 MB.
  init(request bytes: [UInt8]) throws(JSONError) { try self.init(parsing: bytes, maxValues: Self.mostValues) }
}

extension APIError {
  fileprivate static func unsupportedMedia(_ message: String) -> APIError {
    APIError(status: 415, code: "unsupported_media_type", message: message)
  }

  fileprivate static let emptyBody = APIError(
    status: 400, code: "invalid_json", message: "The request has no body. Send a JSON object.")
}
