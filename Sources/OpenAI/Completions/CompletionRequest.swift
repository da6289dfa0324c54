// The body of POST /v1/completions: plain text or token ids in, text out.

package import JSON

/// A request for plain completions that has been checked.
package struct CompletionRequest: Sendable {
  /// One prompt: text, or the ids of tokens.
  package enum Prompt: Sendable, Equatable {
    case text(String)
    case tokens([Int32])
  }

  /// At least one.
  package var prompts: [Prompt]
  package var options: GenerationOptions
  /// Alternatives to report with each token; nil when no log probabilities are wanted.
  package var logprobs: Int?
  /// Whether the answer begins with the prompt.
  package var echoes: Bool
  /// What comes after the text that is wanted; nil where nothing does.
  package var suffix: String?
  /// Whether the tokenizer adds its special tokens around a text.
  package var addsSpecialTokens: Bool
  /// What the text must look like; nil for free text.
  package var format: ResponseFormat?
  /// Top-level fields that nobody knows.
  package var ignored: [String]

  /// What `max_tokens` is when absent.
  package static let defaultMaxTokens = 16
}

extension CompletionRequest {
  /// - Parameters:
  ///   - vocabularySize: token ids in the body must be below it.
  /// - Throws: the first problem found, with the path of its field.
  package init(_ body: JSONValue, limits: RequestLimits, vocabularySize: Int) throws(APIError) {
    var fields = try Fields(body)
    _ = try fields.model()
    prompts = try PromptReader(limits: limits, vocabularySize: vocabularySize).read(&fields)
    options = try GenerationOptions(
      &fields, limits: limits, vocabularySize: vocabularySize, minimumTokens: 0)
    try options.readAnswers(&fields, limits: limits)
    options.maxTokens = options.maxTokens ?? Self.defaultMaxTokens
    logprobs = try fields.integer("logprobs", in: 0...limits.completionLogprobs)
    echoes = try fields.bool("echo") ?? false
    if let best = try fields.integer("best_of", in: 1...limits.choices), best != options.choices {
      throw .unsupportedValue("best_of", "only the value of 'n' (\(options.choices)) is possible")
    }
    suffix = try Self.suffix(&fields, prompts)
    if suffix != nil, echoes { throw .invalidValue("echo", "the text of the prompt is in two parts") }
    try fields.refuse("tools", because: "tools are for /v1/chat/completions")
    try fields.refuse("top_logprobs", because: "in a completion 'logprobs' is the number of alternatives")
    try fields.refuse("prompt_embeds", because: "prompts are text or token ids")
    let own = try ChatRequest.format(&fields, limits: limits)
    format = try ResponseFormat.read(&fields, own: own, limits: limits)
    guard prompts.count * options.choices <= limits.allChoices else {
      throw .aboveMaximum(
        "n", kind: "integer", limit: "\(limits.allChoices / prompts.count) for \(prompts.count) prompts")
    }
    try GenerationOptions.acceptDescriptions(&fields)
    addsSpecialTokens = try fields.bool("add_special_tokens") ?? true
    ignored = try ForeignFields.unknown(in: fields)
  }
}

extension CompletionRequest {
  private static func suffix(_ fields: inout Fields, _ prompts: [Prompt]) throws(APIError) -> String? {
    guard let suffix = try fields.string("suffix"), !suffix.utf8.isEmpty else { return nil }
    for prompt in prompts {
      guard case .text = prompt else { throw .invalidValue("suffix", "it needs a prompt that is text") }
    }
    return suffix
  }
}

/// The four forms of `prompt`.
private struct PromptReader {
  let limits: RequestLimits
  let vocabularySize: Int

  func read(_ fields: inout Fields) throws(APIError) -> [CompletionRequest.Prompt] {
    let value = try fields.required("prompt")
    switch value {
    case .string(let text): return [.text(text)]
    case .array(let elements):
      guard let first = elements.first else { throw .invalidValue("prompt", "it is empty") }
      if isInteger(first) { return [.tokens(try tokens(elements, path: "prompt"))] }
      guard elements.count <= limits.prompts else {
        throw .invalidValue("prompt", "there are \(elements.count) prompts, more than \(limits.prompts)")
      }
      var prompts: [CompletionRequest.Prompt] = []
      for (index, element) in elements.enumerated() {
        prompts.append(try prompt(element, like: first, index: index))
      }
      return prompts
    default:
      throw .wrongType("prompt", expected: "a string, token ids, or an array of either", found: value)
    }
  }

  private func prompt(_ element: JSONValue, like first: JSONValue, index: Int) throws(APIError)
    -> CompletionRequest.Prompt
  {
    let path = "prompt[\(index)]"
    switch (element, first) {
    case (.string(let text), .string): return .text(text)
    case (.array(let ids), .array): return .tokens(try tokens(ids, path: path))
    default:
      throw .wrongType(
        path, expected: "prompts of one kind (strings, or arrays of token ids)", found: element)
    }
  }

  private func tokens(_ elements: [JSONValue], path: String) throws(APIError) -> [Int32] {
    guard !elements.isEmpty else { throw .invalidValue(path, "it is empty") }
    var ids: [Int32] = []
    ids.reserveCapacity(elements.count)
    for (index, element) in elements.enumerated() {
      ids.append(try TokenID.read(element, vocabularySize: vocabularySize, name: "\(path)[\(index)]"))
    }
    return ids
  }

  private func isInteger(_ value: JSONValue) -> Bool {
    switch value {
    case .int, .bigInteger: true
    default: false
    }
  }
}
