// The body of a request: unpacked, and as JSON, with the checks that come before its fields.

import HTTP
import JSON
import Media
import Platform
import Wire

/// The largest body by what a model takes, in bytes, where nobody sets another limit.
package enum BodySize {
  /// Images and audio in messages: they travel in base64.
  package static let media = 48 << 20
  package static let recording = 100 << 20
}

extension Request {
  /// The request with its body as it was before the client packed it, and without the header that says so.
  ///
  /// - Throws: 415 for another coding than gzip, 400 for a body that is no such stream, 413 or 503 where what it holds is
  ///   more than may be: that is known before it is unpacked.
  func unpacked(_ context: ConnectionContext) throws(APIError) -> Request {
    let name = "content-encoding"
    let codings = headers.fields.filter { $0.name.lowercased() == name }.flatMap { field in
      field.text.lowercased().split(separator: ",").map { $0.filter { $0 != " " && $0 != "\t" } }
    }.filter { $0 != "identity" }
    guard let coding = codings.first, !body.isEmpty else { return self }
    guard codings.count == 1, coding == "gzip" || coding == "x-gzip" else {
      let words = APIError.shortened(codings.joined(separator: ", "))
      throw .unsupportedMedia(
        "The content-encoding '\(words)' is not read here. Send the body as it is, or as 'gzip'.")
    }
    guard let stream = GzipStream(body) else { throw .damagedGzip }
    guard stream.count <= context.bodyLimit else {
      throw APIError(HTTPError.bodyTooLarge(limit: context.bodyLimit))
    }
    try claim(BodyBudget.copies * stream.count, of: context.memory)
    guard let plain = stream.unpacked() else { throw .damagedGzip }
    var request = self
    request.body = plain
    request.headers.remove(name)
    return request
  }

  /// - Parameter memory: where the values of the body are claimed; nil where they are few, or claimed elsewhere.
  /// - Throws: 503 where they are not left of it, 415 for a body that is declared as something else, 400 for bytes that
  ///   are not JSON.
  func jsonBody(_ memory: MemoryLoan? = nil) throws(APIError) -> JSONValue {
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

  fileprivate static let damagedGzip = APIError(
    status: 400, code: "invalid_body",
    message: "The body of your request is not one complete gzip member.")

  fileprivate static let emptyBody = APIError(
    status: 400, code: "invalid_json", message: "The request has no body. Send a JSON object.")
}
