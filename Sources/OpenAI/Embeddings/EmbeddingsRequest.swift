// The body of POST /v1/embeddings: texts or token ids in, vectors out.

package import JSON

/// A request for vectors that has been checked.
package struct EmbeddingsRequest: Sendable {
  /// How vectors are written.
  package enum Encoding: String, Sendable {
    /// Numbers, with the shortest digits that read back as the same float32.
    case float
    /// Little-endian float32.
    case base64
  }

  /// Which end of a text goes when it is too long.
  package enum Truncation: String, Sendable {
    case right, left
  }

  /// What is put in front of every text.
  package enum Prompt: Sendable, Equatable {
    /// The model's default.
    case usual
    /// By the model's name for it.
    case named(String)
    case literal(String)
    /// What the model has for questions, and for what is found by them.
    case query, document
  }

  /// At least one.
  package var inputs: [TextInput]
  /// Whether `input` was an array of them: then errors count.
  package var isList: Bool
  package var encoding = Encoding.float
  /// Elements of a vector; nil for all.
  package var dimensions: Int?
  /// Nil refuses texts that are too long.
  package var truncation: Truncation?
  /// Most tokens of a text; nil for the model's limit.
  package var maxTokens: Int?
  package var prompt = Prompt.usual
  package var normalizes = true
  /// Top-level fields that nobody knows.
  package var ignored: [String] = []

  /// Bytes of the texts that are tokenized, the prompt once.
  package var textBytes: Int {
    var sum = 0
    for case .text(let text) in inputs { sum += text.utf8.count }
    if case .literal(let text) = prompt { sum += text.utf8.count }
    return sum
  }

  /// The path of an input.
  package func name(of index: Int) -> String { isList ? "input[\(index)]" : "input" }
}

extension EmbeddingsRequest {
  /// - Parameter vocabularySize: token ids in the body must be below it.
  /// - Throws: the first problem found, with the path of its field.
  package init(_ body: JSONValue, limits: RequestLimits, vocabularySize: Int) throws(APIError) {
    var fields = try Fields(body)
    _ = try fields.string("model")
    (inputs, isList) = try Self.reader(limits, vocabularySize).read(fields.required("input"), field: "input")
    if let word = try fields.word("encoding_format", of: ["float", "base64"]) {
      encoding = Encoding(rawValue: word) ?? .float
    }
    if let value = fields.value("dimensions") {
      guard case .int(let count) = value, count > 0 else {
        if value.doubleValue == nil {
          throw .wrongType("dimensions", expected: "an integer", found: value)
        }
        throw .invalidValue("dimensions", "expected an integer of at least 1, but got \(value.text)")
      }
      dimensions = count
    }
    (truncation, maxTokens) = try Self.truncation(&fields)
    prompt = try Self.prompt(&fields)
    normalizes = try fields.bool("normalize") ?? true
    try GenerationOptions.acceptDescriptions(&fields)
    ignored = fields.unread
  }

  /// `truncate`: a boolean or the end that goes. `truncate_prompt_tokens`: as vLLM has it, -1 for the model's limit.
  package static func truncation(_ fields: inout Fields) throws(APIError) -> (Truncation?, maxTokens: Int?) {
    var truncation: Truncation?
    switch fields.value("truncate") {
    case nil, .bool(false): break
    case .bool(true): truncation = .right
    case .string(let word):
      guard let end = Truncation(rawValue: word) else {
        throw .invalidValue(
          fields.name(of: "truncate"),
          "expected a boolean, 'left' or 'right', but got '\(APIError.shortened(word))'")
      }
      truncation = end
    case .some(let other):
      throw .wrongType(fields.name(of: "truncate"), expected: "a boolean, 'left' or 'right'", found: other)
    }
    guard let most = try fields.integer("truncate_prompt_tokens", in: -1...1 << 24) else {
      return (truncation, nil)
    }
    guard most != 0 else {
      throw .invalidValue(fields.name(of: "truncate_prompt_tokens"), "no token would be left")
    }
    return (truncation ?? .right, most < 0 ? nil : most)
  }

  /// Most bytes of a prompt, which is tokenized with every text.
  private static let longestPrompt = 1 << 16

  /// Of what is to be encoded.
  static func reader(_ limits: RequestLimits, _ vocabularySize: Int) -> TextInputReader {
    TextInputReader(noun: "inputs", maxCount: limits.embeddingInputs, vocabularySize: vocabularySize)
  }

  private static func prompt(_ fields: inout Fields) throws(APIError) -> Prompt {
    let name = try fields.string("prompt_name")
    let literal = try fields.string("prompt", maxBytes: longestPrompt)
    let type = try fields.word(
      "input_type", of: ["query", "document", "search_query", "search_document", "passage"])
    let given = [("prompt", literal), ("prompt_name", name), ("input_type", type)].filter { $0.1 != nil }
    if given.count > 1 {
      throw .invalidValue(given[1].0, "it cannot be given together with '\(given[0].0)'")
    }
    if let literal { return .literal(literal) }
    if let name { return .named(name) }
    switch type {
    case "query", "search_query": return .query
    case .some: return .document
    case nil: return .usual
    }
  }
}
