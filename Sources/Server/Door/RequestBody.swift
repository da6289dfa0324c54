// The JSON body of a request, with the checks that come before its fields.

import HTTP
import JSON
import OpenAI

extension Request {
  /// - Throws: 415 for a body that is declared as something else, 400 for bytes that are not JSON.
  func jsonBody() throws(APIError) -> JSONValue {
    if let coding = headers["content-encoding"], coding.lowercased() != "identity" {
      throw .unsupportedMedia("A content-encoding cannot be used here. Send the JSON body as it is.")
    }
    if let type = headers["content-type"], !Self.isJSON(type) {
      throw .unsupportedMedia("The content-type must be application/json.")
    }
    guard !body.isEmpty else { throw .emptyBody }
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
  /// Parses what a client has sent. 500,000 values are room for a prompt of as many token ids, and some 50 MB.
  init(request bytes: [UInt8]) throws(JSONError) { try self.init(parsing: bytes, maxValues: 500_000) }
}

extension APIError {
  fileprivate static func unsupportedMedia(_ message: String) -> APIError {
    APIError(status: 415, code: "unsupported_media_type", message: message)
  }

  fileprivate static let emptyBody = APIError(
    status: 400, code: "invalid_json", message: "The request has no body. Send a JSON object.")
}
