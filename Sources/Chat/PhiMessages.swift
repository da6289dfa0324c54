// Phi-4-mini: its template prints roles and text only, so tools and calls are written into messages here.

import JSON

enum PhiMessages {
  /// Tools become a JSON string on the system message, calls become text of the assistant, results a message of
  /// the role `tool_response`.
  static func prepare(_ messages: [JSONObject], tools: [JSONValue]) -> [JSONObject] {
    var result = messages.map(prepare)
    guard !tools.isEmpty else { return result }
    let functions = JSONValue.array(tools.map { $0["function"] ?? $0 })
    if result.first?["role"]?.stringValue != "system" {
      let words = "You are a helpful assistant with some tools."
      result.insert(JSONObject([("role", "system"), ("content", .string(words))]), at: 0)
    }
    result[0]["tools"] = .string(functions.text)
    return result
  }

  private static func prepare(_ message: JSONObject) -> JSONObject {
    var result = message
    if message["role"]?.stringValue == "tool" { result["role"] = "tool_response" }
    if let calls = message["tool_calls"]?.arrayValue {
      let functions = calls.map { call -> JSONValue in
        let function = call["function"]
        return .object(
          JSONObject([("name", function?["name"] ?? .null), ("arguments", function?["arguments"] ?? [:])]))
      }
      let text = "<|tool_call|>" + JSONValue.array(functions).text + "<|/tool_call|>"
      result["content"] = .string((message["content"]?.stringValue ?? "") + text)
      result["tool_calls"] = nil
    }
    if result["content"] == nil || result["content"]?.isNull == true { result["content"] = "" }
    return result
  }
}
