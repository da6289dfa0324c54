// The one error object of the API: HTTP status, type, code, the parameter at fault, and words.

package import JSON

/// An error as clients see it. `param` is the path of the field at fault: `messages[2].content`.
package struct APIError: Error, Sendable, Equatable, CustomStringConvertible {
  /// HTTP status.
  package var status: Int
  /// The kind of error, as OpenAI names it: `invalid_request_error`, `rate_limit_error`, `server_error`.
  package var type: String
  /// A stable word for programs, such as `invalid_value`.
  package var code: String?
  package var param: String?
  /// For a person: what is wrong, and where.
  package var message: String
  /// Seconds for the `Retry-After` header.
  package var retryAfter: Int?
  /// What a program can read beside the code, where the wire has a place for it.
  package var details: JSONValue?
  /// The prompt that is too long, if that is what is wrong: each wire has words of its own for it.
  package var overflow: ContextOverflow?

  package init(
    status: Int, type: String = "invalid_request_error", code: String?, param: String? = nil, message: String,
    retryAfter: Int? = nil
  ) {
    self.status = status
    self.type = type
    self.code = code
    self.param = param
    self.message = message
    self.retryAfter = retryAfter
  }

  package var description: String { message }

  /// `{"error": {...}}` with all four keys, and with `details` where there are any.
  package var json: JSONValue {
    var object = JSONObject([
      ("message", .string(message)), ("type", .string(type)),
      ("param", param.map(JSONValue.string) ?? nil), ("code", code.map(JSONValue.string) ?? nil),
    ])
    if let details { object["details"] = details }
    return ["error": .object(object)]
  }
}

extension APIError {
  private static func badRequest(_ code: String, _ param: String?, _ message: String) -> APIError {
    APIError(status: 400, code: code, param: param, message: message)
  }

  /// 400: a field that must be there is not.
  package static func missing(_ param: String) -> APIError {
    badRequest("missing_required_parameter", param, "Missing required parameter: '\(param)'.")
  }

  /// 400: a value of another type; without a field the body itself.
  package static func wrongType(_ param: String?, expected: String, found: JSONValue) -> APIError {
    let place = param.map { "Invalid type for '\($0)'" } ?? "Invalid type for the request body"
    return badRequest("invalid_type", param, "\(place): expected \(expected), but got \(found.kind).")
  }

  /// 400: a number that is too large.
  package static func aboveMaximum(_ param: String, kind: String, limit: String) -> APIError {
    badRequest("\(kind)_above_max_value", param, "Invalid '\(param)': expected a value of at most \(limit).")
  }

  /// 400: a number that is too small.
  package static func belowMinimum(_ param: String, kind: String, limit: String) -> APIError {
    badRequest("\(kind)_below_min_value", param, "Invalid '\(param)': expected a value of at least \(limit).")
  }

  /// 400 for an array of more elements than are taken.
  package static func check(count: Int, atMost limit: Int, field: String) throws(APIError) {
    guard count > limit else { return }
    throw badRequest(
      "array_above_max_length", field,
      "Invalid '\(field)': the array has \(count) elements, more than \(limit).")
  }

  /// 400: the type is right, the value is not.
  ///
  /// - Parameter problem: ends the sentence that names the field.
  package static func invalidValue(_ param: String, _ problem: String) -> APIError {
    // Words of others, as of a chat template, may be sentences.
    let end = problem.utf8.last.map { ".!?".utf8.contains($0) } ?? false ? "" : "."
    return badRequest("invalid_value", param, "Invalid '\(param)': \(problem)\(end)")
  }

  /// 400: the field means nothing that this server could do.
  package static func unsupportedParameter(
    _ param: String, _ reason: String = "this server does not support it"
  )
    -> APIError
  {
    badRequest("unsupported_parameter", param, "Unsupported parameter: '\(param)': \(reason).")
  }

  /// 400: the field can be honoured, but not with this value.
  package static func unsupportedValue(_ param: String, _ reason: String) -> APIError {
    badRequest("unsupported_value", param, "Unsupported value for '\(param)': \(reason).")
  }

  /// 400: nobody knows this field; for servers that are strict.
  package static func unknownParameter(_ param: String) -> APIError {
    badRequest(
      "unknown_parameter", shortened(param), "Unknown parameter: '\(shortened(param))'.")
  }

  /// The body is not JSON.
  package static func malformedJSON(_ error: JSONError) -> APIError {
    badRequest("invalid_json", nil, "The body of your request is not valid JSON: \(error).")
  }

  /// - Parameter known: the names there are; the first of them are told.
  package static func modelNotFound(_ name: String, known: [String]) -> APIError {
    let told = known.prefix(20).map { "'\(shortened($0))'" } + (known.count > 20 ? ["..."] : [])
    return APIError(
      status: 404, code: "model_not_found", param: "model",
      message: "The model '\(shortened(name))' does not exist. "
        + (told.isEmpty
          ? "This server has no models now." : "This server has \(told.joined(separator: ", "))."))
  }

  /// Text of a client in a message: bounded, so that an error is never larger than its request.
  package static func shortened(_ text: String, to limit: Int = 100) -> String {
    text.unicodeScalars.count <= limit
      ? text : String(String.UnicodeScalarView(text.unicodeScalars.prefix(limit))) + "…"
  }
}
