// gpt-oss: its template takes one system text, one call per message, and reasoning as `thinking` beside calls alone.

import JSON

enum HarmonyMessages {
  /// Reasoning is shown only with a call that no answer has followed yet; elsewhere the template drops it, or takes it for
  /// a sign that the content is reasoning. It refuses a message with both: then the content, said to the user before the
  /// call, follows the reasoning.
  static func prepare(_ messages: [JSONObject]) -> [JSONObject] {
    gatherSystem(messages).map { message in
      guard message["role"]?.stringValue == "assistant" else { return message }
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

  /// Only the first message may be the system's or the developer's; the others are passed over.
  private static func gatherSystem(_ messages: [JSONObject]) -> [JSONObject] {
    func isSystem(_ message: JSONObject) -> Bool {
      ["system", "developer"].contains(message["role"]?.stringValue ?? "")
    }
    let texts = messages.filter(isSystem).compactMap { $0["content"]?.stringValue }
    guard texts.count > 1 || (texts.count == 1 && !(messages.first.map(isSystem) ?? false)) else {
      return messages
    }
    let first = JSONObject([("role", "developer"), ("content", .string(texts.joined(separator: "\n\n")))])
    return [first] + messages.filter { !isSystem($0) }
  }
}
