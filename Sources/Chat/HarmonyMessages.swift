// gpt-oss: its template takes one call per message, and reasoning as `thinking` beside calls alone.

import JSON

enum HarmonyMessages {
  /// Reasoning is shown only with a call that no answer has followed yet; elsewhere the template drops it, or takes it for
  /// a sign that the content is reasoning. It refuses a message with both: then the content, said to the user before the
  /// call, follows the reasoning.
  static func prepare(_ message: JSONObject) -> JSONObject {
    guard message["role"] == "assistant" else { return message }
    var result = message
    let reasoning = message["reasoning_content"]?.stringValue ?? message["thinking"]?.stringValue
    result["reasoning_content"] = nil
    result["thinking"] = nil
    guard message["tool_calls"] != nil, let reasoning, !reasoning.utf8.isEmpty else { return result }
    let content = message["content"]?.stringValue ?? ""
    result["thinking"] = .string(content.utf8.isEmpty ? reasoning : reasoning + "\n\n" + content)
    result["content"] = nil
    return result
  }
}
