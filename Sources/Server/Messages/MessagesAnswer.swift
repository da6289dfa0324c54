// An answer in the words of /v1/messages: one message, or events in which it grows.

import Decoding
import HTTP
import JSON
import Pipeline
import Wire

struct MessagesAnswer: AnswerWriter {
  let wire = Wire.messages
  let param = "messages"
  private let request: MessagesRequest
  /// `msg_…`.
  private let id: String
  private let run: AnswerRun
  private let core: RequestContext
  /// Of a stream only the one that is being sent; reasoning with all its text.
  private var blocks: [MessageBlock] = []
  /// Of the content, when it is sent whole.
  private var tokens: [SampledToken] = []
  private var finish = TokenStream.End.stop
  /// Of the block that a stream is sending.
  private var index = 0
  private var hasBegun = false

  init(_ request: MessagesRequest, _ run: AnswerRun, _ core: RequestContext) {
    (self.request, self.run, self.core) = (request, run, core)
    id = "msg_" + core.settings.makeID()
  }

  private var message: MessagesResponse { MessagesResponse(id: id, model: core.model.id, usage: run.usage) }

  /// The message as far as it says how it ended.
  private var ended: MessagesResponse {
    var message = message
    switch finish {
    case .length: message.stop = .maxTokens
    case .toolCalls: message.stop = .toolUse
    case .stop:
      message.stopSequence = run.parts.first?.stream.stopString
      message.stop = message.stopSequence == nil ? .endTurn : .stopSequence
    }
    return message
  }

  /// Nil where they were not asked for.
  private func logprobs(_ tokens: [SampledToken]) -> [LogprobEntry]? {
    request.chat.topLogprobs == nil ? nil : tokens.map(core.logprob)
  }

  mutating func add(_ piece: TokenStream.Piece, of _: Int, to events: EventStream?) throws(SocketError) {
    if let events { try begin(events) }
    switch piece {
    case .content(let text, let own):
      if blocks.last?.isText != true { try start(.text(""), events) }
      if let events { return try send(.textDelta(index, text, logprobs(own)), to: events) }
      append(text)
      tokens += own
    case .reasoning(let text):
      if blocks.last?.isThinking != true { try start(.thinking(""), events) }
      guard request.showsThinking, !text.utf8.isEmpty else { return }
      append(text)
      if let events { try send(.thinkingDelta(index, text), to: events) }
    case .toolCallBegan(let name):
      try start(.toolUse(id: "toolu_" + core.settings.makeID(), name: name, arguments: ""), events)
    case .toolCallArguments(let text):
      if let events { return try send(.inputDelta(index, text), to: events) }
      if blocks.last?.isToolUse == true { append(text) }
    case .toolCallEnded: try closeBlock(events)
    case .toolCallsFailed(let count):
      // What has been sent of a call that failed cannot be taken back.
      guard events == nil else { return try closeBlock(events) }
      for _ in 0..<count {
        if let last = blocks.lastIndex(where: \.isToolUse) { blocks.remove(at: last) }
      }
    case .finish(let reason):
      finish = reason
      try closeBlock(events)
      if let events { try send(.delta(ended), to: events) }
    // No tool of this wire has the server search.
    case .search: break
    }
  }

  private mutating func append(_ text: String) {
    if let last = blocks.indices.last { blocks[last].append(text) }
  }

  private mutating func start(_ block: MessageBlock, _ events: EventStream?) throws(SocketError) {
    try closeBlock(events)
    blocks.append(block)
    if let events { try send(.blockStart(index, block), to: events) }
  }

  func response() -> Response {
    var message = ended
    message.content = blocks
    message.logprobs = logprobs(tokens)
    return Response(json: message.json)
  }

  // MARK: Streamed

  private mutating func begin(_ events: EventStream) throws(SocketError) {
    guard !hasBegun else { return }
    hasBegun = true
    var message = message
    message.usage.completionTokens = 0
    message.usage.reasoningTokens = 0
    try send(.start(message), to: events)
  }

  /// Ends the block that a stream is sending: one is closed before the next begins.
  private mutating func closeBlock(_ events: EventStream?) throws(SocketError) {
    guard let events, let block = blocks.popLast() else { return }
    if case .thinking(let reasoning) = block { try send(.signatureDelta(index, of: reasoning), to: events) }
    try send(.blockStop(index), to: events)
    index += 1
  }

  func close(_ events: EventStream) {
    events.finish(MessagesEvent.stop.json.text, event: MessagesEvent.stop.name)
  }

  private func send(_ event: MessagesEvent, to events: EventStream) throws(SocketError) {
    try events.send(event.json.bytes, event: event.name)
  }
}
