// The body of POST /v1/completions: plain text or token ids in, text out.

package import JSON

/// A request for plain completions that has been checked.
package struct CompletionRequest: Sendable {
  /// At least one.
  package var prompts: [TextInput]
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
    fields.vocabularySize = vocabularySize
    prompts = try fields.requiredInputs("prompt", "prompts", maxCount: limits.prompts, "").inputs
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
  private static func suffix(_ fields: inout Fields, _ prompts: [TextInput]) throws(APIError) -> String? {
    guard let suffix = try fields.string("suffix"), !suffix.utf8.isEmpty else { return nil }
    for prompt in prompts {
      guard case .text = prompt else { throw .invalidValue("suffix", "it needs a prompt that is text") }
    }
    return suffix
  }
}
