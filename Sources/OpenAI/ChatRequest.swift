// The body of POST /v1/chat/completions: every field read, checked, refused or collected as unknown.

package import JSON

package struct ChatRequest: Sendable {
  package var model: String
  /// Checked messages as objects without null members.
  package var messages: [JSONValue]
  /// The tools that may be called; empty when `tool_choice` is `none`.
  package var tools: [Tool]
  package var allowsParallelCalls: Bool
  package var options: GenerationOptions
  /// Alternatives to report with each token; nil when no log probabilities are wanted.
  package var topLogprobs: Int?
  /// Whether the model shall think; nil leaves it to the template.
  package var thinking: Bool?
  /// `minimal` to `max`, when given and not `none`.
  package var reasoningEffort: String?
  package var showsReasoning: Bool
  /// Extra variables of the chat template.
  package var templateArguments: JSONObject
  package var addsGenerationPrompt: Bool
  package var continuesFinalMessage: Bool
  /// Top-level fields that nobody knows.
  package var ignored: [String]
}

extension ChatRequest {
  /// - Parameter vocabularySize: token ids in the body must be below it.
  /// - Throws: the first problem found, with the path of its field.
  package init(_ body: JSONValue, limits: RequestLimits, vocabularySize: Int) throws(APIError) {
    var fields = try Fields(body)
    model = try Self.model(&fields)
    messages = try MessageReader(limits: limits).read(&fields)
    try Self.refuseUnsupported(&fields)
    try ResponseFormat.requireText(&fields, limits: limits)
    let selection = try ToolSelection(&fields, limits: limits)
    tools = selection.tools
    allowsParallelCalls = selection.allowsParallelCalls
    options = try GenerationOptions(
      &fields, limits: limits, minimumTokens: 1, vocabularySize: vocabularySize)
    topLogprobs = try Self.topLogprobs(&fields, limits: limits)
    let arguments = try Self.templateArguments(&fields, limits: limits)
    templateArguments = arguments
    (thinking, reasoningEffort) = try Self.reasoning(&fields, templateArguments: arguments)
    showsReasoning = try fields.bool("include_reasoning") ?? true
    continuesFinalMessage = try fields.bool("continue_final_message") ?? false
    addsGenerationPrompt = try fields.bool("add_generation_prompt") ?? !continuesFinalMessage
    try Self.checkContinuation(continuesFinalMessage, addsGenerationPrompt, messages)
    try Self.acceptHints(&fields)
    ignored = fields.unread
  }

  static func model(_ fields: inout Fields) throws(APIError) -> String {
    let model = try fields.requiredString("model")
    guard !model.utf8.isEmpty else { throw .invalidValue("model", "it is empty") }
    return model
  }

  private static func refuseUnsupported(_ fields: inout Fields) throws(APIError) {
    if let modalities = try fields.array("modalities", maxCount: 16) {
      for modality in modalities {
        guard let word = modality.stringValue else {
          throw .wrongType("modalities", expected: "an array of strings", found: modality)
        }
        guard word == "text" else {
          throw .unsupportedValue("modalities", "this server answers with text only")
        }
      }
    }
    _ = try fields.object("audio")
    try fields.refuse("functions", because: "it is deprecated; use 'tools'")
    try fields.refuse("function_call", because: "it is deprecated; use 'tool_choice'")
    try fields.refuse("moderation", because: "this server does not moderate")
    try fields.refuse("web_search_options", because: "this server does not search the web")
    try fields.refuse("chat_template", because: "the template comes with the model")
  }

  /// Fields that only hint; their types are checked.
  private static func acceptHints(_ fields: inout Fields) throws(APIError) {
    try GenerationOptions.acceptDescriptions(&fields)
    _ = try fields.object("prediction")
    _ = try fields.word("verbosity", of: ["low", "medium", "high"])
  }

  private static func topLogprobs(_ fields: inout Fields, limits: RequestLimits) throws(APIError) -> Int? {
    let isWanted = try fields.bool("logprobs") ?? false
    let top = try fields.integer("top_logprobs", in: 0...limits.topLogprobs)
    if let top, top > 0, !isWanted {
      throw .invalidValue("top_logprobs", "it is only allowed together with 'logprobs': true")
    }
    return isWanted ? top ?? 0 : nil
  }
}

// MARK: Thinking and the template

extension ChatRequest {
  /// Variables that the server itself gives to the template.
  private static let ownVariables = [
    "messages", "tools", "documents", "add_generation_prompt", "continue_final_message", "bos_token",
    "eos_token",
    "pad_token", "unk_token", "chat_template", "tokenize", "strftime_now", "raise_exception",
  ]

  private static func templateArguments(_ fields: inout Fields, limits: RequestLimits) throws(APIError)
    -> JSONObject
  {
    let name = "chat_template_kwargs"
    guard let arguments = try fields.object(name) else { return JSONObject() }
    for key in ownVariables where arguments[key] != nil {
      throw .invalidValue("\(name).\(key)", "the server sets this variable itself")
    }
    guard JSONValue.object(arguments).bytes.count <= limits.templateArgumentBytes else {
      throw .invalidValue(name, "it is larger than \(limits.templateArgumentBytes) bytes")
    }
    return arguments
  }

  /// `thinking` decides first, then `reasoning_effort`, then `chat_template_kwargs.enable_thinking`.
  private static func reasoning(_ fields: inout Fields, templateArguments: JSONObject) throws(APIError)
    -> (thinking: Bool?, effort: String?)
  {
    var thinking: Bool?
    switch fields.value("thinking") {
    case nil: break
    case .bool(let flag)?: thinking = flag
    case .object?:
      var options = try fields.fields("thinking")
      thinking = try options?.word("type", of: ["enabled", "disabled", "adaptive"]).map { $0 != "disabled" }
    case let value?: throw .wrongType("thinking", expected: "a boolean or an object", found: value)
    }
    let effort = try fields.word(
      "reasoning_effort", of: ["none", "minimal", "low", "medium", "high", "xhigh", "max"])
    if let effort, thinking == nil { thinking = effort != "none" }
    if let given = templateArguments["enable_thinking"], !given.isNull {
      guard let flag = given.boolValue else {
        throw .wrongType("chat_template_kwargs.enable_thinking", expected: "a boolean", found: given)
      }
      thinking = thinking ?? flag
    }
    return (thinking, thinking == false || effort == "none" ? nil : effort)
  }

  private static func checkContinuation(_ continues: Bool, _ addsPrompt: Bool, _ messages: [JSONValue])
    throws(APIError)
  {
    guard continues else { return }
    guard !addsPrompt else {
      throw .invalidValue("continue_final_message", "it cannot be true together with 'add_generation_prompt'")
    }
    guard messages.last?["role"] == "assistant" else {
      throw .invalidValue("continue_final_message", "the last message is not the assistant's")
    }
  }
}
