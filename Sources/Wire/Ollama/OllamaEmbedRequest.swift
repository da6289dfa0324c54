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
    switch fields.value("input") {
    case nil: texts = []
    case .string(let text)?: texts = text.utf8.isEmpty ? [] : [text]
    case .array(let values)?:
      try APIError.check(count: values.count, atMost: limits.embeddingInputs, field: "input")
      texts = []
      for value in values {
        guard let text = value.stringValue else { throw Self.wrongInput }
        texts.append(text)
      }
    default: throw Self.wrongInput
    }
    truncates = try fields.bool("truncate") ?? true
    dimensions = try fields.integer("dimensions", in: 0...1 << 24).flatMap { $0 > 0 ? $0 : nil }
    try readRest(&fields)
  }

  /// Reads the body of /api/embeddings.
  package init(single body: JSONValue, limits: RequestLimits) throws(APIError) {
    var fields = try Fields(body)
    let text = try fields.string("prompt") ?? ""
    texts = text.utf8.isEmpty ? [] : [text]
    normalizes = false
    try readRest(&fields)
  }

  private mutating func readRest(_ fields: inout Fields) throws(APIError) {
    for name in ["model", "name"] { _ = fields.value(name) }
    // Options are those of generation: none has a meaning here.
    _ = try fields.object("options")
    if let value = fields.value("keep_alive") { keepAlive = try KeepAlive(value) }
    ignored = fields.unread
  }

  private static let wrongInput = APIError(
    status: 400, code: "invalid_type", param: "input", message: "invalid input type")
}
