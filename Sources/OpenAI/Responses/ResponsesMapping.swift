// Responses fields in the words of Chat Completions, so that both wires have one reader for what they share.
//
// Tools, the choice among them, the output format, reasoning and sampling become members of a chat body; errors
// about that body are translated back.

import JSON
import Sampling

struct ResponsesMapping {
  /// Members of the chat body.
  private(set) var chat = JSONObject()
  /// Tools as the response echoes them.
  private(set) var echoedTools: [JSONValue] = []
  /// Tools left out because this server does not know their type.
  private(set) var dropped: [String] = []
  /// From fields of the chat body to fields of the Responses body.
  private var names: FieldNames = [
    "response_format": "text.format", "response_format.json_schema": "text.format",
    "reasoning_effort": "reasoning.effort", "logprobs": "include", "tool_choice.function": "tool_choice",
    "tool_choice.allowed_tools": "tool_choice",
  ]
  /// `text.format` as the response echoes it.
  private(set) var echoedFormat: JSONValue = ["type": "text"]

  /// Sampling and length, which have the same names and meaning on both wires.
  private static let shared =
    SamplingField.allCases.map(\.name) + [
      "max_output_tokens", "min_tokens", "seed", "stop", "stop_token_ids", "logit_bias", "ignore_eos",
      "parallel_tool_calls", "chat_template_kwargs", "thinking", "thinking_budget", "guided_json",
      "json_schema", "guided_regex", "guided_choice", "guided_grammar", "grammar", "structured_outputs",
      "guided_decoding_backend", "guided_whitespace_pattern", "grammar_lazy", "grammar_triggers",
    ]

  init() {}

  mutating func read(_ fields: inout Fields, limits: RequestLimits, dropsUnknownTools: Bool) throws(APIError)
  {
    for name in Self.shared { if let value = fields.value(name) { chat[name] = value } }
    try readTools(&fields, limits: limits, dropsUnknownTools: dropsUnknownTools)
    try readChoice(&fields)
    try readFormat(&fields)
  }

  mutating func set(_ name: String, _ value: JSONValue) { chat[name] = value }

  // MARK: Tools

  private mutating func readTools(_ fields: inout Fields, limits: RequestLimits, dropsUnknownTools: Bool)
    throws(APIError)
  {
    guard let values = try fields.array("tools", maxCount: limits.tools) else { return }
    var nested: [JSONValue] = []
    for (index, value) in values.enumerated() {
      let path = "tools[\(index)]"
      var tool = try Fields(value, path: path)
      let type = try tool.requiredString("type")
      guard type == "function" else {
        guard dropsUnknownTools else {
          throw .unsupportedValue("\(path).type", "'\(APIError.shortened(type))' tools cannot be used here")
        }
        dropped.append("\(path).type=\(type)")
        continue
      }
      guard tool.object["function"] == nil else {
        throw .invalidValue("\(path).function", "in Responses a function's members stand beside 'type'")
      }
      var function = JSONObject()
      var echo = JSONObject([("type", "function")])
      for name in ["name", "description", "parameters", "strict"] {
        echo[name] = tool.value(name) ?? .null
        if let value = tool.value(name) { function[name] = value }
      }
      names.add("tools[\(nested.count)]", as: path)
      names.add("tools[\(nested.count)].function", as: path)
      nested.append(["type": "function", "function": .object(function)])
      echoedTools.append(.object(echo))
    }
    chat["tools"] = .array(nested)
  }

  private mutating func readChoice(_ fields: inout Fields) throws(APIError) {
    guard let value = fields.value("tool_choice") else { return }
    guard case .object = value else {
      chat["tool_choice"] = value
      return
    }
    var choice = try Fields(value, path: "tool_choice")
    switch try choice.requiredString("type") {
    case "function":
      chat["tool_choice"] = [
        "type": "function", "function": ["name": .string(try choice.requiredString("name"))],
      ]
    case "allowed_tools":
      var nested: [JSONValue] = []
      for (index, value) in (try choice.array("tools", maxCount: 1_000) ?? []).enumerated() {
        var tool = try Fields(value, path: "tool_choice.tools[\(index)]")
        guard try tool.requiredString("type") == "function" else {
          throw .unsupportedValue(tool.name(of: "type"), "only functions can be chosen here")
        }
        nested.append(["type": "function", "function": ["name": .string(try tool.requiredString("name"))]])
        names.add("tool_choice.allowed_tools.tools[\(index)].function", as: tool.path)
      }
      let allowed: JSONValue = [
        "mode": .string(try choice.string("mode") ?? "auto"), "tools": .array(nested),
      ]
      chat["tool_choice"] = ["type": "allowed_tools", "allowed_tools": allowed]
    case let other:
      throw .unsupportedValue("tool_choice.type", "'\(APIError.shortened(other))' cannot be chosen here")
    }
  }

  // MARK: Format

  private mutating func readFormat(_ fields: inout Fields) throws(APIError) {
    guard var text = try fields.fields("text") else { return }
    _ = try text.word("verbosity", of: ["low", "medium", "high"])
    guard let value = text.value("format") else { return }
    var format = try Fields(value, path: "text.format")
    let type = try format.requiredString("type")
    guard type == "json_schema" else {
      chat["response_format"] = value
      echoedFormat = ["type": .string(type)]
      return
    }
    let name = try format.requiredString("name")
    guard let schema = format.value("schema") else { throw .missing("text.format.schema") }
    var nested = JSONObject([("name", .string(name)), ("schema", schema)])
    var echo = JSONObject([("type", "json_schema"), ("name", .string(name))])
    echo["description"] = format.value("description") ?? .null
    echo["schema"] = schema
    echo["strict"] = format.value("strict") ?? false
    for member in ["description", "strict"] {
      if let value = format.value(member) { nested[member] = value }
    }
    chat["response_format"] = ["type": "json_schema", "json_schema": .object(nested)]
    echoedFormat = .object(echo)
  }

  // MARK: Errors

  /// An error about the chat body as one about the Responses body.
  func translated(_ error: APIError, _ messages: ResponsesMessages) -> APIError {
    var all = names
    all.add(messages.names)
    return all.translated(error)
  }
}
