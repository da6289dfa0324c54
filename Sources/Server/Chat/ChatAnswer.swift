// The two forms of a chat answer, whole and streamed, made of the same pieces.

import Chat
import Decoding
import HTTP
import Inference
import JSON
import Pipeline
import Platform
import Wire

struct ChatAnswer {
  let request: ChatRequest
  let header: AnswerHeader
  let run: SearchingRun
  let core: RequestContext
  /// The body of a request whose answer is to be stored.
  let asked: JSONValue

  // MARK: Whole

  /// A choice and the tokens of its content, whose log probabilities are written when it is sent.
  private struct Kept {
    var choice: ChatChoice
    var tokens: [SampledToken] = []
    var rounds = Rounds()
  }

  /// The texts of an answer that searches divide: what comes after one begins a paragraph.
  private struct Rounds {
    /// Unicode scalars of the content.
    private(set) var length = 0
    private var isOpen = (content: false, reasoning: false)
    private var isDivided = (content: false, reasoning: false)

    mutating func divide() { isDivided = isOpen }

    mutating func content(_ text: String) -> String {
      let text = isDivided.content ? "\n\n" + text : text
      (isOpen.content, isDivided.content) = (true, false)
      length += text.unicodeScalars.count
      return text
    }

    mutating func reasoning(_ text: String) -> String {
      defer { (isOpen.reasoning, isDivided.reasoning) = (true, false) }
      return isDivided.reasoning ? "\n\n" + text : text
    }
  }

  /// Waits for the end. A client that leaves meanwhile gets nothing, and the generations end.
  func whole(_ context: ConnectionContext) throws(APIError) -> Response {
    var kept = noneKept
    do throws(AnswerFailure) {
      try run.run(context, isClientGone: context.isClientGone, weight: weight) {
        (event) throws(SocketError) in
        keep(event, in: &kept)
      }
    } catch {
      throw APIError(error, param: "messages")
    }
    let made = made(of: kept)
    var response = Response(parts: made.parts)
    if let error = store(made) { response.headers.add("x-mlxserve-not-stored", error.code ?? error.type) }
    return response
  }

  private var noneKept: [Kept] {
    (0..<request.options.choices).map { index in
      Kept(
        choice: ChatChoice(
          index: index, content: "", reasoning: nil, toolCalls: [], logprobs: nil, finish: .stop))
    }
  }

  private func keep(_ event: SearchingRun.Event, in kept: inout [Kept]) {
    switch event {
    case .piece(let index, let piece):
      add(piece, to: &kept[index])
      kept[index].choice.malformedCalls = parts[index].stream.malformedCalls
    case .citation(let number):
      kept[0].choice.citations += [run.citation(number, at: kept[0].rounds.length)].compactMap(\.self)
    case .searchBegan: kept[0].rounds.divide()
    case .searchEnded(let outcome): kept[0].choice.searches.append(outcome.item)
    }
  }

  /// The whole answer.
  private func made(of kept: [Kept]) -> ChatResponse {
    let choices = kept.enumerated().map { [core] index, kept in
      var choice = kept.choice
      if request.echoes { choice.content = echoed + choice.content }
      // Those of a stream have been told.
      choice.details.tokens = request.options.streams ? nil : run.run?.takeTokens(of: index)
      if request.topLogprobs != nil {
        choice.logprobs = LogprobList(count: kept.tokens.count) { core.logprob(kept.tokens[$0]) }
      }
      return choice
    }
    let prompt = parts.first?.request.promptTokens ?? []
    let details = core.promptDetails(
      request.options, prompt: prompt, found: parts.first?.promptLogprobs ?? [])
    return ChatResponse(header: header, choices: choices, usage: run.usage ?? Usage(), details: details)
  }

  // MARK: Stored

  /// Bytes of a value for a likely token in log probabilities.
  private static let logprobBytes = 800

  /// About what is kept of a piece; of an answer that is stored also as a value and as a record.
  private func weight(_ piece: TokenStream.Piece) -> Int {
    let bytes = AnswerRun.keptBytes(piece)
    guard request.isStored else { return bytes }
    guard case .content(_, let tokens) = piece, request.topLogprobs != nil else { return 3 * bytes }
    return tokens.reduce(3 * bytes) { $0 + Self.logprobBytes * (1 + $1.top.count) }
  }

  /// Keeps the answer for clients to read it again.
  ///
  /// - Returns: why it is not kept; nil when it is, or is not to be.
  private func store(_ made: ChatResponse) -> APIError? {
    guard request.isStored, let body = made.json.objectValue else { return nil }
    let head = StoredCompletion.Head(
      id: header.id, created: header.created, model: header.model,
      metadata: asked["metadata"]?.objectValue.map(JSONValue.object) ?? [:])
    do throws(APIError) {
      try storing { () throws(PlatformError) in
        try core.records.put(
          StoredCompletion(head: head, body: body, messages: asked["messages"]?.arrayValue ?? []))
      }
      // What is stored counts at once.
      core.server.models.observe()
      return nil
    } catch {
      return error
    }
  }

  /// Of the generation that runs.
  private var parts: [AnswerRun.Part] { run.run?.parts ?? [] }

  private func add(_ piece: TokenStream.Piece, to kept: inout Kept) {
    switch piece {
    case .reasoning(let text):
      guard request.showsReasoning else { break }
      let text = kept.rounds.reasoning(text)
      if kept.choice.reasoning == nil {
        kept.choice.reasoning = text
      } else {
        kept.choice.reasoning?.append(text)
      }
    case .content(let text, let tokens):
      kept.choice.content += kept.rounds.content(text)
      kept.tokens += tokens
    case .toolCallBegan(let name):
      let tool = request.tool(named: name)
      kept.choice.toolCalls.append(
        ToolCall(
          id: makeCallID(), name: tool?.clientName ?? name, arguments: "", isCustom: tool?.kind == .custom))
    case .toolCallArguments(let text):
      let calls = kept.choice.toolCalls.count
      if calls > 0 { kept.choice.toolCalls[calls - 1].arguments += text }
    case .toolCallEnded: break
    case .toolCallsFailed(let count):
      kept.choice.toolCalls.removeLast(min(count, kept.choice.toolCalls.count))
    case .finish(let reason): kept.choice.finish = ChoiceFinish(reason)
    }
  }

  /// The text that the answer goes on with.
  private var echoed: String { ChatTemplate.continuedText(of: request.messages.last) }

  private func makeCallID() -> String { "call_" + core.settings.makeID() }

  // MARK: Streamed

  func stream(_ context: ConnectionContext) -> Response {
    .events { events in
      var state = StreamState(choices: request.options.choices)
      var kept = noneKept
      do throws(AnswerFailure) {
        try run.run(
          context, isClientGone: events.isClientGone, weight: request.isStored ? weight : nil,
          onSilence: { () throws(SocketError) in try events.keepAlive() },
          deliver: { (event) throws(SocketError) in
            if request.isStored { keep(event, in: &kept) }
            try send(event, to: events, &state)
          })
      } catch {
        guard case .clientGone = error else { return fail(events, error) }
        throw SocketError.clientGone
      }
      // Before the end is told: a client may ask for it at once.
      if request.isStored { _ = store(made(of: kept)) }
      if request.options.includesUsage {
        try events.send(ChatChunk.usage(run.usage ?? Usage(), header: header).bytes)
      }
      events.finish("[DONE]")
    }
  }

  /// What has been sent of each choice.
  private struct StreamState {
    /// Choices below this have had their role chunk; clients need the first chunks in order.
    var begun = 0
    /// Calls of each choice that have begun: one more than the index of the last.
    var toolCalls: [Int]
    /// Arguments of each choice's open call of a custom tool: its text is sent when it is whole.
    var custom: [String?]
    /// Of each choice.
    var rounds: [Rounds]

    init(choices: Int) {
      rounds = [Rounds](repeating: Rounds(), count: choices)
      toolCalls = [Int](repeating: 0, count: choices)
      custom = [String?](repeating: nil, count: choices)
    }
  }

  private func send(
    _ event: SearchingRun.Event, to events: EventStream, _ state: inout StreamState
  ) throws(SocketError) {
    switch event {
    case .piece(let index, let piece): try send(piece, of: index, to: events, &state)
    case .citation(let number):
      guard let citation = run.citation(number, at: state.rounds[0].length) else { return }
      try send(.citation(citation), of: 0, to: events, &state)
    case .searchBegan: state.rounds[0].divide()
    case .searchEnded(let outcome): try send(.search(outcome.item), of: 0, to: events, &state)
    }
  }

  private func send(
    _ piece: TokenStream.Piece, of index: Int, to events: EventStream, _ state: inout StreamState
  ) throws(SocketError) {
    let delta: ChatChunk.Delta
    switch piece {
    case .reasoning(let text):
      guard request.showsReasoning else { return }
      delta = .reasoning(state.rounds[index].reasoning(text))
    case .content(let text, let tokens):
      delta = .content(
        state.rounds[index].content(text),
        logprobs: request.topLogprobs == nil ? nil : tokens.map(core.logprob))
    case .toolCallBegan(let name):
      let number = state.toolCalls[index]
      state.toolCalls[index] += 1
      let tool = request.tool(named: name)
      let isCustom = tool?.kind == .custom
      // The call before may have failed, which leaves its arguments open.
      state.custom[index] = isCustom ? "" : nil
      if isCustom {
        delta = .customCall(index: number, id: makeCallID(), name: tool?.clientName ?? name)
      } else {
        delta = .toolCall(index: number, id: makeCallID(), name: name)
      }
    case .toolCallArguments(let text) where state.custom[index] != nil:
      state.custom[index]?.append(text)
      return
    case .toolCallEnded where state.custom[index] != nil:
      let text = Tool.input(of: state.custom[index] ?? "")
      state.custom[index] = nil
      delta = .customInput(index: max(0, state.toolCalls[index] - 1), text)
    case .toolCallArguments(let text): delta = .toolArguments(index: max(0, state.toolCalls[index] - 1), text)
    case .toolCallEnded: return
    // What has been sent of a failed call cannot be taken back: its arguments stay incomplete, and the finish says
    // that there was one.
    case .toolCallsFailed:
      state.custom[index] = nil
      return
    case .finish(let reason):
      if let text = state.custom[index] {
        // The token limit cut the call.
        state.custom[index] = nil
        try send(
          .customInput(index: max(0, state.toolCalls[index] - 1), Tool.input(of: text)), of: index,
          to: events,
          &state)
      }
      delta = .finish(ChoiceFinish(reason), malformedCalls: parts[index].stream.malformedCalls)
    }
    try send(delta, of: index, to: events, &state)
  }

  private func send(
    _ delta: ChatChunk.Delta, of index: Int, to events: EventStream, _ state: inout StreamState
  ) throws(SocketError) {
    while state.begun <= index {
      try sendChunk(.role, of: state.begun, to: events)
      if request.echoes {
        try sendChunk(
          .content(echoed, logprobs: request.topLogprobs == nil ? nil : []), of: state.begun, to: events)
      }
      state.begun += 1
    }
    try sendChunk(delta, of: index, to: events)
  }

  private func sendChunk(_ delta: ChatChunk.Delta, of index: Int, to events: EventStream) throws(SocketError)
  {
    var chunk = ChatChunk(
      header: header, choice: index, delta: delta, announcesUsage: request.options.includesUsage)
    if request.options.returnsTokens {
      chunk.tokens = delta == .role ? [] : run.run?.takeTokens(of: index)
      if delta == .role, index == 0 { chunk.promptTokens = parts.first?.request.promptTokens }
    }
    try events.send(chunk.json.bytes)
  }

  /// After the first byte an error can only be told in the stream.
  private func fail(_ events: EventStream, _ failure: AnswerFailure) {
    events.finishFailed(APIError(failure, param: "messages"))
  }
}
