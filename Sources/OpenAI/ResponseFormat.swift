// The `response_format` field: its shape is checked; anything but plain text is refused.

import JSON

enum ResponseFormat {
  /// - Throws: for a malformed value, and for structured output, which needs constrained decoding.
  static func requireText(_ fields: inout Fields, limits: RequestLimits) throws(APIError) {
    guard var format = try fields.fields("response_format") else { return }
    let name = "response_format"
    switch try format.requiredString("type") {
    case "text": return
    case "json_object": break
    case "json_schema":
      guard var schema = try format.fields("json_schema") else { throw .missing("\(name).json_schema") }
      _ = try schema.string("name")
      guard try schema.object("schema") != nil else { throw .missing("\(name).json_schema.schema") }
    case let other:
      throw .invalidValue("\(name).type", "'\(APIError.shortened(other))' is not a response format")
    }
    throw .unsupportedValue(name, "this server does not constrain its output yet; only 'text' is possible")
  }
}
