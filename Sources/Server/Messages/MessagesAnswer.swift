// An answer in the words of /v1/messages: one message, or events in which it grows.

import Decoding
import HTTP
import Inference
import JSON
import Pipeline
import Wire

/// A piece of a message.
private struct MessageBlock {
  enum Kind { case text, thinking, toolUse }

  let kind: Kind
  /// Of a call.
  var id = ""
  var name = ""
  /// Reasoning that is not sent is empty; of a call the JSON text of its arguments.
  var text = ""

  /// - Parameter isBegun: whether a stream begins it.
  func json(isBegun: Bool = false) -> JSONValue {
    switch kind {
    case .text: ["type": "text", "text": .string(text), "citations": nil]
    case .thinking:
      [
        "type": "thinking", "thinking": .string(text),
        "signature": .string(isBegun ? "" : ReasoningSignature.make(of: text)),
      ]
    case .toolUse:
      [
        "type": "tool_use", "id": .string(id), "name": .string(name), "input": Tool.object(of: text),
        "caller": ["type": "direct"],
      ]
    }
  }
}

struct MessagesAnswer: AnswerWriter {
  let wire = Wire.messages
  let param = "messages"
  private let request: MessagesRequest
  /// `msg_…`.
  private let id: String
  private let run: AnswerRun
  private let scope: RequestScope
  /// Of a stream only the one that is being sent; reasoning with all its text.
  private var blocks: [MessageBlock] = []
  /// Of the content, when it is sent whole.
  private var tokens: [SampledToken] = []
  private var finish = TokenStream.End.stop
  /// Of the block that a stream is sending.
  private var index = 0
  private var hasBegun = false

  init(_ request: MessagesRequest, _ run: AnswerRun, _ scope: RequestScope) {
    (self.request, self.run, self.scope) = (request, run, scope)
    id = "msg_" + scope.settings.makeID()
  }

  private func message(
    _ content: [MessageBlock], _ usage: Usage, _ ending: [(String, JSONValue)]
  ) -> JSONObject {
    JSONObject(
      [
        ("id", .string(id)), ("type", "message"), ("role", "assistant"), ("model", .string(scope.model.id)),
        ("content", .array(content.map { $0.json() })),
      ] + ending + [("usage", usage.messagesJSON)])
  }

  private func ending(_ reason: JSONValue, _ sequence: String? = nil) -> [(String, JSONValue)] {
    [
      ("stop_reason", reason), ("stop_sequence", sequence.map(JSONValue.string) ?? nil),
      ("stop_details", nil), ("container", nil),
    ]
  }

  /// How the message ended.
  private var ended: [(String, JSONValue)] {
    switch finish {
    case .length: return ending("max_tokens")
    case .toolCalls: return ending("tool_use")
    case .stop:
      let sequence = run.parts.first?.stream.stopString
      return ending(sequence == nil ? "end_turn" : "stop_sequence", sequence)
    }
  }

  /// Nothing where they were not asked for.
  private func logprobs(_ tokens: [SampledToken]) -> [(String, JSONValue)] {
    guard request.chat.topLogprobs != nil else { return [] }
    return [("logprobs", LogprobEntry.chatJSON(tokens.map(scope.logprob)))]
  }

  mutating func add(_ piece: TokenStream.Piece, of _: Int, to events: EventStream?) throws(SocketError) {
    if let events { try begin(events) }
    switch piece {
    case .content(let text, let own):
      if blocks.last?.kind != .text { try start(MessageBlock(kind: .text), events) }
      guard let events else {
        append(text)
        tokens += own
        return
      }
      try send(delta: "text_delta", ("text", text), logprobs(own), to: events)
    case .reasoning(let text):
      if blocks.last?.kind != .thinking { try start(MessageBlock(kind: .thinking), events) }
      guard request.showsThinking, !text.utf8.isEmpty else { return }
      append(text)
      if let events { try send(delta: "thinking_delta", ("thinking", text), to: events) }
    case .toolCallBegan(let name):
      try start(MessageBlock(kind: .toolUse, id: "toolu_" + scope.settings.makeID(), name: name), events)
    case .toolCallArguments(let text):
      if let events { return try send(delta: "input_json_delta", ("partial_json", text), to: events) }
      if blocks.last?.kind == .toolUse { append(text) }
    case .toolCallEnded: try endBlock(events)
    case .toolCallsFailed(let count):
      // What has been sent of a call that failed cannot be taken back.
      guard events == nil else { return try endBlock(events) }
      for _ in 0..<count {
        if let last = blocks.lastIndex(where: { $0.kind == .toolUse }) { blocks.remove(at: last) }
      }
    case .finish(let reason):
      finish = reason
      try endBlock(events)
      guard let events else { return }
      let usage = JSONValue.object(JSONObject(run.usage.messagesCounts))
      let receipt = run.receipt(of: 0).map { [(TokenDetails.receiptName, $0)] } ?? []
      try send(
        "message_delta", [("delta", .object(JSONObject(ended))), ("usage", usage)] + receipt, to: events)
    // Its clients pass over what keeps a stream alive.
    case .reading(let progress):
      if let events { try send("ping", [(PromptProgress.member, progress.json)], to: events) }
    // No tool of this wire has the server search.
    case .search: break
    }
  }

  private mutating func append(_ text: String) {
    if let last = blocks.indices.last { blocks[last].text += text }
  }

  private mutating func start(_ block: MessageBlock, _ events: EventStream?) throws(SocketError) {
    try endBlock(events)
    blocks.append(block)
    guard let events else { return }
    let members = [("index", JSONValue.int(index)), ("content_block", block.json(isBegun: true))]
    try send("content_block_start", members, to: events)
  }

  func response() -> Response {
    var message = message(blocks, run.usage, ended)
    for (name, value) in logprobs(tokens) { message[name] = value }
    message[TokenDetails.receiptName] = run.receipt(of: 0)
    return Response(json: .object(message))
  }

  // MARK: Streamed

  private mutating func begin(_ events: EventStream) throws(SocketError) {
    guard !hasBegun else { return }
    hasBegun = true
    var usage = run.usage
    (usage.completionTokens, usage.reasoningTokens) = (0, 0)
    try send("message_start", [("message", .object(message([], usage, ending(nil))))], to: events)
  }

  /// Ends the block that a stream is sending: one is closed before the next begins.
  private mutating func endBlock(_ events: EventStream?) throws(SocketError) {
    guard let events, let block = blocks.popLast() else { return }
    if block.kind == .thinking {
      try send(
        delta: "signature_delta", ("signature", ReasoningSignature.make(of: block.text)), to: events)
    }
    try send("content_block_stop", [("index", .int(index))], to: events)
    index += 1
  }

  func close(_ events: EventStream) { events.finish(#"{"type":"message_stop"}"#, event: "message_stop") }

  /// More of the block that is being sent.
  private func send(
    delta type: String, _ text: (String, String), _ more: [(String, JSONValue)] = [], to events: EventStream
  ) throws(SocketError) {
    let delta = JSONObject([("type", .string(type)), (text.0, .string(text.1))])
    try send("content_block_delta", [("index", .int(index)), ("delta", .object(delta))] + more, to: events)
  }

  private func send(
    _ name: String, _ members: [(String, JSONValue)], to events: EventStream
  ) throws(SocketError) {
    let event = JSONValue.object(JSONObject([("type", .string(name))] + members))
    try events.send(event.bytes, event: name)
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
