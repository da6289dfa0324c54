// An answer in the words of Chat Completions: one object, or chunks of it.

import Chat
import Decoding
import HTTP
import Inference
import JSON
import Pipeline
import Platform
import Wire

struct ChatAnswer: AnswerWriter {
  let wire = Wire.openAI
  let param = "messages"
  private let request: ChatRequest
  private let header: AnswerHeader
  private let source: any AnswerSource
  private let scope: RequestScope
  /// The body of a request whose answer is to be stored.
  private let asked: JSONValue
  private var choices: [Choice]
  /// Choices below this have had their role chunk; clients need the first chunks in order.
  private var begun = 0

  /// A choice as far as it has come.
  private struct Choice {
    /// Of a stream that is not stored, the calls alone.
    var said: ChatChoice
    /// The tokens of its content, whose log probabilities are written when it is sent.
    var tokens: [SampledToken] = []
    var rounds = Rounds()
    /// Calls that have begun: one more than the index of the last.
    var calls = 0
    /// Whether the last call goes on.
    var isInCall = false

    /// Whether that is one of a custom tool: its text is sent when it is whole.
    var isInCustomCall: Bool { isInCall && said.toolCalls.last?.isCustom == true }
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

  init(_ request: ChatRequest, _ source: any AnswerSource, _ scope: RequestScope, asked: JSONValue) {
    (self.request, self.source, self.scope, self.asked) = (request, source, scope, asked)
    header = scope.makeHeader(idPrefix: "chatcmpl-")
    choices = (0..<request.options.choices).map { Choice(said: ChatChoice(index: $0)) }
  }

  /// Of the generation that runs.
  private var parts: [AnswerRun.Part] { source.current?.parts ?? [] }

  var keepsStream: Bool { request.isStored }

  /// Bytes of a value for a likely token in log probabilities.
  private static let logprobBytes = 800

  /// Of an answer that is stored, also as a value and as a record.
  func weight(_ piece: TokenStream.Piece) -> Int {
    let bytes = AnswerRun.keptBytes(piece)
    guard request.isStored else { return bytes }
    guard case .content(_, let tokens) = piece, request.topLogprobs != nil else { return 3 * bytes }
    return tokens.reduce(3 * bytes) { $0 + Self.logprobBytes * (1 + $1.top.count) }
  }

  mutating func add(_ piece: TokenStream.Piece, of index: Int, to events: EventStream?) throws(SocketError) {
    let keeps = events == nil || request.isStored
    switch piece {
    case .reasoning(let text):
      guard request.showsReasoning else { return }
      let text = choices[index].rounds.reasoning(text)
      if keeps {
        choices[index].said.reasoning = choices[index].said.reasoning ?? ""
        choices[index].said.reasoning?.append(text)
      }
      try send(.reasoning(text), of: index, to: events)
    case .content(let text, let tokens):
      let text = choices[index].rounds.content(text)
      if keeps {
        choices[index].said.content += text
        choices[index].tokens += tokens
      }
      guard let events else { return }
      let logprobs = request.topLogprobs == nil ? nil : tokens.map(scope.logprob)
      try send(.content(text, logprobs: logprobs), of: index, to: events)
    case .toolCallBegan(let name): try begin(name, of: index, to: events)
    case .toolCallArguments(let text):
      guard let last = choices[index].said.toolCalls.indices.last else { return }
      let isCustom = choices[index].isInCustomCall
      if keeps || isCustom { choices[index].said.toolCalls[last].arguments += text }
      if !isCustom { try send(.toolArguments(index: choices[index].calls - 1, text), of: index, to: events) }
    case .toolCallEnded:
      try endCustomCall(of: index, to: events)
      choices[index].isInCall = false
    // What a stream has sent of a failed call cannot be taken back: its arguments stay incomplete, and the finish says
    // that there was one.
    case .toolCallsFailed(let count):
      choices[index].said.toolCalls.removeLast(min(count, choices[index].said.toolCalls.count))
      choices[index].isInCall = false
    case .finish(let reason):
      // The token limit may have cut a call.
      try endCustomCall(of: index, to: events)
      let malformed = parts[index].stream.malformedCalls
      (choices[index].said.finish, choices[index].said.malformedCalls) = (ChoiceFinish(reason), malformed)
      try send(.finish(ChoiceFinish(reason), malformedCalls: malformed), of: index, to: events)
    case .reading(let progress): try send(.reading(progress.json), of: index, to: events)
    case .search(.began): choices[index].rounds.divide()
    case .search(.ended(let item)):
      if keeps { choices[index].said.searches.append(item) }
      try send(.search(item), of: index, to: events)
    // Chat has no such tools.
    case .search(.remoteBegan), .search(.remoteEnded): break
    case .search(.cited(let number)):
      guard let citation = source.citation(number, at: choices[index].rounds.length) else { return }
      if keeps { choices[index].said.citations.append(citation) }
      try send(.citation(citation), of: index, to: events)
    }
  }

  private mutating func begin(_ name: String, of index: Int, to events: EventStream?) throws(SocketError) {
    let tool = request.tool(named: name)
    let call = ToolCall(
      id: "call_" + scope.settings.makeID(), name: tool?.clientName ?? name, arguments: "",
      isCustom: tool?.kind == .custom)
    choices[index].said.toolCalls.append(call)
    choices[index].isInCall = true
    choices[index].calls += 1
    let number = choices[index].calls - 1
    try send(
      .toolCall(index: number, id: call.id, name: call.name, isCustom: call.isCustom), of: index, to: events)
  }

  private mutating func endCustomCall(of index: Int, to events: EventStream?) throws(SocketError) {
    guard let events, choices[index].isInCustomCall, let call = choices[index].said.toolCalls.last else {
      return
    }
    let text = Tool.input(of: call.arguments)
    try send(.customInput(index: choices[index].calls - 1, text), of: index, to: events)
  }

  // MARK: Whole

  func response() -> Response {
    let made = made
    var response = Response(parts: made.parts)
    if let error = store(made) { response.headers.add("x-mlxserve-not-stored", error.code ?? error.type) }
    return response
  }

  private var made: ChatResponse {
    let choices = choices.enumerated().map { [scope] index, kept in
      var choice = kept.said
      if request.echoes { choice.content = echoed + choice.content }
      // Those of a stream have been told.
      choice.details.receipt = source.current?.receipt(of: index)
      choice.details.tokens = request.options.streams ? nil : source.current?.takeTokens(of: index)
      if request.topLogprobs != nil {
        choice.logprobs = LogprobEntry.chatParts(count: kept.tokens.count) { scope.logprob(kept.tokens[$0]) }
      }
      return choice
    }
    let details = scope.promptDetails(
      request.options, prompt: parts.first?.request.promptTokens ?? [],
      found: parts.first?.promptLogprobs ?? [])
    return ChatResponse(
      header: header, choices: choices, usage: source.usageSoFar ?? Usage(), details: details)
  }

  /// The text that the answer goes on with.
  private var echoed: String { ChatTemplate.continuedText(of: request.messages.last) }

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
        try scope.records.put(
          StoredCompletion(head: head, body: body, messages: asked["messages"]?.arrayValue ?? []))
      }
      // What is stored counts at once.
      scope.server.models.observe()
      return nil
    } catch {
      return error
    }
  }

  // MARK: Streamed

  func close(_ events: EventStream) throws(SocketError) {
    // Before the end is told: a client may ask for it at once.
    if request.isStored { _ = store(made) }
    if request.options.includesUsage {
      try events.send(ChatChunk.usage(source.usageSoFar ?? Usage(), header: header).bytes)
    }
    events.finish("[DONE]")
  }

  private mutating func send(
    _ delta: ChatChunk.Delta, of index: Int, to events: EventStream?
  ) throws(SocketError) {
    guard let events else { return }
    while begun <= index {
      try sendChunk(.role, of: begun, to: events)
      let logprobs: [LogprobEntry]? = request.topLogprobs == nil ? nil : []
      if request.echoes { try sendChunk(.content(echoed, logprobs: logprobs), of: begun, to: events) }
      begun += 1
    }
    try sendChunk(delta, of: index, to: events)
  }

  private func sendChunk(_ delta: ChatChunk.Delta, of index: Int, to events: EventStream) throws(SocketError)
  {
    var chunk = ChatChunk(
      header: header, choice: index, delta: delta, announcesUsage: request.options.includesUsage)
    if case .finish = delta { chunk.receipt = source.current?.receipt(of: index) }
    if request.options.returnsTokens {
      chunk.tokens = delta == .role ? [] : source.current?.takeTokens(of: index)
      if delta == .role, index == 0 { chunk.promptTokens = parts.first?.request.promptTokens }
    }
    try events.send(chunk.json.bytes)
  }
}
