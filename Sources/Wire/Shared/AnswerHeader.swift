// What answers of several APIs have in common: their head, how a choice ended, and a call of a tool.

package import JSON

/// What all objects of one answer have in common.
package struct AnswerHeader: Sendable, Equatable {
  /// `chatcmpl-…` or `cmpl-…`.
  package var id: String
  /// Seconds since 1970.
  package var created: Int
  /// The served model's id.
  package var model: String
  package var systemFingerprint: String
  package var reasoningField: ReasoningField

  package init(
    id: String, created: Int, model: String, systemFingerprint: String,
    reasoningField: ReasoningField = .reasoningContent
  ) {
    self.id = id
    self.created = created
    self.model = model
    self.systemFingerprint = systemFingerprint
    self.reasoningField = reasoningField
  }

  /// The leading members of a body whose `object` is `kind`.
  package func members(kind: String) -> [(String, JSONValue)] {
    [
      ("id", .string(id)), ("object", .string(kind)), ("created", .int(created)), ("model", .string(model)),
      ("system_fingerprint", .string(systemFingerprint)),
    ]
  }
}

/// Why a choice ended, in the API's words.
package enum ChoiceFinish: String, Sendable {
  case stop
  case length
  case toolCalls = "tool_calls"
}

/// A call of a function by the model.
package struct ToolCall: Sendable, Equatable {
  package var id: String
  package var name: String
  /// JSON text.
  package var arguments: String
  /// Whether it is a call of a custom tool, whose text is the argument `input`.
  package var isCustom: Bool

  package init(id: String, name: String, arguments: String, isCustom: Bool = false) {
    self.id = id
    self.isCustom = isCustom
    self.name = name
    self.arguments = arguments
  }

  /// As Chat Completions has it.
  package var json: JSONValue {
    guard !isCustom else {
      return [
        "id": .string(id), "type": "custom",
        "custom": ["name": .string(name), "input": .string(Tool.input(of: arguments))],
      ]
    }
    return [
      "id": .string(id), "type": "function",
      "function": ["name": .string(name), "arguments": .string(arguments)],
    ]
  }
}
