// The bodies of POST /api/embed and /api/embeddings.

package import JSON

/// A request for vectors in Ollama's words that has been checked.
package struct OllamaEmbedRequest: Sendable {
  /// Without texts the model is only loaded.
  package var texts: [String]
  /// Whether a text that is too long is cut.
  package var truncates = true
  /// Elements of a vector; nil for all.
  package var dimensions: Int?
  package var normalizes = true
  package var keepAlive: KeepAlive?
  /// Fields that nobody knows.
  package var ignored: [String] = []
}

extension OllamaEmbedRequest {
  /// Reads the body of /api/embed.
  package init(_ body: JSONValue, limits: RequestLimits) throws(APIError) {
    var fields = try Fields(body)
    fields.limits = limits
    try self.init(&fields)
  }

  package init(_ fields: inout Fields) throws(APIError) {
    let most = fields.limits.embeddingInputs
    switch fields.value(
      "input", Shape.any(Shape.string, Shape.array(of: Shape.string, 0...most)), "a text, or a list of texts",
      like: #""Hello!""#)
    {
    case nil: texts = []
    case .string(let text)?: texts = text.utf8.isEmpty ? [] : [text]
    case .array(let values)?:
      try APIError.check(count: values.count, atMost: most, field: "input")
      texts = []
      for value in values {
        guard let text = value.stringValue else { throw Self.wrongInput }
        texts.append(text)
      }
    default: throw Self.wrongInput
    }
    truncates =
      try fields.bool("truncate", "cuts texts that are too long; true unless told otherwise") ?? true
    dimensions = try fields.integer(
      "dimensions", in: 0...1 << 24, "the first elements of a vector; 0 for all"
    )
    .flatMap { $0 > 0 ? $0 : nil }
    try readRest(&fields)
  }

  /// Reads the body of /api/embeddings.
  package init(single body: JSONValue, limits _: RequestLimits) throws(APIError) {
    var fields = try Fields(body)
    try self.init(single: &fields)
  }

  package init(single fields: inout Fields) throws(APIError) {
    let text = try fields.string("prompt", like: #""Hello!""#) ?? ""
    texts = text.utf8.isEmpty ? [] : [text]
    normalizes = false
    try readRest(&fields)
  }

  private mutating func readRest(_ fields: inout Fields) throws(APIError) {
    _ = fields.value("model", #"{"type": "string", "minLength": 1}"#, like: #""minilm""#)
    fields.need("model")
    fields.know("name")
    _ = try fields.object("options", .accepted("they are those of generation"))
    keepAlive = try KeepAlive(&fields)
    ignored = fields.unread
  }

  private static let wrongInput = APIError(
    status: 400, code: "invalid_type", param: "input", message: "invalid input type")
}
