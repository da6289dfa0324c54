// The body of a chat completion that is not streamed.

import JSON
import Wire

/// One element of `choices` of a chat completion that is not streamed.
struct ChatChoice {
  let index: Int
  var content = ""
  /// Nil when there is none or it is not to be shown.
  var reasoning: String?
  var toolCalls: [ToolCall] = []
  var logprobs: JSONParts?
  var finish = ChoiceFinish.stop
  /// Calls that could not be read; their text is part of the content.
  var malformedCalls = 0
  /// What else is told of its tokens.
  var details = TokenDetails()
  /// Passages of files that the content cites.
  var citations: [FileCitation] = []
  /// The searches that were made for it, as items of Responses.
  var searches: [JSONValue] = []

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
        ("logprobs", logprobs ?? .value(nil)),
        ("finish_reason", .value(.string(finish.rawValue))),
      ] + malformed + details.members)
  }
}

/// The body of a chat completion that is not streamed: `chat.completion`.
struct ChatResponse {
  let header: AnswerHeader
  let choices: [ChatChoice]
  let usage: Usage
  /// What is told of the prompt's tokens.
  var details = TokenDetails()

  /// The body.
  var parts: JSONParts {
    .object(
      header.members(kind: "chat.completion").map { ($0, .value($1)) } + [
        ("service_tier", .value("default")),
        ("choices", .list(count: choices.count) { choices[$0].parts(header.reasoningField) }),
        ("usage", .value(usage.json)),
      ] + details.members)
  }

  /// The body as one value.
  var json: JSONValue { parts.json }
}
