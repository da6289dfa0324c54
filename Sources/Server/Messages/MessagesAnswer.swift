// The two forms of an answer of /v1/messages, whole and streamed, made of the same pieces.

import Decoding
import HTTP
import JSON
import Pipeline
import Wire

struct MessagesAnswer {
  let request: MessagesRequest
  /// `msg_…`.
  let id: String
  let run: AnswerRun
  let core: RequestContext

  private var message: MessagesResponse { MessagesResponse(id: id, model: core.model.id, usage: run.usage) }

  /// The message as far as it says how it ended.
  private func ended(_ finish: TokenStream.End) -> MessagesResponse {
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

  private func makeCallID() -> String { "toolu_" + core.settings.makeID() }

  private func shown(_ reasoning: String) -> String { request.showsThinking ? reasoning : "" }

  // MARK: Whole

  /// Waits for the end. A client that leaves meanwhile gets nothing, and the generation ends.
  func whole(_ context: ConnectionContext) throws(APIError) -> Response {
    var blocks: [MessageBlock] = []
    var tokens: [SampledToken] = []
    var finish = TokenStream.End.stop
    do throws(AnswerFailure) {
      try run.run(context, isClientGone: context.isClientGone, weight: AnswerRun.keptBytes) {
        (_, piece) throws(SocketError) in
        if case .content(_, let own) = piece { tokens += own }
        if case .finish(let reason) = piece { finish = reason } else { add(piece, to: &blocks) }
      }
    } catch {
      throw APIError(error, param: "messages")
    }
    var message = ended(finish)
    message.content = blocks
    message.logprobs = logprobs(tokens)
    return Response(json: message.json)
  }

  private func add(_ piece: TokenStream.Piece, to blocks: inout [MessageBlock]) {
    let last = blocks.count - 1
    switch piece {
    case .content(let text, _):
      if last >= 0, blocks[last].isText { blocks[last].append(text) } else { blocks.append(.text(text)) }
    case .reasoning(let text):
      if last >= 0, blocks[last].isThinking {
        blocks[last].append(shown(text))
      } else {
        blocks.append(.thinking(shown(text)))
      }
    case .toolCallBegan(let name): blocks.append(.toolUse(id: makeCallID(), name: name, arguments: ""))
    case .toolCallArguments(let text): if last >= 0, blocks[last].isToolUse { blocks[last].append(text) }
    case .toolCallsFailed(let count): retract(count, from: &blocks)
    case .toolCallEnded, .finish: break
    }
  }

  /// The last calls that began are none after all.
  private func retract(_ count: Int, from blocks: inout [MessageBlock]) {
    for _ in 0..<count {
      guard let last = blocks.lastIndex(where: \.isToolUse) else { return }
      blocks.remove(at: last)
    }
  }

  // MARK: Streamed

  func stream(_ context: ConnectionContext) -> Response {
    .events { events in
      var sender = Sender(answer: self, events: events)
      do throws(AnswerFailure) {
        try run.run(
          context, isClientGone: events.isClientGone,
          onSilence: { () throws(SocketError) in try events.keepAlive() },
          deliver: { (_, piece) throws(SocketError) in try sender.send(piece) })
      } catch {
        guard case .clientGone = error else { return fail(events, error, context) }
        throw SocketError.clientGone
      }
      events.finish(MessagesEvent.stop.json.text, event: MessagesEvent.stop.name)
    }
  }

  /// After the first byte an error can only be told in the stream.
  private func fail(_ events: EventStream, _ failure: AnswerFailure, _ context: ConnectionContext) {
    let error = Wire.messages.json(APIError(failure, param: "messages"), context.requestID)
    events.finishWithError(error.text, event: "error")
  }

  /// Turns pieces into events: blocks are numbered, and one is closed before the next begins.
  private struct Sender {
    let answer: MessagesAnswer
    let events: EventStream
    private var hasBegun = false
    private var index = 0
    /// The block that is being sent; reasoning with all its text.
    private var open: MessageBlock?

    init(answer: MessagesAnswer, events: EventStream) {
      (self.answer, self.events) = (answer, events)
    }

    mutating func send(_ piece: TokenStream.Piece) throws(SocketError) {
      try begin()
      switch piece {
      case .content(let text, let tokens):
        if open?.isText != true { try start(.text("")) }
        try send(.textDelta(index, text, answer.logprobs(tokens)))
      case .reasoning(let text): try sendReasoning(answer.shown(text))
      case .toolCallBegan(let name):
        try start(.toolUse(id: answer.makeCallID(), name: name, arguments: ""))
      case .toolCallArguments(let text): try send(.inputDelta(index, text))
      // What has been sent of a call that failed cannot be taken back.
      case .toolCallEnded, .toolCallsFailed: try close()
      case .finish(let reason):
        try close()
        try send(.delta(answer.ended(reason)))
      }
    }

    private mutating func sendReasoning(_ text: String) throws(SocketError) {
      if open?.isThinking != true { try start(.thinking("")) }
      open?.append(text)
      if !text.utf8.isEmpty { try send(.thinkingDelta(index, text)) }
    }

    private mutating func begin() throws(SocketError) {
      guard !hasBegun else { return }
      hasBegun = true
      var message = answer.message
      message.usage.completionTokens = 0
      message.usage.reasoningTokens = 0
      try send(.start(message))
    }

    private mutating func start(_ block: MessageBlock) throws(SocketError) {
      try close()
      open = block
      try send(.blockStart(index, block))
    }

    private mutating func close() throws(SocketError) {
      guard let block = open else { return }
      if case .thinking(let reasoning) = block { try send(.signatureDelta(index, of: reasoning)) }
      try send(.blockStop(index))
      open = nil
      index += 1
    }

    private func send(_ event: MessagesEvent) throws(SocketError) {
      try events.send(event.json.bytes, event: event.name)
    }
  }
}
