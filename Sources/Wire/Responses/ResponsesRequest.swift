// The body of POST /v1/responses: every field read, checked, refused or collected as unknown.

package import JSON
package import Sampling

/// A Responses request, checked as far as it can be without the store.
package struct ResponsesRequest: Sendable {
  /// What to add to items of the answer.
  package struct Inclusions: Sendable, Equatable {
    package var logprobs = false
    package var encryptedReasoning = false
    package var fileSearchResults = false

    package init() {}
  }

  package var model: String
  /// Not read yet: references need the store.
  package var input: JSONValue?
  package var instructions: String?
  package var previousResponseID: String?
  package var conversationID: String?
  package var isStored: Bool
  package var isBackground: Bool
  package var isStreamed: Bool
  /// False on a WebSocket only, to prepare a conversation without an answer.
  package var generates: Bool
  /// Whether old items are dropped when the prompt is too long.
  package var truncates: Bool
  package var include: Inclusions
  /// Whether reasoning is to be written as a summary.
  package var wantsSummary: Bool
  /// Fields that nobody knows.
  package var unknown: [String]
  /// What has no effect here, by its places in the body.
  package var unused: [String]
  /// Most searches and calls of the response.
  package var maxToolCalls: Int?

  /// What it becomes, but for the messages.
  private var chat: ChatRequest
  private var tools: ResponsesTools
  private var echo: JSONObject
}

extension ResponsesRequest {
  /// What Chat Completions calls otherwise. To drop them would be to drop what the client relies on.
  private static let moved = [
    ("response_format", "text.format"), ("reasoning_effort", "reasoning.effort"),
    ("max_tokens", "max_output_tokens"), ("max_completion_tokens", "max_output_tokens"),
    ("messages", "input"),
  ]

  package static let inclusions = [
    "file_search_call.results", "web_search_call.results", "web_search_call.action.sources",
    "message.input_image.image_url", "computer_call_output.output.image_url", "code_interpreter_call.outputs",
    "reasoning.encrypted_content", "message.output_text.logprobs",
  ]

  /// - Parameters:
  ///   - isMessage: whether it came over a WebSocket, where a request has no transport of its own.
  ///   - vocabularySize: token ids in the body must be below it.
  /// - Throws: the first problem found, with the path of its field.
  package init(
    _ body: JSONValue, isMessage: Bool, limits: RequestLimits, vocabularySize: Int
  ) throws(APIError) {
    var fields = try Fields(body)
    (fields.limits, fields.vocabularySize) = (limits, vocabularySize)
    try self.init(&fields, isMessage: isMessage)
  }

  package init(_ fields: inout Fields, isMessage: Bool = false) throws(APIError) {
    let limits = fields.limits
    model = try fields.model()
    input = fields.value(
      "input", Shape.any(Shape.string, Shape.array(of: Shape.object, 1...limits.messages)),
      "text, or a list of items, see below; may be missing after earlier turns", like: #""Hello!""#)
    instructions = try fields.string(
      "instructions", "comes first as a system message; not inherited by later responses",
      like: #""Be brief.""#)
    previousResponseID = try fields.string(
      "previous_response_id",
      "goes on from a stored response that has ended; not together with `conversation`",
      like: #""resp_1""#)
    conversationID = try Self.conversation(&fields)
    try Self.refuseUnsupported(&fields)
    tools = try ResponsesTools(&fields, limits: limits)
    let text = try ResponsesText(&fields, limits: limits)
    chat = ChatRequest()
    chat.messagesField = "input"
    chat.allowsParallelCalls = tools.selection.allowsParallelCalls
    chat.fileSearch = tools.fileSearch
    chat.format = try ResponseFormat.read(&fields, own: text.format)
    chat.options = try GenerationOptions(&fields, tokenLimits: ["max_output_tokens"])
    chat.templateArguments = try ChatRequest.templateArguments(&fields)
    isStored =
      try fields.bool(
        "store", "true by default; false: cannot be retrieved or continued (but see WebSocket)", like: "false"
      ) ?? true
    isBackground =
      try fields.bool(
        "background",
        "true answers at once with `queued`; at most 32 at a time, more get 429; not with `store: false`",
        like: "false") ?? false
    isStreamed = try fields.bool("stream", "also together with `background`") ?? false
    generates = isMessage ? try fields.bool("generate") ?? true : true
    truncates =
      try fields.word(
        "truncation", of: ["auto", "disabled"],
        "`auto` leaves out the oldest turns of a prompt that is too long"
      ) == "auto"
    include = try Self.inclusions(
      fields.array(
        "include", of: Shape.words(Self.inclusions), maxCount: 100,
        "encrypted reasoning, log probabilities and results of searches; others mean nothing here",
        like: #"["reasoning.encrypted_content"]"#) ?? [])
    echo = JSONObject()
    wantsSummary = false
    unknown = []
    unused = try ContextManagement.entries(&fields, isObject: false)
    maxToolCalls = nil
    _ = try fields.object(
      "stream_options", .accepted("nothing is added"), like: #"{"include_obfuscation":false}"#
    ) { (options) throws(APIError) in try options.bool("include_obfuscation") }
    try readReasoning(&fields)
    try readLogprobs(&fields, limits: limits)
    try readEchoed(&fields)
    echo["tools"] = .array(tools.echoed)
    echo["text"] = .object(text.echo)
    if isMessage { for name in ["type", "stream_id"] { _ = fields.value(name) } }
    try ForeignFields.check(&fields)
    unknown = fields.unread
    fields.rule(
      #"""
      {"anyOf": [
        {"required": ["input"], "properties": {"input": {"type": ["string", "array"]}, "conversation": {"type": "null"}}},
        {"required": ["conversation"], "properties": {"conversation": {"type": ["string", "object"]},
          "previous_response_id": {"type": "null"}}},
        {"required": ["previous_response_id"], "properties": {"previous_response_id": {"type": "string"},
          "conversation": {"type": "null"}}}]}
      """#)
    if fields.isNoted { return }
    try check(isMessage: isMessage)
  }

  private func check(isMessage: Bool) throws(APIError) {
    if input == nil, previousResponseID == nil, conversationID == nil { throw .missing("input") }
    if previousResponseID != nil, conversationID != nil {
      throw APIError(
        status: 400, code: "mutually_exclusive_parameters", param: "previous_response_id",
        message: "'previous_response_id' and 'conversation' cannot be used together.")
    }
    if isBackground, isMessage {
      throw .unsupportedParameter("background", "a WebSocket answers on the socket")
    }
    if isBackground, !isStored {
      throw .invalidValue("background", "background can only be used when `store` is true")
    }
  }

  private static func conversation(_ fields: inout Fields) throws(APIError) -> String? {
    let shape = #"{"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}}"#
    let value = fields.value(
      "conversation", Shape.any(Shape.string, shape),
      "an id, or `{\"id\":...}`; input and output are appended when the response is completed or incomplete",
      like: #""conv_1""#)
    if case .object? = value {
      var conversation = try fields.fields("conversation")
      return try conversation?.requiredString("id")
    }
    return try fields.string("conversation")
  }

  private static func refuseUnsupported(_ fields: inout Fields) throws(APIError) {
    try fields.refuse("prompt", because: "this server holds no prompt templates", like: #"{"id":"p"}"#)
    try fields.refuse("moderation", because: "this server does not moderate")
    try fields.refuse("access_programs", because: "this server has none", like: "[]")
    for (name, place) in Self.moved {
      try fields.refuse(name, because: "in the Responses API it is '\(place)'", like: #""x""#)
    }
    _ = fields.value("n", #"{"const": 1}"#, "a response has one answer", like: "1")
    if let choices = try fields.integer("n", in: 1...Int.max), choices > 1 {
      throw .unsupportedParameter("n", "a response has one answer")
    }
    _ = fields.value(
      "logprobs", #"{"const": false}"#, "ask for `top_logprobs`, or include `message.output_text.logprobs`",
      like: "false")
    if try fields.bool("logprobs") == true {
      throw .unsupportedParameter(
        "logprobs", "ask for 'top_logprobs', or include 'message.output_text.logprobs'")
    }
    try fields.object("image", .accepted(), like: #"{"context_compression":"auto"}"#) {
      (image) throws(APIError) in
      _ = try image.word("context_compression", of: ["auto", "enabled", "disabled"])
      image.rule(#"{"propertyNames": {"const": "context_compression"}}"#)
      if let other = image.unread.first { throw .unsupportedParameter("image.\(other)") }
    }
  }

  /// What the words of `include` ask for.
  ///
  /// - Throws: 400 for a word that OpenAI does not know. Words about tools of others are taken and mean nothing.
  package static func inclusions(_ values: [JSONValue]) throws(APIError) -> Inclusions {
    var include = Inclusions()
    for (index, value) in values.enumerated() {
      let name = "include[\(index)]"
      guard let word = value.stringValue else { throw .wrongType(name, expected: "a string", found: value) }
      guard inclusions.contains(where: { $0.utf8.elementsEqual(word.utf8) }) else {
        throw .invalidValue(name, "'\(APIError.shortened(word))' cannot be included")
      }
      if word == "reasoning.encrypted_content" { include.encryptedReasoning = true }
      if word == "message.output_text.logprobs" { include.logprobs = true }
      if word == "file_search_call.results" { include.fileSearchResults = true }
    }
    return include
  }

  private mutating func readReasoning(_ fields: inout Fields) throws(APIError) {
    var effort: String?
    var summary: String?
    _ = fields.value(
      "reasoning",
      #"""
      {"type": "object", "properties": {"effort": {"type": "string"}, "summary": {"enum": ["auto", "concise", "detailed"]},
        "generate_summary": {"enum": ["auto", "concise", "detailed"]},
        "context": {"enum": ["auto", "current_turn", "all_turns"]}, "mode": {"type": "string"}}}
      """#, "`effort` as in chat; `summary` writes reasoning as a summary; other members are accepted",
      like: #"{"effort":"low"}"#)
    if var reasoning = try fields.fields("reasoning") {
      effort = try reasoning.word("effort", of: ThinkingOptions.efforts)
      let words = ["auto", "concise", "detailed"]
      let old = try reasoning.word("generate_summary", of: words)
      summary = try reasoning.word("summary", of: words) ?? old
      _ = try reasoning.word("context", of: ["auto", "current_turn", "all_turns"])
      _ = try reasoning.string("mode")
    }
    wantsSummary = summary != nil
    var thinking = ThinkingOptions()
    try thinking.readSwitches(&fields)
    try thinking.settle(level: effort, templateArguments: chat.templateArguments)
    chat.set(thinking)
    // The published schema knows only these levels.
    let isEchoed = effort.map { ["none", "low", "medium", "high", "xhigh"].contains($0) } ?? false
    echo["reasoning"] = [
      "effort": isEchoed ? effort.map(JSONValue.string) ?? nil : nil,
      "summary": summary.map(JSONValue.string) ?? nil,
    ]
  }

  private mutating func readLogprobs(_ fields: inout Fields, limits: RequestLimits) throws(APIError) {
    let top =
      try fields.integer(
        "top_logprobs", in: 0...limits.topLogprobs, "includes `message.output_text.logprobs`", like: "2")
      ?? 0
    // Alternatives are requested in order to be seen.
    if top > 0 { include.logprobs = true }
    echo["top_logprobs"] = .int(top)
    if include.logprobs { chat.topLogprobs = top }
  }

  /// Fields that the response repeats and that change nothing else.
  private mutating func readEchoed(_ fields: inout Fields) throws(APIError) {
    for name in ["max_tool_calls", "max_output_tokens"] {
      let words = "most searches in files and calls of `mcp` tools of the response"
      echo[name] =
        try fields.integer(name, in: 1...Int.max, "\(words)", like: "5").map(JSONValue.int) ?? .null
    }
    maxToolCalls = echo["max_tool_calls"]?.intValue
    try GenerationOptions.acceptDescriptions(&fields)
    for name in ["prompt_cache_key", "safety_identifier"] { echo[name] = fields.value(name) ?? .null }
    for name in ["user", "prompt_cache_retention"] {
      if let value = fields.value(name) { echo[name] = value }
    }
    echo["metadata"] = fields.value("metadata") ?? [:]
    echo["parallel_tool_calls"] = .bool(chat.allowsParallelCalls)
    echo["tool_choice"] = fields.value("tool_choice") ?? "auto"
  }
}

// MARK: What it becomes

extension ResponsesRequest {
  /// The same request as a chat request.
  ///
  /// - Parameters:
  ///   - context: items of earlier turns.
  ///   - input: this request's own items.
  /// - Throws: 400 in terms of the Responses body.
  package func chatRequest(context: [JSONValue], input: ResponsesInput, limits: RequestLimits)
    throws(APIError) -> ChatRequest
  {
    var tools = tools
    try tools.load(context, paths: [], limits: limits)
    try tools.load(input.items, paths: input.paths, limits: limits)
    var messages = ResponsesMessages(instructions: instructions, limits: limits)
    try messages.add(context, paths: [])
    try messages.add(input.items, paths: input.paths)
    var chat = chat
    chat.set(try messages.finish())
    chat.set(try tools.chosen(limits: limits))
    var remote = tools.remote ?? MCPTools(servers: [], choices: nil, isForced: false)
    try remote.read(context, ResponsesInputItems(items: input.items, paths: input.paths))
    chat.remote = remote.servers.isEmpty ? nil : remote
    return chat
  }

  /// The numbers of its sampling that a response tells.
  private static let echoedSampling: [SamplingField] = [
    .temperature, .topP, .presencePenalty, .frequencyPenalty,
  ]

  /// The response's members that do not change while it is made.
  ///
  /// - Parameter sampling: what the model's file and the request say together.
  package func responseBody(id: String, createdAt: Int, sampling: SamplingOverrides) -> JSONObject {
    var body = JSONObject()
    body["id"] = .string(id)
    body["object"] = "response"
    body["created_at"] = .int(createdAt)
    body["completed_at"] = .null
    body["status"] = "in_progress"
    body["background"] = .bool(isBackground)
    body["error"] = .null
    body["incomplete_details"] = .null
    body["instructions"] = instructions.map { JSONValue.string($0) } ?? .null
    body["model"] = .string(model)
    body["output"] = []
    body["previous_response_id"] = previousResponseID.map { JSONValue.string($0) } ?? .null
    if let conversationID { body["conversation"] = ["id": .string(conversationID)] }
    body["service_tier"] = "default"
    body["store"] = .bool(isStored)
    for field in Self.echoedSampling { body[field.name] = .double(sampling.effective(field)) }
    body["truncation"] = truncates ? "auto" : "disabled"
    body["usage"] = .null
    for (key, value) in echo.entries where body[key] == nil { body[key] = value }
    return body
  }
}
