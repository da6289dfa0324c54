// The body of POST /v1/completions: plain text or token ids in, text out.

import JSON

/// A request for plain completions that has been checked.
package struct CompletionRequest: RequestBody {
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
  package var ignored: [String] = []

  /// What `max_tokens` is when absent.
  package static let defaultMaxTokens = 16
}

extension CompletionRequest {
  package init(_ fields: inout Fields) throws(APIError) {
    let limits = fields.limits
    _ = try fields.model()
    prompts = try fields.requiredInputs(
      "prompt", "prompts", maxCount: limits.prompts,
      "a string, token ids, or a list of up to \(limits.prompts) of either; choices are numbered prompt by prompt",
      like: #""Once upon a time""#
    ).inputs
    options = try GenerationOptions(&fields, minimumTokens: 0)
    try options.readAnswers(&fields)
    options.maxTokens = options.maxTokens ?? Self.defaultMaxTokens
    logprobs = try fields.integer(
      "logprobs", in: 0...limits.completionLogprobs,
      "alternatives; with `echo` for the prompt too; offsets count Unicode scalars of `text`",
      like: "3")
    echoes = try fields.bool("echo", "the answer begins with the prompt") ?? false
    if let best = try fields.integer("best_of", in: 1...limits.choices, "the value of `n` only"),
      best != options.choices
    {
      throw .unsupportedValue("best_of", "only the value of 'n' (\(options.choices)) is possible")
    }
    suffix = try Self.suffix(&fields, prompts)
    if suffix != nil, echoes { throw .invalidValue("echo", "the text of the prompt is in two parts") }
    try fields.refuse("tools", because: "tools are for /v1/chat/completions", like: "[]")
    try fields.refuse(
      "top_logprobs", because: "in a completion 'logprobs' is the number of alternatives", like: "2")
    try fields.refuse("prompt_embeds", because: "prompts are text or token ids", like: #""AA==""#)
    let own = try ChatRequest.format(&fields)
    format = try ResponseFormat.read(&fields, own: own)
    guard prompts.count * options.choices <= limits.allChoices else {
      throw .aboveMaximum(
        "n", kind: "integer", limit: "\(limits.allChoices / prompts.count) for \(prompts.count) prompts")
    }
    try GenerationOptions.acceptDescriptions(&fields)
    addsSpecialTokens = try fields.bool("add_special_tokens", "false: the prompt's text alone") ?? true
    try ForeignFields.check(&fields)
  }
}

extension CompletionRequest {
  private static func suffix(_ fields: inout Fields, _ prompts: [TextInput]) throws(APIError) -> String? {
    guard
      let suffix = try fields.string(
        "suffix", "what comes after; for models that [fill in the middle](editors.md), else refused",
        like: #""""#), !suffix.utf8.isEmpty
    else { return nil }
    for prompt in prompts {
      guard case .text = prompt else { throw .invalidValue("suffix", "it needs a prompt that is text") }
    }
    return suffix
  }
}
