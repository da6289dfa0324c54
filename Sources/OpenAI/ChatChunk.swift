// The events of a streamed chat completion.
//
// Order for one choice: role, reasoning and content deltas, tool calls, finish; then once the usage, if asked for.

package import JSON

package struct ChatChunk: Sendable, Equatable {
  package enum Delta: Sendable, Equatable {
    /// The first of each choice, sent when its first token has come.
    case role
    case reasoning(String)
    case content(String, logprobs: [LogprobEntry]?)
    /// A whole call: its arguments are known only after parsing.
    case toolCall(index: Int, ToolCall)
    case finish(ChoiceFinish)
  }

  package var header: AnswerHeader
  package var choice: Int
  package var delta: Delta
  /// Adds `"usage": null`, which announces that a usage chunk follows at the end.
  package var announcesUsage: Bool

  package init(header: AnswerHeader, choice: Int, delta: Delta, announcesUsage: Bool) {
    self.header = header
    self.choice = choice
    self.delta = delta
    self.announcesUsage = announcesUsage
  }

  package var json: JSONValue {
    var logprobs: JSONValue = nil
    var finish: JSONValue = nil
    let members: JSONValue
    switch delta {
    case .role: members = ["role": "assistant", "content": "", "refusal": nil]
    case .reasoning(let text): members = .object(JSONObject(header.reasoningField.members(text)))
    case .content(let text, let entries):
      members = ["content": .string(text)]
      logprobs = entries.map(LogprobEntry.chatJSON) ?? nil
    case .toolCall(let index, let call): members = ["tool_calls": [Self.fragment(call, index: index)]]
    case .finish(let reason):
      members = [:]
      finish = .string(reason.rawValue)
    }
    let choice: JSONValue = [
      "index": .int(choice), "delta": members, "logprobs": logprobs, "finish_reason": finish,
    ]
    return Self.body(header, choices: [choice], usage: announcesUsage ? .null : nil)
  }

  /// The chunk after the last finish: no choices, only counts.
  package static func usage(_ usage: Usage, header: AnswerHeader) -> JSONValue {
    body(header, choices: [], usage: usage.json)
  }

  private static func fragment(_ call: ToolCall, index: Int) -> JSONValue {
    [
      "index": .int(index), "id": .string(call.id), "type": "function",
      "function": ["name": .string(call.name), "arguments": .string(call.arguments)],
    ]
  }

  private static func body(_ header: AnswerHeader, choices: [JSONValue], usage: JSONValue?) -> JSONValue {
    var body = JSONObject(header.members(kind: "chat.completion.chunk"))
    body["choices"] = .array(choices)
    if let usage { body["usage"] = usage }
    return .object(body)
  }
}
