// The bodies of POST /api/chat and /api/generate: Ollama's words, read into the request that wires share.

package import JSON

/// A request of Ollama's wire that has been checked.
package struct OllamaRequest: Sendable {
  /// The request, as a chat request; without messages where only the model is to be loaded.
  package var chat = ChatRequest()
  /// What `/api/generate` is to continue as it is, without a template; nil where there is a conversation.
  package var rawPrompt: String?
  /// What stands after the text that is wanted; nil where nothing does.
  package var suffix: String?
  /// Nil where nothing is said: then models that can reason do.
  package var thinks: Bool?
  /// Whether old messages may be dropped that do not fit.
  package var truncates = true
  /// `num_ctx`: most tokens of prompt and answer together.
  package var contextLimit: Int?
  /// How long the model stays after this request; nil where nothing is said.
  package var keepAlive: KeepAlive?
  /// Whether the prompt alone is of interest: `num_predict` is 0.
  package var onlyPrompt = false
  /// Whether the rendered prompt is wanted instead of an answer.
  package var onlyRenders = false
  /// Fields and options that nobody knows or that cannot be honoured.
  package var ignored: [String] = []

  /// Whether there is nothing to answer: the model is loaded, or unloaded.
  package var isEmpty: Bool { chat.messages.isEmpty && rawPrompt == nil }
}

/// How long a model stays in memory without requests.
package enum KeepAlive: Sendable, Equatable {
  case forever
  /// 0 unloads it after the request.
  case seconds(Double)

  /// `keep_alive` of a body; nil where nothing is said.
  init?(_ fields: inout Fields) throws(APIError) {
    let duration = #"^[+-]?(0|([0-9]{1,9}(\\.[0-9]{1,9})?(ns|us|µs|ms|s|m|h)){1,3})$"#
    let value = fields.value(
      "keep_alive", Shape.any(#"{"type": "number"}"#, #"{"type": "string", "pattern": "\#(duration)"}"#),
      "how long the model stays without requests, seconds or `5m`; 0 unloads it, a negative one keeps it",
      like: "60")
    guard let value else { return nil }
    try self.init(value)
  }

  /// A number of seconds, or a duration as Go writes it: `300ms`, `1.5h`, `1h30m`; what is negative is for ever.
  package init(_ value: JSONValue) throws(APIError) {
    let seconds: Double?
    if let number = value.doubleValue {
      seconds = number
    } else {
      seconds = value.stringValue.flatMap(Self.duration)
    }
    guard let seconds else {
      throw .invalidValue(
        "keep_alive", "expected seconds as a number, or a duration such as \"5m\" or \"1h30m\"")
    }
    self = seconds < 0 ? .forever : .seconds(min(seconds, 1e9))
  }

  /// Seconds; nil for what is no duration.
  static func duration(_ text: String) -> Double? {
    var rest = Array(text.utf8)[...]
    let isNegative = rest.first == UInt8(ascii: "-")
    if isNegative || rest.first == UInt8(ascii: "+") { rest = rest.dropFirst() }
    if rest.elementsEqual([UInt8(ascii: "0")]) { return 0 }
    guard !rest.isEmpty, rest.count <= 64 else { return nil }
    let units: [(String, Double)] = [
      ("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1), ("m", 60), ("h", 3600),
    ]
    var seconds = 0.0
    while !rest.isEmpty {
      let digits = rest.prefix { $0 == UInt8(ascii: ".") || (0x30...0x39).contains($0) }
      rest = rest.dropFirst(digits.count)
      let unit = rest.prefix { $0 != UInt8(ascii: ".") && !(0x30...0x39).contains($0) }
      rest = rest.dropFirst(unit.count)
      guard let number = Double(String(decoding: digits, as: UTF8.self)),
        let size = units.first(where: { $0.0.utf8.elementsEqual(unit) })?.1
      else { return nil }
      seconds += number * size
    }
    return isNegative ? -seconds : seconds
  }
}

extension OllamaRequest {
  /// The name of the model that a body asks for.
  ///
  /// - Throws: 400 where there is none.
  package static func model(of body: JSONValue) throws(APIError) -> String {
    var fields = try Fields(body)
    return try model(&fields)
  }

  private static let nameShape = #"{"type": "string", "minLength": 1}"#

  /// The same of a body that has no more to say.
  package static func model(_ fields: inout Fields) throws(APIError) -> String {
    let model = fields.value("model", nameShape, like: #""demo""#)
    let other = fields.value("name", nameShape, "the same")
    if fields.isNoted { return try fields.one(of: ["model", "name"], nameShape) }
    guard let name = (model ?? other)?.stringValue, !name.utf8.isEmpty else {
      throw APIError(
        status: 400, code: "missing_required_parameter", param: "model", message: "model is required")
    }
    return name
  }

  /// Reads the body of /api/chat.
  package init(chat body: JSONValue, limits: RequestLimits) throws(APIError) {
    var fields = try Fields(body)
    fields.limits = limits
    try self.init(chat: &fields)
  }

  package init(chat fields: inout Fields) throws(APIError) {
    let limits = fields.limits
    _ = fields.value("model", Self.nameShape, like: #""demo""#)
    fields.need("model")
    var reader = OllamaMessages(limits: limits)
    chat.set(try reader.read(&fields))
    try readShared(&fields, limits: limits)
    var tools = ToolSelection()
    let shape = #"""
      {"type": "object", "required": ["function"], "properties": {"type": {"type": "string"}, "function": {
        "type": "object", "required": ["name"], "properties": {
          "name": {"type": "string", "pattern": "^[a-zA-Z0-9_.-]{1,128}$"}, "description": {"type": "string"},
          "parameters": {"type": "object"}, "strict": {"type": "boolean"}}}}}
      """#
    for (index, value) in (try fields.array("tools", of: shape, maxCount: limits.tools) ?? []).enumerated() {
      var tool = try Fields(value, path: "tools[\(index)]")
      _ = try tool.string("type")
      var function = try tool.requiredFields("function")
      try tools.add(Tool(&function, allowsDots: true, limits: limits))
    }
    try tools.choose(.auto, limits: limits)
    chat.set(tools)
    onlyRenders = try fields.bool("_debug_render_only", "the rendered prompt instead of an answer") ?? false
    ignored += fields.unread
  }

  /// Reads the body of /api/generate.
  package init(generate body: JSONValue, limits: RequestLimits) throws(APIError) {
    var fields = try Fields(body)
    fields.limits = limits
    try self.init(generate: &fields)
  }

  package init(generate fields: inout Fields) throws(APIError) {
    let limits = fields.limits
    _ = fields.value("model", Self.nameShape, like: #""demo""#)
    fields.need("model")
    let prompt = try fields.string("prompt") ?? ""
    let system = try fields.string("system") ?? ""
    let images = fields.value("images", Shape.array(of: Shape.string, 0...Int.max), "base64, PNG or JPEG")
    let isRaw = try fields.bool("raw", "the prompt is continued as it is, without a template") ?? false
    fields.rule(
      #"""
      {"anyOf": [{"properties": {"raw": {"enum": [false, null]}}}, {"properties": {"system": {"enum": ["", null]}}}]}
      """#)
    _ = fields.value("template", #"{"const": ""}"#, .refusedByMost("the template comes with the model"))
    if try fields.string("template")?.utf8.isEmpty == false {
      throw .unsupportedParameter("template", "the template comes with the model")
    }
    _ = fields.value("context", #"{"type": "array", "maxItems": 0}"#, .refusedByMost("use /api/chat"))
    if try fields.array("context", maxCount: .max)?.isEmpty == false {
      throw .unsupportedParameter("context", "send the conversation to /api/chat")
    }
    suffix = try fields.string("suffix").flatMap { $0.utf8.isEmpty ? nil : $0 }
    if suffix != nil {
      // Marks take the place of the template.
      rawPrompt = prompt
      if !system.utf8.isEmpty { ignored.append("system") }
    } else if isRaw {
      guard system.utf8.isEmpty else {
        throw .invalidValue("raw", "a raw prompt has no template for 'system': write it into the prompt")
      }
      rawPrompt = prompt.utf8.isEmpty ? nil : prompt
    } else if !prompt.utf8.isEmpty {
      var messages: [JSONValue] = []
      if !system.utf8.isEmpty { messages.append(["role": "system", "content": .string(system)]) }
      var message = JSONObject([("role", "user"), ("content", .string(prompt))])
      message["images"] = images
      messages.append(.object(message))
      var inner = try Fields(.object(JSONObject([("messages", .array(messages))])))
      var reader = OllamaMessages(limits: limits)
      chat.set(try reader.read(&inner))
    }
    chat.messagesField = "prompt"
    try readShared(&fields, limits: limits)
    ignored += fields.unread
  }

  private mutating func readShared(_ fields: inout Fields, limits: RequestLimits) throws(APIError) {
    chat.options.streams =
      try fields.bool("stream", "lines of JSON, unless it is false", like: "false") ?? true
    truncates = try fields.bool("truncate", "old messages that do not fit are dropped") ?? true
    _ = try fields.bool("shift", .accepted("generation ends at the limit, whatever it says"))
    keepAlive = try KeepAlive(&fields)
    try readThinking(&fields)
    try readFormat(&fields, limits: limits)
    try readLogprobs(&fields, limits: limits)
    try chat.options.readPromptFields(&fields)
    try chat.options.readReceipt(&fields)
    _ = fields.value("options", Shape.object, "see below", like: #"{"num_predict":16}"#)
    if let options = try fields.fields("options") { try readOptions(options, limits: limits) }
  }

  private mutating func readThinking(_ fields: inout Fields) throws(APIError) {
    switch fields.value(
      "think", Shape.any(Shape.boolean, Shape.words(["low", "medium", "high", "max"])),
      "on for models that can reason", like: "false")
    {
    case nil: break
    case .bool(let flag)?: thinks = flag
    case .string(let word)? where ["low", "medium", "high", "max"].contains(word):
      thinks = true
      chat.reasoningEffort = word
    default:
      throw .invalidValue("think", "expected a boolean or one of 'low', 'medium', 'high', 'max'")
    }
  }

  private mutating func readFormat(_ fields: inout Fields, limits: RequestLimits) throws(APIError) {
    switch fields.value(
      "format", Shape.any(Shape.object, Shape.words(["", "json"])), "`json` or a schema", like: #""json""#)
    {
    case nil, .string("")?: break
    case .string("json")?: chat.format = ResponseFormat(.anyObject, param: "format")
    case .object(let schema)?:
      guard JSONValue.object(schema).bytes.count <= limits.schemaBytes else {
        throw .invalidValue("format", "the schema is larger than \(limits.schemaBytes) bytes")
      }
      chat.format = ResponseFormat(.schema(.object(schema)), param: "format")
    default: throw .invalidValue("format", "expected \"json\" or a JSON schema")
    }
  }

  private mutating func readLogprobs(_ fields: inout Fields, limits: RequestLimits) throws(APIError) {
    let isWanted = try fields.bool("logprobs", "of the tokens of the answer") ?? false
    let top = try fields.integer("top_logprobs", in: 0...limits.topLogprobs, "alternatives to each") ?? 0
    if isWanted || top > 0 { chat.topLogprobs = top }
  }
}
