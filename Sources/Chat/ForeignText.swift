// Which texts of a conversation come from outside.

import JSON

extension Conversation {
  /// The possible writers of a text.
  enum Author: Sendable, Equatable {
    /// Anyone: users, web pages, tools and those who describe them.
    case anyone
    /// Anyone, but templates look such words up and compare them, so that one of the usual ones must stay as it is.
    case keyword
    /// The model, in an earlier answer that is trusted.
    case model
  }

  /// The conversation with `body` applied to its texts, the names of members among them; roles stay.
  func mapTexts(_ body: (String, Author) -> String) -> Conversation {
    var result = self
    result.messages = messages.map { mapMessage($0, body) }
    result.tools = tools.map { Self.map($0, frame: 2, body) }
    for (name, value) in templateArguments.entries {
      result.templateArguments[name] = Self.map(value, frame: .max) { text, _ in body(text, .keyword) }
    }
    return result
  }

  /// A message with `body` applied to all but its role; what the assistant said is the model's, or anyone's where the
  /// history is strict.
  private func mapMessage(_ message: JSONValue, _ body: (String, Author) -> String) -> JSONValue {
    guard let object = message.objectValue else { return message }
    let isTrusted = !isHistoryStrict && object["role"]?.stringValue == "assistant"
    let members = object.entries.map { (name, value) -> (String, JSONValue) in
      switch name {
      case "role": (name, value)
      case "content" where isTrusted: (name, Self.map(value, frame: .max) { text, _ in body(text, .model) })
      default: (body(name, .keyword), Self.map(value, frame: 2, body))
      }
    }
    return .object(JSONObject(members))
  }

  /// A value with `body` applied to its texts.
  ///
  /// - Parameter frame: how many levels of objects have the members that the API gives them; below them are arguments
  ///   and schemas.
  private static func map(
    _ value: JSONValue, frame: Int, _ body: (String, Author) -> String
  ) -> JSONValue {
    switch value {
    case .string(let text): return .string(body(text, .anyone))
    case .array(let values): return .array(values.map { map($0, frame: frame, body) })
    case .object(let object):
      let members = object.entries.map { (name, value) -> (String, JSONValue) in
        let newName = body(name, frame > 0 ? .keyword : .anyone)
        if case .string(let text) = value, name == "type" { return (newName, .string(body(text, .keyword))) }
        return (newName, map(value, frame: max(0, frame - 1), body))
      }
      return .object(JSONObject(members))
    default: return value
    }
  }
}
