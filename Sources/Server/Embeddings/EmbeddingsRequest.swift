// The body of POST /v1/embeddings: texts or token ids in, vectors out.

import JSON
import Wire

/// A request for vectors that has been checked.
struct EmbeddingsRequest: RequestBody {
  /// How vectors are written.
  enum Encoding: String, CaseIterable, Sendable {
    /// Numbers, with the shortest digits that read back as the same float32.
    case float
    /// Little-endian float32.
    case base64
  }

  /// Which end of a text goes when it is too long.
  enum Truncation: String, Sendable {
    case right, left
  }

  /// What is put in front of every text.
  enum Prompt: Sendable, Equatable {
    /// The model's default.
    case usual
    /// By the model's name for it.
    case named(String)
    case literal(String)
    /// What the model has for questions, and for what is found by them.
    case query, document
  }

  /// At least one.
  let inputs: [TextInput]
  /// Whether `input` was an array of them: then errors count.
  let isList: Bool
  let encoding: Encoding
  let dimensions: Int?
  let truncation: Truncation?
  let maxTokens: Int?
  let prompt: Prompt
  let normalizes: Bool
  var ignored: [String] = []

  init(_ fields: inout Fields) throws(APIError) {
    try fields.anyModel()
    let limits = fields.limits
    (inputs, isList) = try fields.requiredInputs(
      "input", "inputs", maxCount: limits.embeddingInputs,
      "a text, token ids, or up to \(limits.embeddingInputs) of either with \(limits.embeddingTokens) tokens together",
      like: #""Hello!""#)
    encoding =
      try fields.word(
        "encoding_format", of: Encoding.allCases.map(\.rawValue),
        "`float`, or `base64` of little-endian float32",
        like: #""base64""#
      ).flatMap(Encoding.init) ?? .float
    dimensions = try Self.dimensions(&fields)
    (truncation, maxTokens) = try Self.truncation(
      &fields, "a text that is too long loses that end, and `truncated` lists it")
    prompt = try Self.prompt(&fields)
    normalizes =
      try fields.bool(
        "normalize", "false leaves vectors as the model makes them; by default their length is 1",
        like: "false")
      ?? true
    try GenerationOptions.acceptDescriptions(&fields)
  }

  private static func dimensions(_ fields: inout Fields) throws(APIError) -> Int? {
    guard
      let value = fields.value(
        "dimensions", Shape.integer(1...Int.max),
        "the first elements; for models trained for it, or any with `--allow-truncation`",
        like: "2")
    else { return nil }
    if case .int(let count) = value, count > 0 { return count }
    if value.doubleValue == nil { throw .wrongType("dimensions", expected: "an integer", found: value) }
    throw .invalidValue("dimensions", "expected an integer of at least 1, but got \(value.text)")
  }

  /// `truncate`: a boolean or the end that goes. `truncate_prompt_tokens`: as vLLM has it, -1 for the model's limit.
  ///
  /// - Parameter effect: what happens to what is too long, for documents.
  static func truncation(_ fields: inout Fields, _ effect: @autoclosure () -> String) throws(APIError) -> (
    Truncation?, maxTokens: Int?
  ) {
    var truncation: Truncation?
    switch fields.value(
      "truncate", Shape.any(Shape.boolean, Shape.words(["left", "right"])),
      "`true`, `\"right\"` or `\"left\"`: \(effect()); by default it is refused", like: "true")
    {
    case nil, .bool(false): break
    case .bool(true): truncation = .right
    case .string(let word):
      guard let end = Truncation(rawValue: word) else {
        throw .invalidValue(
          "truncate", "expected a boolean, 'left' or 'right', but got '\(APIError.shortened(word))'")
      }
      truncation = end
    case .some(let other):
      throw .wrongType("truncate", expected: "a boolean, 'left' or 'right'", found: other)
    }
    guard
      let most = try fields.integer(
        "truncate_prompt_tokens", in: -1...1 << 24,
        "most tokens of a text or pair, special ones included; -1 for the model's limit", like: "8")
    else { return (truncation, nil) }
    guard most != 0 else { throw .invalidValue("truncate_prompt_tokens", "no token would be left") }
    return (truncation ?? .right, most < 0 ? nil : most)
  }

  /// Most bytes of a prompt, which is tokenized with every text.
  private static let longestPrompt = 1 << 16

  private static func prompt(_ fields: inout Fields) throws(APIError) -> Prompt {
    let name = try fields.string(
      "prompt_name", "one of the model's prompts, which `/v1/models` lists", like: #""query""#)
    let literal = try fields.string(
      "prompt", maxBytes: longestPrompt, "a text in front of every text", like: #""query: ""#)
    let type = try fields.word(
      "input_type", of: ["query", "document", "search_query", "search_document", "passage"],
      "the model's prompt for what is searched, or for what is found, if it has one")
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

extension EmbeddingsRequest {
  /// Bytes of the texts that are tokenized, the prompt once.
  var textBytes: Int {
    var sum = 0
    for case .text(let text) in inputs { sum += text.utf8.count }
    if case .literal(let text) = prompt { sum += text.utf8.count }
    return sum
  }

  /// The path of an input.
  func name(of index: Int) -> String { isList ? "input[\(index)]" : "input" }
}
