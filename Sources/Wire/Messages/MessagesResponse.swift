// Answers of POST /v1/messages: the message, the events of its stream, and errors in Anthropic's shape.

package import JSON

/// A piece of an answer.
package enum MessageBlock: Sendable, Equatable {
  case text(String)
  /// Empty where the text of reasoning is not sent.
  case thinking(String)
  /// `arguments` is JSON text.
  case toolUse(id: String, name: String, arguments: String)

  /// Whether it is text of the answer.
  package var isText: Bool { if case .text = self { true } else { false } }
  /// Whether it is reasoning.
  package var isThinking: Bool { if case .thinking = self { true } else { false } }
  /// Whether it is a call of a tool.
  package var isToolUse: Bool { if case .toolUse = self { true } else { false } }

  /// Adds to its text, reasoning or arguments in place: answers come token by token.
  package mutating func append(_ more: String) {
    // The block lets its text go first: a text that another holds too would be copied.
    switch self {
    case .text(var text):
      self = .text("")
      text.append(more)
      self = .text(text)
    case .thinking(var reasoning):
      self = .thinking("")
      reasoning.append(more)
      self = .thinking(reasoning)
    case .toolUse(let id, let name, var arguments):
      self = .text("")
      arguments.append(more)
      self = .toolUse(id: id, name: name, arguments: arguments)
    }
  }

  /// The block of a whole message.
  package var json: JSONValue {
    switch self {
    case .text(let text): ["type": "text", "text": .string(text), "citations": nil]
    case .thinking(let text):
      [
        "type": "thinking", "thinking": .string(text),
        "signature": .string(ReasoningSignature.make(of: text)),
      ]
    case .toolUse(let id, let name, let arguments):
      [
        "type": "tool_use", "id": .string(id), "name": .string(name), "input": Tool.object(of: arguments),
        "caller": ["type": "direct"],
      ]
    }
  }

  /// The block as a stream begins it.
  var empty: JSONValue {
    switch self {
    case .text: MessageBlock.text("").json
    case .thinking: ["type": "thinking", "thinking": "", "signature": ""]
    case .toolUse(let id, let name, _): MessageBlock.toolUse(id: id, name: name, arguments: "").json
    }
  }
}

/// `stop_reason`: why a message ended.
package enum MessageStop: String, Sendable {
  case endTurn = "end_turn"
  case maxTokens = "max_tokens"
  case stopSequence = "stop_sequence"
  case toolUse = "tool_use"
}

/// A message of the assistant, whole or at the beginning of its stream.
package struct MessagesResponse: Sendable, Equatable {
  /// `msg_…`.
  package var id: String
  package var model: String
  package var content: [MessageBlock] = []
  /// Nil while the answer is not finished.
  package var stop: MessageStop?
  /// The stop sequence that ended the answer.
  package var stopSequence: String?
  package var usage: Usage
  /// Of the tokens of its text; nil where they were not asked for.
  package var logprobs: [LogprobEntry]?

  package init(id: String, model: String, usage: Usage) {
    self.id = id
    self.model = model
    self.usage = usage
  }

  /// The body.
  package var json: JSONValue {
    let members: JSONValue = [
      "id": .string(id), "type": "message", "role": "assistant", "model": .string(model),
      "content": .array(content.map(\.json)),
      "stop_reason": stop.map { .string($0.rawValue) } ?? nil,
      "stop_sequence": stopSequence.map(JSONValue.string) ?? nil,
      "stop_details": nil, "container": nil, "usage": usage.messagesJSON,
    ]
    guard let logprobs, var message = members.objectValue else { return members }
    message["logprobs"] = LogprobEntry.chatJSON(logprobs)
    return .object(message)
  }
}

/// One event of a stream.
package enum MessagesEvent: Sendable {
  case start(MessagesResponse)
  case blockStart(Int, MessageBlock)
  case textDelta(Int, String, [LogprobEntry]?)
  case thinkingDelta(Int, String)
  case signatureDelta(Int, of: String)
  case inputDelta(Int, String)
  case blockStop(Int)
  case delta(MessagesResponse)
  case stop

  /// The event's type, which is also its name in the stream.
  package var name: String {
    switch self {
    case .start: "message_start"
    case .blockStart: "content_block_start"
    case .textDelta, .thinkingDelta, .signatureDelta, .inputDelta: "content_block_delta"
    case .blockStop: "content_block_stop"
    case .delta: "message_delta"
    case .stop: "message_stop"
    }
  }

  /// The data of the event.
  package var json: JSONValue {
    var event = JSONObject([("type", .string(name))])
    func addDelta(_ index: Int, _ delta: JSONValue) {
      event["index"] = .int(index)
      event["delta"] = delta
    }
    switch self {
    case .start(let message): event["message"] = message.json
    case .blockStart(let index, let block):
      event["index"] = .int(index)
      event["content_block"] = block.empty
    case .textDelta(let index, let text, let logprobs):
      addDelta(index, ["type": "text_delta", "text": .string(text)])
      event["logprobs"] = logprobs.map(LogprobEntry.chatJSON)
    case .thinkingDelta(let index, let text):
      addDelta(index, ["type": "thinking_delta", "thinking": .string(text)])
    case .signatureDelta(let index, let reasoning):
      addDelta(
        index, ["type": "signature_delta", "signature": .string(ReasoningSignature.make(of: reasoning))])
    case .inputDelta(let index, let text):
      addDelta(index, ["type": "input_json_delta", "partial_json": .string(text)])
    case .blockStop(let index): event["index"] = .int(index)
    case .delta(let message):
      event["delta"] = [
        "stop_reason": message.stop.map { .string($0.rawValue) } ?? nil,
        "stop_sequence": message.stopSequence.map(JSONValue.string) ?? nil,
        "stop_details": nil, "container": nil,
      ]
      event["usage"] = .object(JSONObject(message.usage.messagesCounts))
    case .stop: break
    }
    return .object(event)
  }
}

extension Usage {
  /// On this wire the input is what had to be computed; cached tokens are counted beside it.
  fileprivate var messagesCounts: [(String, JSONValue)] {
    [
      ("input_tokens", .int(promptTokens - cachedTokens)), ("cache_creation_input_tokens", 0),
      ("cache_read_input_tokens", .int(cachedTokens)), ("output_tokens", .int(completionTokens)),
      ("output_tokens_details", ["thinking_tokens": .int(reasoningTokens)]), ("server_tool_use", nil),
    ]
  }

  fileprivate var messagesJSON: JSONValue {
    let more: [(String, JSONValue)] = [
      ("cache_creation", nil), ("service_tier", "standard"), ("inference_geo", nil),
    ]
    return .object(JSONObject(messagesCounts + more))
  }
}

/// An error in the shape of this wire.
package struct MessagesError: Sendable {
  private let type: String
  private let message: String
  private let requestID: String
  private let details: JSONValue?

  /// - Parameter requestID: of the connection, as in the header `request-id`.
  package init(_ error: APIError, requestID: String) {
    details = error.details
    type =
      switch error.status {
      case 401: "authentication_error"
      case 403: "permission_error"
      case 404: "not_found_error"
      case 413: "request_too_large"
      case 429: "rate_limit_error"
      case 503: "overloaded_error"
      case 500...: "api_error"
      default: "invalid_request_error"
      }
    message = error.overflow?.messagesMessage ?? error.message
    self.requestID = requestID
  }

  /// The body, or the data of an event.
  package var json: JSONValue {
    var error = JSONObject([("type", .string(type)), ("message", .string(message))])
    error["details"] = details
    return [
      "type": "error", "error": .object(error),
      "request_id": .string(requestID),
    ]
  }
}
