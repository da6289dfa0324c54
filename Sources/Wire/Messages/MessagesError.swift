// Errors in Anthropic's shape.

package import JSON

/// An error in the shape of this wire.
package struct MessagesError: Sendable {
  private let type: String
  private let message: String
  private let requestID: String
  private let details: JSONValue?

  /// - Parameter requestID: of the connection, as in the header `request-id`.
  package init(_ error: APIError, requestID: String) {
    details = error.details
    type =
      switch error.status {
      case 401: "authentication_error"
      case 403: "permission_error"
      case 404: "not_found_error"
      case 413: "request_too_large"
      case 429: "rate_limit_error"
      case 503: "overloaded_error"
      case 500...: "api_error"
      default: "invalid_request_error"
      }
    message = error.overflow?.messagesMessage ?? error.message
    self.requestID = requestID
  }

  /// The body, or the data of an event.
  package var json: JSONValue {
    var error = JSONObject([("type", .string(type)), ("message", .string(message))])
    error["details"] = details
    return [
      "type": "error", "error": .object(error),
      "request_id": .string(requestID),
    ]
  }
}
