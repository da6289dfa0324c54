// The body of POST /v1/chat/completions: every field read, checked, refused or collected as unknown.

package import JSON

/// A request for a conversation's next message that has been checked. Every wire with conversations is read into one.
package struct ChatRequest: RequestBody {
  /// Checked messages as objects without null members, with placeholders for images and audio.
  package var messages: [JSONValue] = []
  /// What the placeholders stand for.
  package var media: [MediaPart] = []
  /// The tools that the model is told about.
  package var tools: [Tool] = []
  /// What the template shows of them, as OpenAI's objects: not what the conversation itself shows, unless that is all.
  package var shownTools: [JSONValue] {
    let shown = tools.filter { $0.place == .prompt }
    return (shown.isEmpty ? tools : shown).map(\.json)
  }
  package var toolChoice = ToolChoice.none
  /// The stores that the server searches when the model calls that tool.
  package var fileSearch: FileSearchTool?
  /// The servers whose tools this server calls; nil for none.
  package var remote: MCPTools?
  package var allowsParallelCalls = true
  /// What the content must look like; nil for free text.
  package var format: ResponseFormat?
  package var options = GenerationOptions()
  /// Alternatives to report with each token; nil when no log probabilities are wanted.
  package var topLogprobs: Int?
  /// Whether the model shall think; nil leaves it to the template.
  package var thinking: Bool?
  /// `minimal` to `max`, when given and not `none`.
  package var reasoningEffort: String?
  package var thinkingBudget: ThinkingBudget?
  /// Whether the text of reasoning is sent to the client.
  package var showsReasoning = true
  /// Extra variables of the chat template.
  package var templateArguments = JSONObject()
  package var addsGenerationPrompt = true
  package var continuesFinalMessage = false
  /// Whether the answer is kept, for clients to read it again.
  package var isStored = false
  /// Whether the answer begins with the text that it continues.
  package var echoes = false
  /// Text that the answer is likely to repeat.
  package var prediction: String?
  /// The field that holds the messages, for errors that are found later.
  package var messagesField = "messages"
  /// The field by which the final message is continued, for errors that are found later.
  package var continuationField = "continue_final_message"
  /// Top-level fields that nobody knows.
  package var ignored: [String] = []
  /// Tools and parts of messages that are left out, and what of tools is not enforced.
  package var dropped: [String] = []

  /// Nothing is said yet: a wire's reader fills it in.
  init() {}
}

extension ChatRequest {
  /// The tool that the model knows by a name.
  package func tool(named name: String) -> Tool? { tools.first { $0.name.utf8.elementsEqual(name.utf8) } }

  package init(_ fields: inout Fields) throws(APIError) {
    _ = try fields.model(
      "an id of `/v1/models`, exactly, or an alias; another one: 404 `model_not_found`"
    )
    try self.init(rest: &fields)
  }

  /// Reads all fields but `model`.
  package init(rest fields: inout Fields) throws(APIError) {
    let limits = fields.limits
    var reader = MessageReader(limits: limits)
    set(try reader.read(&fields))
    try Self.refuseUnsupported(&fields)
    let own = try Self.format(&fields)
    format = try ResponseFormat.read(&fields, own: own)
    set(try ToolSelection(chat: &fields, search: &fileSearch, limits: limits))
    options = try GenerationOptions(&fields)
    try options.readAnswers(&fields)
    topLogprobs = try Self.topLogprobs(&fields)
    templateArguments = try Self.templateArguments(&fields)
    set(try ThinkingOptions(chat: &fields, templateArguments: templateArguments, unknown: &ignored))
    continuesFinalMessage =
      try fields.bool(
        "continue_final_message",
        "goes on with an assistant message that stands last and has text",
        like: "false") ?? false
    addsGenerationPrompt = try fields.bool("add_generation_prompt") ?? !continuesFinalMessage
    try Self.checkContinuation(continuesFinalMessage, addsGenerationPrompt, messages)
    prediction = try Self.prediction(&fields)
    isStored =
      try fields.bool("store", "the answer is kept, streamed or not; false by default; see below") ?? false
    try Self.acceptHints(&fields)
    echoes =
      try fields.bool(
        "echo", "with `continue_final_message` the answer begins with the text that it continues",
        like: "false")
      ?? false
    if echoes, !continuesFinalMessage {
      throw .invalidValue("echo", "it needs 'continue_final_message': true")
    }
    try checkFileSearch()
    try ForeignFields.check(&fields)
  }

  /// An answer that is searched for is made of several generations: what is told of one alone cannot be told of it.
  private func checkFileSearch() throws(APIError) {
    guard fileSearch != nil, toolChoice != .none else { return }
    let reason = "it cannot be had together with the tool 'file_search'"
    for (field, isWanted) in [
      ("n", options.choices > 1), ("return_token_ids", options.returnsTokens),
      ("prompt_logprobs", options.promptLogprobs != nil), (continuationField, continuesFinalMessage),
    ] where isWanted {
      throw .unsupportedParameter(field, reason)
    }
  }

  mutating func set(_ written: Transcript) {
    let transcript = written.settled
    messages = transcript.messages
    media = transcript.media
    dropped += transcript.leftOut
  }

  mutating func set(_ selection: ToolSelection) {
    tools = selection.tools
    toolChoice = selection.choice
    allowsParallelCalls = selection.allowsParallelCalls
    dropped += selection.dropped
  }

  mutating func set(_ options: ThinkingOptions) {
    thinking = options.isOn
    reasoningEffort = options.effort
    thinkingBudget = options.budget
    showsReasoning = options.showsReasoning
  }

  /// `response_format`.
  static func format(_ fields: inout Fields) throws(APIError) -> ResponseFormat? {
    _ = fields.value(
      "response_format", Shape.named("ResponseFormat"),
      "`text`, `json_object` (with `schema` too), `json_schema`, `structural_tag` or `quote`; see below",
      like: #"{"type":"text"}"#)
    guard var format = try fields.fields("response_format") else { return nil }
    let reader = FormatReader(limits: fields.limits)
    return try reader.typed(&format) { (format) throws(APIError) in
      var description = try format.requiredFields("json_schema")
      return try reader.described(&description)
    }
  }

  private static func refuseUnsupported(_ fields: inout Fields) throws(APIError) {
    if let modalities = try fields.array(
      "modalities", of: #"{"const": "text"}"#, maxCount: 16, "`audio` is refused", like: #"["text"]"#)
    {
      for modality in modalities {
        guard let word = modality.stringValue else {
          throw .wrongType("modalities", expected: "an array of strings", found: modality)
        }
        guard word == "text" else {
          throw .unsupportedValue("modalities", "this server answers with text only")
        }
      }
    }
    _ = try fields.object("audio", .accepted("means nothing without the audio modality"))
    try fields.refuse("functions", because: "it is deprecated; use 'tools'", like: "[]")
    try fields.refuse("function_call", because: "it is deprecated; use 'tool_choice'", like: #""auto""#)
    try fields.refuse("moderation", because: "this server does not moderate")
    try fields.refuse(
      "web_search_options",
      because: "this server does not search the web; an 'mcp' tool of POST /v1/responses can")
    try fields.refuse("chat_template", because: "the template comes with the model")
  }

  /// Fields that only hint; their types are checked.
  private static func acceptHints(_ fields: inout Fields) throws(APIError) {
    try GenerationOptions.acceptDescriptions(&fields)
    _ = try fields.word("verbosity", of: ["low", "medium", "high"], .accepted())
  }

  /// Alternatives to report with each token; nil for no log probabilities.
  static func topLogprobs(_ fields: inout Fields) throws(APIError) -> Int? {
    let isWanted =
      try fields.bool(
        "logprobs",
        "of the content's tokens, by the model's own distribution, before bias, penalties and temperature"
      ) ?? false
    let top = try fields.integer(
      "top_logprobs", in: 0...fields.limits.topLogprobs, "alternatives to each, with `logprobs`", like: "3")
    fields.rule(
      #"""
      {"anyOf": [{"properties": {"top_logprobs": {"enum": [0, null]}}},
        {"required": ["logprobs"], "properties": {"logprobs": {"const": true}}}]}
      """#)
    if let top, top > 0, !isWanted {
      throw .invalidValue("top_logprobs", "it is only allowed together with 'logprobs': true")
    }
    return isWanted ? top ?? 0 : nil
  }
}

// MARK: Predictions

extension ChatRequest {
  private static func prediction(_ fields: inout Fields) throws(APIError) -> String? {
    _ = fields.value(
      "prediction", Shape.object, "tokens that match are computed together; the answer does not change",
      like: #"{"type":"content","content":"x"}"#)
    guard var prediction = try fields.fields("prediction") else { return nil }
    _ = try prediction.word("type", of: ["content"])
    switch prediction.value("content") {
    case nil: return nil
    case .string(let text)?: return text
    case .array(let parts)?:
      var text = ""
      for (index, value) in parts.enumerated() {
        var part = try Fields(value, path: "prediction.content[\(index)]")
        _ = try part.word("type", of: ["text"])
        text += try part.requiredString("text")
      }
      return text
    case let value?:
      throw .wrongType("prediction.content", expected: "a string or an array of text parts", found: value)
    }
  }
}

// MARK: The template

extension ChatRequest {
  /// Variables that the server itself gives to the template.
  private static let ownVariables = [
    "messages", "tools", "documents", "add_generation_prompt", "continue_final_message", "bos_token",
    "eos_token",
    "pad_token", "unk_token", "chat_template", "tokenize", "strftime_now", "raise_exception",
  ]

  /// `chat_template_kwargs`, which Responses has too.
  static func templateArguments(_ fields: inout Fields) throws(APIError) -> JSONObject {
    let name = "chat_template_kwargs"
    let limits = fields.limits
    guard
      let arguments = try fields.object(
        name,
        "variables of the chat template, up to 64 KiB; those that the server sets are refused",
        like: #"{"enable_thinking":false}"#)
    else { return JSONObject() }
    for key in ownVariables where arguments[key] != nil {
      throw .invalidValue("\(name).\(key)", "the server sets this variable itself")
    }
    guard JSONValue.object(arguments).bytes.count <= limits.templateArgumentBytes else {
      throw .invalidValue(name, "it is larger than \(limits.templateArgumentBytes) bytes")
    }
    return arguments
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
