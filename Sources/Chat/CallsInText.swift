// Calls and their results as text, for templates that do not show them.

import JSON

/// Qwen's marks, which models know best from elsewhere.
enum CallsInText {
  /// A message of the assistant with its calls at the end of its text.
  static func call(_ message: JSONObject) -> JSONObject {
    guard let calls = message["tool_calls"]?.arrayValue, !calls.isEmpty else { return message }
    let texts = calls.map { call -> String in
      let function = JSONObject([
        ("name", call["function"]?["name"] ?? ""), ("arguments", call["function"]?["arguments"] ?? [:]),
      ])
      return "<tool_call>\n\(JSONValue.object(function).text)\n</tool_call>"
    }
    var result = message
    let text = message["content"]?.stringValue ?? ""
    result["content"] =
      if let parts = message["content"]?.arrayValue {
        .array(parts + texts.map { .textPart("\n" + $0) })
      } else {
        .string(((text.utf8.isEmpty ? [] : [text]) + texts).joined(separator: "\n"))
      }
    result["tool_calls"] = nil
    return result
  }

  /// A result as a message of the user, below a title.
  static func result(_ message: JSONObject, title: String = "") -> JSONObject {
    let (open, close) = (title + "<tool_response>\n", "\n</tool_response>")
    let content: JSONValue =
      if let parts = message["content"]?.arrayValue {
        .array([.textPart(open)] + parts + [.textPart(close)])
      } else {
        .string(open + (message["content"]?.stringValue ?? "") + close)
      }
    return JSONObject([("role", "user"), ("content", content)])
  }
}
