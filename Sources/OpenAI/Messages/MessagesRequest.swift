// The body of POST /v1/messages: Anthropic's words, read into the request that all wires share.

package import JSON
import Sampling

/// A request of Anthropic's wire that has been checked.
package struct MessagesRequest: Sendable {
  /// What is asked for, as a chat request.
  package var chat: ChatRequest
  /// Whether the text of thoughts is sent; their blocks are, either way.
  package var showsThinking: Bool
  /// Top-level fields that nobody knows.
  package var ignored: [String]
  private let names: FieldNames
}

extension MessagesRequest {
  /// Fields that mean the same on both wires, by the same name. Most are not Anthropic's.
  private static let shared =
    SamplingField.allCases.map(\.name)
    + ["max_tokens", "stream", "seed", "logit_bias", "min_tokens", "stop_token_ids", "ignore_eos"]

  /// - Parameters:
  ///   - vocabularySize: token ids in the body must be below it.
  ///   - onlyCounts: the prompt alone is of interest: `max_tokens` may be missing.
  /// - Throws: the first problem found, with the path of its field.
  package init(_ body: JSONValue, limits: RequestLimits, vocabularySize: Int, onlyCounts: Bool = false)
    throws(APIError)
  {
    var fields = try Fields(body)
    var chat = JSONObject([("model", .string(try ChatRequest.model(&fields)))])
    for name in Self.shared { chat[name] = fields.value(name) }
    if !onlyCounts { _ = try fields.required("max_tokens") }
    var conversation = MessagesConversation(limits: limits)
    try conversation.read(&fields)
    chat["messages"] = .array(conversation.messages)
    if conversation.endsWithAssistant { chat["continue_final_message"] = true }
    chat["stop"] = fields.value("stop_sequences")
    showsThinking = try Self.readThinking(&fields, into: &chat)
    var names = conversation.names
    names.add("stop", as: "stop_sequences")
    try Self.readTools(&fields, limits: limits, into: &chat, &names)
    try Self.readOutput(&fields, into: &chat, &names)
    try Self.acceptHints(&fields)
    do throws(APIError) {
      self.chat = try ChatRequest(.object(chat), limits: limits, vocabularySize: vocabularySize)
    } catch {
      throw names.translated(error)
    }
    self.names = names
    ignored = fields.unread
  }

  /// An error about the chat request, in the words of this wire.
  package func translated(_ error: APIError) -> APIError { names.translated(error) }

  // MARK: Thinking and output

  /// Without the field the model does not think.
  ///
  /// - Returns: whether the text of thoughts is to be sent.
  private static func readThinking(_ fields: inout Fields, into chat: inout JSONObject) throws(APIError)
    -> Bool
  {
    guard var thinking = try fields.fields("thinking") else {
      chat["thinking"] = ["type": "disabled"]
      return true
    }
    _ = try thinking.requiredString("type")
    let type = try thinking.word("type", of: ["enabled", "disabled", "adaptive"]) ?? "disabled"
    var switches = JSONObject([("type", .string(type))])
    if let budget = try thinking.integer("budget_tokens", in: 1...Int.max), type == "enabled" {
      if case .int(let limit)? = chat["max_tokens"], budget >= limit {
        throw .invalidValue("thinking.budget_tokens", "it must be less than 'max_tokens'")
      }
      switches["budget_tokens"] = .int(budget)
    }
    chat["thinking"] = .object(switches)
    return try thinking.word("display", of: ["summarized", "omitted"]) != "omitted"
  }

  private static func readOutput(
    _ fields: inout Fields, into chat: inout JSONObject, _ names: inout FieldNames
  ) throws(APIError) {
    guard var config = try fields.fields("output_config") else { return }
    chat["reasoning_effort"] = config.value("effort")
    names.add("reasoning_effort", as: "output_config.effort")
    guard var format = try config.fields("format") else { return }
    guard try format.requiredString("type") == "json_schema" else {
      throw .invalidValue("output_config.format.type", "expected 'json_schema'")
    }
    let schema = try format.required("schema")
    chat["response_format"] = [
      "type": "json_schema", "json_schema": ["name": "output", "schema": schema, "strict": true],
    ]
    names.add("response_format", as: "output_config.format")
    names.add("response_format.json_schema", as: "output_config.format")
  }

  /// Fields that only hint; their types are checked.
  private static func acceptHints(_ fields: inout Fields) throws(APIError) {
    if var metadata = try fields.fields("metadata") { _ = try metadata.string("user_id") }
    _ = try fields.object("cache_control")
    _ = try fields.word("service_tier", of: ["auto", "standard_only"])
    _ = try fields.word("speed", of: ["standard", "fast"])
    _ = try fields.string("inference_geo")
    try fields.refuse("container", because: "this server runs no containers")
    try fields.refuse("mcp_servers", because: "this server calls no tools itself")
  }

  // MARK: Tools

  private static func readTools(
    _ fields: inout Fields, limits: RequestLimits, into chat: inout JSONObject, _ names: inout FieldNames
  ) throws(APIError) {
    if let values = try fields.array("tools", maxCount: limits.tools) {
      var tools: [JSONValue] = []
      for (index, value) in values.enumerated() {
        let path = "tools[\(index)]"
        tools.append(["type": "function", "function": .object(try readTool(value, path: path))])
        names.add("\(path).function", as: path)
        names.add("\(path).function.parameters", as: "\(path).input_schema")
      }
      chat["tools"] = .array(tools)
    }
    guard var choice = try fields.fields("tool_choice") else { return }
    switch try choice.requiredString("type") {
    case "auto": chat["tool_choice"] = "auto"
    case "any": chat["tool_choice"] = "required"
    case "none": chat["tool_choice"] = "none"
    case "tool":
      let name = try choice.requiredString("name")
      chat["tool_choice"] = ["type": "function", "function": ["name": .string(name)]]
      names.add("tool_choice.function", as: "tool_choice")
    case let type:
      throw .invalidValue(
        "tool_choice.type",
        "expected one of 'auto', 'any', 'tool', 'none', but got '\(APIError.shortened(type))'")
    }
    if try choice.bool("disable_parallel_tool_use") == true { chat["parallel_tool_calls"] = false }
  }

  private static func readTool(_ value: JSONValue, path: String) throws(APIError) -> JSONObject {
    var tool = try Fields(value, path: path)
    let type = try tool.string("type") ?? "custom"
    guard type == "custom" else {
      throw .unsupportedValue(
        "\(path).type", "'\(APIError.shortened(type))' tools belong to another provider")
    }
    var function = JSONObject([("name", .string(try tool.requiredString("name")))])
    function["description"] = tool.value("description")
    function["parameters"] = try tool.required("input_schema")
    function["strict"] = tool.value("strict")
    return function
  }
}
