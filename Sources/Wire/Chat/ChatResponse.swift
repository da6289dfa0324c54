// The body of a chat completion that is not streamed, and the values it shares with the streamed form.

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
  func members(kind: String) -> [(String, JSONValue)] {
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

  var json: JSONValue {
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

/// One element of `choices` of a chat completion that is not streamed.
package struct ChatChoice: Sendable {
  package var index: Int
  package var content: String
  /// Nil when there is none or it is not to be shown.
  package var reasoning: String?
  package var toolCalls: [ToolCall]
  package var logprobs: LogprobList?
  package var finish: ChoiceFinish
  /// Calls that could not be read; their text is part of the content.
  package var malformedCalls: Int
  /// What else is told of its tokens.
  package var details = TokenDetails()
  /// Passages of files that the content cites.
  package var citations: [FileCitation] = []
  /// The searches that were made for it, as items of Responses.
  package var searches: [JSONValue] = []

  package init(
    index: Int, content: String, reasoning: String?, toolCalls: [ToolCall], logprobs: LogprobList?,
    finish: ChoiceFinish, malformedCalls: Int = 0
  ) {
    self.index = index
    self.content = content
    self.reasoning = reasoning
    self.toolCalls = toolCalls
    self.logprobs = logprobs
    self.finish = finish
    self.malformedCalls = malformedCalls
  }

  func parts(_ reasoningField: ReasoningField) -> JSONParts {
    var message = JSONObject([("role", "assistant")])
    message["content"] = content.utf8.isEmpty && !toolCalls.isEmpty ? .null : .string(content)
    message["refusal"] = .null
    message["annotations"] = .array(citations.map(\.chatJSON))
    if !searches.isEmpty { message[ChatChunk.searchesName] = .array(searches) }
    if let reasoning {
      for (name, value) in reasoningField.members(reasoning) { message[name] = value }
    }
    if !toolCalls.isEmpty { message["tool_calls"] = .array(toolCalls.map(\.json)) }
    let malformed: [(String, JSONParts)] =
      malformedCalls > 0 ? [("malformed_tool_calls", .value(.int(malformedCalls)))] : []
    return .object(
      [
        ("index", .value(.int(index))), ("message", .value(.object(message))),
        ("logprobs", logprobs.map(\.chatParts) ?? .value(nil)),
        ("finish_reason", .value(.string(finish.rawValue))),
      ] + malformed + details.members)
  }
}

/// The body of a chat completion that is not streamed: `chat.completion`.
package struct ChatResponse: Sendable {
  package var header: AnswerHeader
  package var choices: [ChatChoice]
  package var usage: Usage
  /// What is told of the prompt's tokens.
  package var details: TokenDetails

  package init(
    header: AnswerHeader, choices: [ChatChoice], usage: Usage, details: TokenDetails = TokenDetails()
  ) {
    self.header = header
    self.details = details
    self.choices = choices
    self.usage = usage
  }

  /// The body.
  package var parts: JSONParts {
    .object(
      header.members(kind: "chat.completion").map { ($0, .value($1)) } + [
        ("service_tier", .value("default")),
        ("choices", .list(count: choices.count) { choices[$0].parts(header.reasoningField) }),
        ("usage", .value(usage.json)),
      ] + details.members)
  }

  /// The body as one value.
  package var json: JSONValue { parts.json }
}
