// What Ollama's clients read of an answer: lines of JSON, of which the last has the counts.

import Inference
import JSON
import Wire

/// Makes the objects of one answer, whole or in lines.
struct OllamaResponse: Sendable {
  /// Of /api/chat, whose answers have a message; those of /api/generate have a text.
  var isChat: Bool
  /// As the client named it.
  var model: String
  /// RFC 3339, UTC.
  var created: String

  /// What an answer says, or a part of it.
  struct Content: Sendable {
    var text = ""
    var thinking = ""
    var calls: [ToolCall] = []
    var logprobs: [LogprobEntry]?
    /// How far the prompt is read.
    var progress: JSONValue?
  }

  /// The counts and times of an answer; times in seconds.
  struct Counts: Sendable {
    var total = 0.0
    var load = 0.0
    var promptTokens = 0
    var cachedTokens = 0
    var promptSeconds = 0.0
    var tokens = 0
    var seconds = 0.0
  }

  /// A line of a stream that is not the last.
  func part(_ content: Content) -> JSONValue { .object(members(content, isDone: false)) }

  /// The last line, or the whole answer.
  ///
  /// - Parameter reason: `stop`, `length`, `load` or `unload`.
  func last(_ content: Content, reason: String, _ counts: Counts) -> JSONValue {
    var object = members(content, isDone: true)
    object["done_reason"] = .string(reason)
    for (name, value) in [
      ("total_duration", Self.nanoseconds(counts.total)), ("load_duration", Self.nanoseconds(counts.load)),
      ("prompt_eval_count", counts.promptTokens), ("prompt_eval_cached", counts.cachedTokens),
      ("prompt_eval_duration", Self.nanoseconds(counts.promptSeconds)), ("eval_count", counts.tokens),
      ("eval_duration", Self.nanoseconds(counts.seconds)),
    ] { object[name] = .int(value) }
    return .object(object)
  }

  private func members(_ content: Content, isDone: Bool) -> JSONObject {
    var object = JSONObject([("model", .string(model)), ("created_at", .string(created))])
    if isChat {
      var message = JSONObject([("role", "assistant"), ("content", .string(content.text))])
      if !content.thinking.utf8.isEmpty { message["thinking"] = .string(content.thinking) }
      if !content.calls.isEmpty {
        message["tool_calls"] = .array(content.calls.enumerated().map { Self.json($1, index: $0) })
      }
      object["message"] = .object(message)
    } else {
      object["response"] = .string(content.text)
      if !content.thinking.utf8.isEmpty { object["thinking"] = .string(content.thinking) }
    }
    if let logprobs = content.logprobs { object["logprobs"] = .array(logprobs.map(\.chatJSON)) }
    if let progress = content.progress { object[PromptProgress.member] = progress }
    object["done"] = .bool(isDone)
    return object
  }

  /// Arguments are an object here, unlike in OpenAI's API.
  private static func json(_ call: ToolCall, index: Int) -> JSONValue {
    let arguments = (try? JSONValue(parsing: call.arguments))?.objectValue ?? JSONObject()
    return [
      "id": .string(call.id),
      "function": ["index": .int(index), "name": .string(call.name), "arguments": .object(arguments)],
    ]
  }

  /// What is measured is more than nothing.
  static func nanoseconds(_ seconds: Double) -> Int {
    max(1, Int((min(max(0, seconds), 1e9) * 1e9).rounded()))
  }
}
