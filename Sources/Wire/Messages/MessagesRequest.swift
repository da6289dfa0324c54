// The body of POST /v1/messages: Anthropic's words, read into the request that wires share.

package import JSON

/// A request of Anthropic's wire that has been checked.
package struct MessagesRequest: Sendable {
  /// The request, as a chat request.
  package var chat: ChatRequest
  /// Whether the text of reasoning is sent; its blocks are, either way.
  package var showsThinking: Bool
  /// Top-level fields that nobody knows.
  package var ignored: [String]
}

extension MessagesRequest {
  /// - Parameters:
  ///   - vocabularySize: token ids in the body must be below it.
  ///   - onlyCounts: the prompt alone is of interest: `max_tokens` may be missing.
  /// - Throws: the first problem found, with the path of its field.
  package init(_ body: JSONValue, limits: RequestLimits, vocabularySize: Int, onlyCounts: Bool = false)
    throws(APIError)
  {
    var fields = try Fields(body)
    (fields.limits, fields.vocabularySize) = (limits, vocabularySize)
    try self.init(&fields, onlyCounts: onlyCounts)
  }

  package init(_ fields: inout Fields, onlyCounts: Bool) throws(APIError) {
    _ = try fields.model()
    if !onlyCounts {
      _ = try fields.required(
        "max_tokens", Shape.integer(1...Int.max), "not needed to count tokens; includes thinking", like: "64")
    }
    let limits = fields.limits
    chat = ChatRequest()
    let given = try MessagesConversation.Given(&fields)
    let tools = try Self.tools(&fields, found: given, limits: limits)
    var conversation = MessagesConversation(limits: limits, tools: tools)
    try conversation.read(given)
    chat.set(conversation.transcript)
    if let field = conversation.continuedField {
      chat.continuesFinalMessage = true
      chat.addsGenerationPrompt = false
      chat.continuationField = field
    }
    chat.options = try GenerationOptions(&fields, tokenLimits: ["max_tokens"], stop: "stop_sequences")
    chat.options.streams = try fields.bool("stream", "named events, no `[DONE]`") ?? false
    // Not Anthropic's words: chat's, for those who want them here.
    chat.topLogprobs = try ChatRequest.topLogprobs(&fields)
    var thinking = ThinkingOptions()
    showsThinking = try Self.readThinking(&fields, maxTokens: chat.options.maxTokens, into: &thinking)
    var unused = try ContextManagement.entries(&fields, isObject: true)
    // To count tokens it means nothing.
    let compaction = fields.value(
      "compaction", Shape.object, "left out, and named in `x-mlxserve-ignored`", like: "{}")
    if compaction != nil, !onlyCounts { unused.append("compaction") }
    chat.set(tools)
    chat.dropped += unused
    _ = fields.value(
      "output_config",
      #"""
      {"type": "object", "properties": {"effort": {"enum": ["low", "medium", "high", "xhigh", "max"]},
        "format": {"type": "object", "required": ["type", "schema"],
          "properties": {"type": {"const": "json_schema"}, "schema": {"type": "object"}}}}}
      """#, "`effort` as `reasoning_effort`, `format` as `response_format`", like: #"{"effort":"low"}"#)
    var output = try fields.fields("output_config")
    try thinking.settle(level: output?.word("effort", of: ThinkingOptions.efforts))
    chat.set(thinking)
    let format = try Self.format(&output, limits: limits)
    chat.format = try ResponseFormat.read(&fields, own: format)
    try Self.acceptHints(&fields)
    try ForeignFields.check(&fields)
    ignored = fields.unread
  }

  // MARK: Thinking and output

  /// Without the field the model does not think.
  ///
  /// - Returns: whether the text of reasoning is to be sent.
  private static func readThinking(
    _ fields: inout Fields, maxTokens: Int?, into options: inout ThinkingOptions
  ) throws(APIError) -> Bool {
    _ = fields.value(
      "thinking",
      #"""
      {"type": "object", "required": ["type"], "properties": {"type": {"enum": ["enabled", "disabled", "adaptive"]},
        "budget_tokens": {"type": "integer", "minimum": 1}, "display": {"enum": ["summarized", "omitted", "updates"]}}}
      """#,
      "absent is `disabled`; `enabled` has `budget_tokens`; `display` `omitted` hides the text, `updates` is `summarized`",
      like: #"{"type":"adaptive"}"#)
    guard var thinking = try fields.fields("thinking") else {
      options.propose(isOn: false)
      return true
    }
    _ = try thinking.requiredString("type")
    let type = try thinking.word("type", of: ["enabled", "disabled", "adaptive"])
    options.propose(isOn: type != "disabled")
    if let budget = try thinking.integer("budget_tokens", in: 1...Int.max), type == "enabled" {
      let field = thinking.name(of: "budget_tokens")
      if let maxTokens, budget >= maxTokens {
        throw .invalidValue(field, "it must be less than 'max_tokens'")
      }
      options.propose(budget: budget, field: field)
    }
    // Claude Code asks for `updates` first, and without it only after two refusals. Either way the text is sent as it is made.
    return try thinking.word("display", of: ["summarized", "omitted", "updates"]) != "omitted"
  }

  private static func format(_ config: inout Fields?, limits: RequestLimits) throws(APIError)
    -> ResponseFormat?
  {
    guard var format = try config?.fields("format") else { return nil }
    guard try format.requiredString("type") == "json_schema" else {
      throw .invalidValue(format.name(of: "type"), "expected 'json_schema'")
    }
    return try FormatReader(limits: limits).schema(in: &format)
  }

  /// Fields that only hint; their types are checked.
  private static func acceptHints(_ fields: inout Fields) throws(APIError) {
    _ = try fields.object("metadata", .accepted(), like: #"{"user_id":"u"}"#) { (metadata) throws(APIError) in
      try metadata.string("user_id")
    }
    _ = try fields.object("cache_control", .accepted("the longest common beginning is found without it"))
    _ = try fields.word(
      "service_tier", of: ["auto", "standard_only"], .accepted("the usage says `standard`"))
    _ = try fields.word("speed", of: ["standard", "fast"], .accepted())
    _ = try fields.string("inference_geo", .accepted(), like: #""us""#)
    try refuseThread(&fields)
    try fields.refuse("container", because: "this server runs no containers", like: #""c""#)
    try fields.refuse("mcp_servers", because: "this server calls no tools itself", like: "[]")
    try fields.refuse("stop", because: "here it is 'stop_sequences'", like: #"["END"]"#)
    try fields.refuse(
      "response_format", because: "here it is 'output_config.format'", like: #"{"type":"text"}"#)
    try fields.refuse("reasoning_effort", because: "here it is 'output_config.effort'", like: #""low""#)
    if let count = fields.value("n", #"{"const": 1}"#, "a message has one answer", like: "1"), count != 1 {
      throw .unsupportedParameter("n", "a message has one answer")
    }
  }

  /// Conversations that the server holds are not kept: the details tell clients to send theirs whole.
  private static func refuseThread(_ fields: inout Fields) throws(APIError) {
    let words = "this server holds no conversations; send the whole one without 'thread'"
    guard fields.value("thread", Shape.null, .refused(words), like: #"{"type":"thread"}"#) != nil else {
      return
    }
    var error = APIError.unsupportedParameter("thread", words)
    error.details = ["error_code": "thread_unsupported_request"]
    throw error
  }

  // MARK: Tools

  private static func tools(
    _ fields: inout Fields, found: MessagesConversation.Given, limits: RequestLimits
  ) throws(APIError) -> ToolSelection {
    var selection = ToolSelection()
    var hasHostedSearch = false
    let tools = try fields.array(
      "tools", of: Shape.named("MessagesTool"), maxCount: limits.tools,
      "`type` is absent or `custom`, or names a tool that the client runs; see below",
      like: #"[{"name":"f","input_schema":{"type":"object"}}]"#)
    for (index, value) in (tools ?? []).enumerated() {
      var tool = try Fields(value, path: "tools[\(index)]")
      let type = try tool.string("type") ?? "custom"
      if type == "custom" {
        let function = try Tool(&tool, schema: "input_schema", limits: limits)
        _ = try tool.required("input_schema")
        try selection.add(function)
      } else if let functions = try MessagesClientTools.read(&tool, type: type, limits: limits) {
        for function in functions { try selection.add(function) }
      } else {
        hasHostedSearch = hasHostedSearch || type.utf8.starts(with: "tool_search_tool".utf8)
        try selection.drop(tool, type: type, limits: limits)
      }
    }
    for name in found.references(ofProvider: true) { selection.load(name, place: .prompt) }
    for name in found.references(ofProvider: false) { selection.load(name, place: .result) }
    // Some tool of the client has to find the others.
    if hasHostedSearch || selection.tools.allSatisfy({ $0.place != .prompt }) { selection.loadAll() }
    var choice = ToolChoiceWords.auto
    _ = fields.value(
      "tool_choice",
      #"""
      {"type": "object", "required": ["type"], "properties": {"type": {"enum": ["auto", "any", "tool", "none"]},
        "name": {"type": "string"}, "disable_parallel_tool_use": {"type": "boolean"}}}
      """#,
      "`any` and `tool` are `required` and a named function above; `auto`, `none`",
      like: #"{"type":"auto"}"#)
    if var fields = try fields.fields("tool_choice") {
      choice = try ToolChoiceWords(messages: &fields)
      selection.allowsParallelCalls = try fields.bool("disable_parallel_tool_use") != true
    }
    try selection.readHiding(&fields)
    try selection.choose(choice, limits: limits)
    return selection
  }
}

extension ToolChoiceWords {
  fileprivate init(messages choice: inout Fields) throws(APIError) {
    switch try choice.requiredString("type") {
    case "auto": self = .auto
    case "any": self = .required("any")
    case "none": self = .none
    case "tool": self = .named(try Name(&choice))
    case let type:
      throw .invalidValue(
        choice.name(of: "type"),
        "expected one of 'auto', 'any', 'tool', 'none', but got '\(APIError.shortened(type))'")
    }
  }
}
