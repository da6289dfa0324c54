// The events of a streamed chat completion.
//
// Order for one choice: role, reasoning and content deltas, tool calls, finish; then once the usage, if it is wanted.

import Inference
import JSON
import Wire

/// One event of a streamed chat completion: `chat.completion.chunk` with one choice.
struct ChatChunk: Sendable, Equatable {
  /// What a chunk adds to its choice.
  enum Delta: Sendable, Equatable {
    /// The first of each choice, sent when its first token has come.
    case role
    case reasoning(String)
    case content(String, logprobs: [LogprobEntry]?)
    /// The first fragment of a call, the only one with its id and name.
    case toolCall(index: Int, id: String, name: String, isCustom: Bool = false)
    /// The text of a call of a custom tool.
    case customInput(index: Int, String)
    /// More of the JSON text of a call's arguments.
    case toolArguments(index: Int, String)
    /// A search that was made for the answer, as an item of Responses.
    case search(JSONValue)
    /// A passage of a file is cited where the content has come to.
    case citation(FileCitation)
    /// How far the prompt is read.
    case reading(JSONValue)
    /// `malformedCalls` could not be read; their text is part of the content.
    case finish(ChoiceFinish, malformedCalls: Int = 0)
  }

  /// The member of messages that holds searches.
  static let searchesName = "file_search_calls"

  var header: AnswerHeader
  var choice: Int
  var delta: Delta
  /// Adds `"usage": null`, which announces that a usage chunk follows at the end.
  var announcesUsage: Bool
  /// Ids of the tokens that it adds; nil unless they are wanted.
  var tokens: [Int32]?
  /// Of a choice that ends.
  var receipt: JSONValue?
  /// Ids of the prompt, in the first chunk of an answer; nil unless they are wanted.
  var promptTokens: [Int32]?

  /// The data of the event.
  var json: JSONValue {
    var logprobs: JSONValue = nil
    var finish: JSONValue = nil
    var malformed = 0
    let members: JSONValue
    switch delta {
    case .role: members = ["role": "assistant", "content": "", "refusal": nil]
    case .reasoning(let text): members = .object(JSONObject(header.reasoningField.members(text)))
    case .content(let text, let entries):
      members = ["content": .string(text)]
      logprobs = entries.map(LogprobEntry.chatJSON) ?? nil
    case .toolCall(let index, let id, let name, let isCustom):
      members = Self.call(
        index, [("id", .string(id)), ("type", isCustom ? "custom" : "function")],
        isCustom
          ? ("custom", ["name": .string(name), "input": ""])
          : ("function", ["name": .string(name), "arguments": ""]))
    case .customInput(let index, let text):
      members = Self.call(index, [], ("custom", ["input": .string(text)]))
    case .toolArguments(let index, let text):
      members = Self.call(index, [], ("function", ["arguments": .string(text)]))
    case .search(let item): members = .object(JSONObject([(Self.searchesName, .array([item]))]))
    case .citation(let citation): members = ["annotations": [citation.chatJSON]]
    case .reading: members = [:]
    case .finish(let reason, let malformedCalls):
      members = [:]
      malformed = malformedCalls
      finish = .string(reason.rawValue)
    }
    var choice = JSONObject([
      ("index", .int(self.choice)), ("delta", members), ("logprobs", logprobs), ("finish_reason", finish),
    ])
    if malformed > 0 { choice["malformed_tool_calls"] = .int(malformed) }
    TokenDetails(tokens: tokens, receipt: receipt).add(to: &choice)
    var body = Self.body(header, choices: [.object(choice)], usage: announcesUsage ? .null : nil)
    TokenDetails(promptTokens: promptTokens).add(to: &body)
    if case .reading(let progress) = delta { body[PromptProgress.member] = progress }
    return .object(body)
  }

  private static func call(_ index: Int, _ head: [(String, JSONValue)], _ tool: (String, JSONValue))
    -> JSONValue
  {
    ["tool_calls": [.object(JSONObject([("index", .int(index))] + head + [tool]))]]
  }

  /// The chunk after the last finish: no choices, only counts.
  static func usage(_ usage: Usage, header: AnswerHeader) -> JSONValue {
    .object(body(header, choices: [], usage: usage.json))
  }

  private static func body(_ header: AnswerHeader, choices: [JSONValue], usage: JSONValue?) -> JSONObject {
    var body = JSONObject(header.members(kind: "chat.completion.chunk"))
    body["choices"] = .array(choices)
    if let usage { body["usage"] = usage }
    return body
  }
}
