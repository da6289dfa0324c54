// One response being made: pieces of the generation become events, items and at last a stored response.

import Chat
import Decoding
import HTTP
import Inference
import JSON
import Pipeline
import Platform
import Wire

/// Where the events of a response go: to a stream of its client, to a WebSocket, or to those who watch it.
struct ResponseStream: AnswerStream {
  var isGone: () -> Bool
  var onSilence: () throws(SocketError) -> Void = { () throws(SocketError) in }
  var send: (ResponseEvent) throws(SocketError) -> Void

  func isClientGone() -> Bool { isGone() }
  func keepAlive() throws(SocketError) { try onSilence() }
}

/// Used by one thread.
final class ResponseRun: AnswerWriter {
  private enum Kind { case reasoning, message, call }

  let wire = Wire.openAI
  let param = "input"
  let keepsStream = true
  private let plan: ResponsePlan
  private let scope: RequestScope
  private let source: any AnswerSource
  private var writer: ResponseEventWriter
  private var kind: Kind?
  private var callHasArguments = false
  /// Arguments of the open call of a custom tool, whose text is told when it is whole.
  private var customArguments: String?
  private var hasSpoken = false
  private var isInProgress = false
  private var finish = TokenStream.End.stop
  /// How it has ended, and what is stored of it, or would be; nil until then.
  private(set) var ending: ResponseEnding?
  private(set) var record: StoredResponse?
  /// Why the answer, or its turn of a conversation, is not stored; nil when it is, as far as it should be.
  private(set) var storingError: APIError?
  /// Whether nobody is told of anything before the end.
  private var isWhole = false

  /// Starts the generation.
  ///
  /// - Parameter isUnwanted: whether nobody waits for it any more; asked while images are fetched and
  ///   patterns compiled.
  /// - Throws: what is to be answered instead.
  init(
    _ plan: ResponsePlan, _ scope: RequestScope, isUnwanted: @escaping () -> Bool
  ) throws(APIError) {
    (self.plan, self.scope) = (plan, scope)
    writer = ResponseEventWriter(reasoning: scope.reasoningEvents)
    source = try scope.source(
      plan.chat, calls: plan.request.maxToolCalls,
      showsResults: plan.request.include.fileSearchResults, isUnwanted: isUnwanted
    ) { (chat) throws(APIError) in
      try plan.makeRun(chat, scope, media: MediaResolver(scope, isUnwanted: isUnwanted))
    }
    try source.start(param: param)
  }

  // MARK: Whole and streamed

  /// Works to the end without telling anybody on the way.
  ///
  /// - Throws: when there is no answer; then nothing is stored.
  func whole(_ context: ConnectionContext) throws(APIError) -> Response { try whole(source, context) }

  /// Works to the end and tells every event. Whatever happens, the response ends and is stored.
  ///
  /// - Returns: whether anybody still listens.
  func stream(_ context: ConnectionContext, to stream: ResponseStream) -> Bool {
    var writer = self
    do throws(SocketError) {
      try writer.tell(source, context, stream)
      return true
    } catch {
      guard ending == nil else { return false }
      let events = end(.cancelled)
      // A background response that is cancelled still has its watchers.
      guard plan.request.isBackground else { return false }
      return (try? send(events, to: stream)) != nil
    }
  }

  func open(_ stream: ResponseStream?) throws(SocketError) {
    isWhole = stream == nil
    try send(begin(), to: stream)
  }

  func add(_ piece: TokenStream.Piece, of _: Int, to stream: ResponseStream?) throws(SocketError) {
    guard case .reading(let progress) = piece else { return try send(events(of: piece), to: stream) }
    try send(self.progress() + [.reading(progress.json)], to: stream)
  }

  func response() -> Response {
    _ = end(reached)
    var response = Response(json: .object(record?.body ?? plan.body))
    if let error = storingError {
      response.headers.add("x-mlxserve-not-stored", error.code ?? error.type)
    }
    return response
  }

  func close(_ stream: ResponseStream) throws(SocketError) { try send(end(reached), to: stream) }

  /// The stream says it as one more event.
  func fail(_ stream: ResponseStream, _ error: APIError, _: ConnectionContext) throws(SocketError) {
    // The others have no word of their own in this API.
    let isOwn = ["context_length_exceeded", "rate_limit_exceeded"].contains(error.code)
    try send(
      end(.failed(code: isOwn ? error.code ?? "" : "server_error", message: error.message)), to: stream)
  }

  private func send(_ events: [ResponseEvent], to stream: ResponseStream?) throws(SocketError) {
    guard let stream else { return }
    for event in events { try stream.send(event) }
  }

  private var reached: ResponseEnding { finish == .length ? .incomplete : .completed }

  /// Bytes of a value for a likely token in log probabilities, and of one event that a background response keeps.
  private static let (logprobBytes, eventBytes) = (800, 2_000)

  /// About what a piece takes: as value and text of its item, in the last events and in the record that is stored.
  func weight(_ piece: TokenStream.Piece) -> Int {
    if case .reading = piece { return 0 }
    var bytes = 3 * AnswerRun.keptBytes(piece) + (plan.request.isBackground ? Self.eventBytes : 0)
    if case .content(_, let tokens) = piece, plan.request.include.logprobs {
      bytes += tokens.reduce(0) { $0 + Self.logprobBytes * (1 + $1.top.count) }
    }
    return bytes
  }

  // MARK: Events

  private func begin() -> [ResponseEvent] {
    if plan.request.isBackground {
      let queued = ResponseObject.begun(plan.body, status: "queued")
      return [writer.lifecycle("response.created", queued), writer.lifecycle("response.queued", queued)]
    }
    return [writer.lifecycle("response.created", plan.body)] + progress()
  }

  /// Once, when work on the answer shows.
  private func progress() -> [ResponseEvent] {
    guard !isInProgress else { return [] }
    isInProgress = true
    return [writer.lifecycle("response.in_progress", plan.body)]
  }

  private func events(of piece: TokenStream.Piece) -> [ResponseEvent] {
    let first = progress()
    switch piece {
    case .reasoning(let text):
      let opening = turn(
        to: .reasoning, .init(.reasoning(asSummary: plan.request.wantsSummary), id: newID("rs_")))
      return first + opening + writer.add(text)
    case .content(let text, let tokens):
      hasSpoken = true
      let opening = turn(to: .message, .init(.message, id: newID("msg_")))
      let logprobs = plan.request.include.logprobs ? tokens.map { scope.logprob($0).chatJSON } : []
      return first + opening + writer.add(text, logprobs: logprobs)
    case .toolCallBegan(let name):
      hasSpoken = true
      callHasArguments = false
      let closing = close(isComplete: true)
      kind = .call
      return first + closing + writer.begin(call(of: name))
    case .toolCallArguments(let text) where customArguments != nil:
      customArguments?.append(text)
      return first
    case .toolCallEnded where customArguments != nil:
      let text = Tool.input(of: customArguments ?? "")
      customArguments = nil
      return first + writer.add(text) + close(isComplete: true)
    case .toolCallArguments(let text):
      callHasArguments = callHasArguments || !text.utf8.isEmpty
      return first + writer.add(text)
    case .toolCallEnded:
      // A call without arguments has an empty object.
      let arguments = callHasArguments ? [] : writer.add("{}")
      return first + arguments + close(isComplete: true)
    case .toolCallsFailed(let count): return first + retract(count)
    case .finish(let reason):
      finish = reason
      // The token limit cut the call: it stays the last item, as far as it came.
      return first + (customArguments.map { writer.add(Tool.input(of: $0)) } ?? [])
    case .reading: return first
    case .search(.began(let id)):
      return first + close(isComplete: true) + writer.begin(.init(.fileSearch, id: id)) + writer.searching()
    case .search(.ended(let item)): return first + writer.endSearch(item)
    case .search(.remoteBegan(let item)):
      hasSpoken = hasSpoken || item["type"] == "mcp_approval_request"
      let id = item["id"]?.stringValue ?? ""
      return first + close(isComplete: true) + writer.begin(.init(.remote(item), id: id))
    case .search(.remoteEnded(let item)): return first + writer.endRemote(item)
    case .search(.cited(let number)):
      let opening = turn(to: .message, .init(.message, id: newID("msg_")))
      hasSpoken = true
      guard let citation = source.citation(number, at: writer.textLength) else { return first + opening }
      return first + opening + writer.annotate(citation.responsesJSON)
    }
  }

  /// Calls that turned out to be none; their text follows. A whole answer forgets the calls; what a stream has told of
  /// them cannot be taken back, so the one that is open ends as incomplete.
  private func retract(_ count: Int) -> [ResponseEvent] {
    guard isWhole else { return close(isComplete: false) }
    (kind, customArguments) = (nil, nil)
    writer.removeLast(count)
    return []
  }

  /// Opens an item unless one of this kind is open.
  private func turn(to kind: Kind, _ item: @autoclosure () -> ResponseEventWriter.Item) -> [ResponseEvent] {
    guard self.kind != kind else { return [] }
    let closing = close(isComplete: true)
    self.kind = kind
    return closing + writer.begin(item())
  }

  private func close(isComplete: Bool) -> [ResponseEvent] {
    kind = nil
    customArguments = nil
    return writer.close(isComplete: isComplete, seals: plan.request.include.encryptedReasoning)
  }

  /// A call as its client knows the tool.
  private func call(of name: String) -> ResponseEventWriter.Item {
    let tool = plan.chat.tool(named: name)
    let callID = newID("call_")
    let (ownName, namespace) = (tool?.clientName ?? name, tool?.namespace)
    customArguments = tool?.kind == .custom ? "" : nil
    if case .item(let prefix)? = tool?.kind {
      return .init(.clientCall, id: newID(prefix), callID: callID, name: name)
    }
    let isCustom = tool?.kind == .custom
    return .init(
      .call(isCustom: isCustom), id: newID(isCustom ? "ctc_" : "fc_"), callID: callID, name: ownName,
      namespace: namespace)
  }

  private func newID(_ prefix: String) -> String { prefix + scope.settings.makeID() }

  // MARK: The end

  /// Stores the response before anybody is told that it has ended.
  private func end(_ ending: ResponseEnding) -> [ResponseEvent] {
    var events = progress()
    events += close(isComplete: ending == .completed)
    if ending == .completed, !hasSpoken {
      // An answer without a word is an empty message.
      events += writer.begin(.init(.message, id: newID("msg_"))) + close(isComplete: true)
    }
    var body = ResponseObject.ended(
      plan.body, ending, output: writer.output, usage: source.usageSoFar, at: scope.settings.now())
    body[TokenDetails.receiptName] = source.current?.receipt(of: 0)
    var made = StoredResponse(
      body: body, context: plan.context, input: plan.input, cuts: writer.cuts,
      reasoning: scope.reasoningEvents)
    made.searches = source.searches
    made.written = source.current?.written ?? []
    let record = store(made, inConversation: ending == .completed || ending == .incomplete)
    // What is stored counts at once.
    scope.server.models.observe()
    events.append(writer.lifecycle(ResponseObject.terminalType(record.body), record.body))
    (self.ending, self.record) = (ending, record)
    return events
  }

  /// Stores the response and adds its turn to its conversation. What cannot be stored is answered all the same, and
  /// says that it is not stored.
  private func store(_ made: StoredResponse, inConversation: Bool) -> StoredResponse {
    do throws(PlatformError) {
      // The conversation first: a response that is not stored could not tell where its turn is.
      if inConversation, let id = plan.request.conversationID {
        _ = try scope.records.updateConversation(id) {
          $0.items += plan.input + writer.output
          $0.written = made.written
        }
      }
      if plan.request.isBackground {
        try scope.records.replace(made)
      } else if plan.request.isStored {
        try scope.records.put(made)
      }
      return made
    } catch {
      let reason = APIError(storing: error)
      storingError = reason
      var record = made
      record.body["store"] = false
      record.body["not_stored"] = .string(reason.code ?? reason.type)
      // Its client has the id already, and asks for it.
      if plan.request.isBackground { scope.records.hold(record) }
      return record
    }
  }
}
