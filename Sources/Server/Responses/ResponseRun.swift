// One response being made: pieces of the generation become events, items and at last a stored response.

import Chat
import Decoding
import HTTP
import Inference
import JSON
import Pipeline
import Platform
import Wire

/// Used by one thread.
final class ResponseRun {
  private enum Kind { case reasoning, message, call }

  private let plan: ResponsePlan
  private let core: RequestContext
  private let run: SearchingRun
  private var writer: ResponseEventWriter
  private var kind: Kind?
  private var callHasArguments = false
  /// Arguments of the open call of a custom tool, whose text is told when it is whole.
  private var customArguments: String?
  private var hasSpoken = false
  private var isInProgress = false
  private var finish = TokenStream.End.stop
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
    _ plan: ResponsePlan, _ core: RequestContext, isUnwanted: @escaping () -> Bool
  ) throws(APIError) {
    (self.plan, self.core) = (plan, core)
    writer = ResponseEventWriter(reasoning: core.reasoningEvents)
    let files = try FileSearchRun(
      plan.chat, core, most: plan.request.maxToolCalls,
      showsResults: plan.request.include.fileSearchResults)
    run = try SearchingRun(plan.chat, core, files: files, isUnwanted: isUnwanted) { (chat) throws(APIError) in
      try plan.makeRun(chat, core, media: MediaResolver(core, isUnwanted: isUnwanted))
    }
  }

  /// How it ended.
  struct Outcome {
    let ending: ResponseEnding
    /// What is stored, or would be.
    let record: StoredResponse
    /// Nobody listens any more.
    let isClientGone: Bool
  }

  // MARK: Whole and streamed

  /// Works to the end without telling anybody on the way.
  ///
  /// - Throws: when there is no answer; then nothing is stored.
  func whole(_ context: ConnectionContext) throws(APIError) -> StoredResponse {
    isWhole = true
    _ = begin()
    do throws(AnswerFailure) {
      try perform(context, isClientGone: context.isClientGone) { _ throws(SocketError) in }
    } catch {
      throw APIError(error, param: "input")
    }
    return end(reached).record
  }

  /// Works to the end and tells every event. Whatever happens, the response ends and is stored.
  func stream(
    _ context: ConnectionContext, isClientGone: () -> Bool,
    onSilence: () throws(SocketError) -> Void = { () throws(SocketError) in },
    send: (ResponseEvent) throws(SocketError) -> Void
  ) -> Outcome {
    var ending = ResponseEnding.cancelled
    var isGone = false
    do throws(AnswerFailure) {
      do throws(SocketError) {
        for event in begin() { try send(event) }
      } catch {
        throw .clientGone
      }
      try perform(context, isClientGone: isClientGone, onSilence: onSilence, send: send)
      ending = reached
    } catch {
      if case .clientGone = error {
        // A background response that is cancelled still has its watchers.
        isGone = !plan.request.isBackground
      } else {
        let error = APIError(error, param: "input")
        // The others have no word of their own in this API.
        let isOwn = ["context_length_exceeded", "rate_limit_exceeded"].contains(error.code)
        ending = .failed(code: isOwn ? error.code ?? "" : "server_error", message: error.message)
      }
    }
    let (events, record) = end(ending)
    do throws(SocketError) {
      for event in events where !isGone { try send(event) }
    } catch {
      isGone = true
    }
    return Outcome(ending: ending, record: record, isClientGone: isGone)
  }

  private var reached: ResponseEnding { finish == .length ? .incomplete : .completed }

  private func perform(
    _ context: ConnectionContext, isClientGone: () -> Bool,
    onSilence: () throws(SocketError) -> Void = { () throws(SocketError) in },
    send: (ResponseEvent) throws(SocketError) -> Void
  ) throws(AnswerFailure) {
    try run.run(
      context, isClientGone: isClientGone, weight: keptBytes, onSilence: onSilence,
      deliver: { (event) throws(SocketError) in
        for event in events(of: event) { try send(event) }
      })
  }

  /// Bytes of a value for a likely token in log probabilities, and of one event that a background response keeps.
  private static let (logprobBytes, eventBytes) = (800, 2_000)

  /// About what a piece takes: as value and text of its item, in the last events and in the record that is stored.
  private func keptBytes(_ piece: TokenStream.Piece) -> Int {
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

  private func events(of event: SearchingRun.Event) -> [ResponseEvent] {
    switch event {
    case .piece(_, let piece): return events(of: piece)
    case .citation(let number):
      let opening = turn(to: .message, .message(id: newID("msg_")))
      hasSpoken = true
      guard let citation = run.citation(number, at: writer.textLength) else { return opening }
      return opening + writer.annotate(citation.responsesJSON)
    case .searchBegan(let id):
      return progress() + close(isComplete: true) + writer.begin(.fileSearch(id: id))
        + writer.searching()
    case .searchEnded(let outcome): return writer.endSearch(outcome.item)
    }
  }

  private func events(of piece: TokenStream.Piece) -> [ResponseEvent] {
    let first = progress()
    switch piece {
    case .reasoning(let text):
      let opening = turn(
        to: .reasoning, .reasoning(id: newID("rs_"), asSummary: plan.request.wantsSummary))
      return first + opening + writer.add(text)
    case .content(let text, let tokens):
      hasSpoken = true
      let opening = turn(to: .message, .message(id: newID("msg_")))
      let logprobs = plan.request.include.logprobs ? tokens.map { core.logprob($0).responsesJSON } : []
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
    return switch tool?.kind {
    case .custom: .customCall(id: newID("ctc_"), callID: callID, name: ownName, namespace: namespace)
    case .item(let prefix): .clientCall(id: newID(prefix), callID: callID, tool: name)
    case .function, nil: .call(id: newID("fc_"), callID: callID, name: ownName, namespace: namespace)
    }
  }

  private func newID(_ prefix: String) -> String { prefix + core.settings.makeID() }

  // MARK: The end

  /// Stores the response before anybody is told that it has ended.
  private func end(_ ending: ResponseEnding) -> ([ResponseEvent], record: StoredResponse) {
    var events = progress()
    events += close(isComplete: ending == .completed)
    if ending == .completed, !hasSpoken {
      // An answer without a word is an empty message.
      events += writer.begin(.message(id: newID("msg_"))) + close(isComplete: true)
    }
    let body = ResponseObject.ended(
      plan.body, ending, output: writer.output, usage: run.usage, at: core.settings.now())
    var made = StoredResponse(
      body: body, context: plan.context, input: plan.input, cuts: writer.cuts,
      reasoning: core.reasoningEvents)
    made.searches = run.items
    let record = store(made, inConversation: ending == .completed || ending == .incomplete)
    // What is stored counts at once.
    core.server.models.observe()
    events.append(writer.lifecycle(ResponseObject.terminalType(record.body), record.body))
    return (events, record)
  }

  /// Stores the response and adds its turn to its conversation. What cannot be stored is answered all the same, and
  /// says that it is not stored.
  private func store(_ made: StoredResponse, inConversation: Bool) -> StoredResponse {
    do throws(PlatformError) {
      // The conversation first: a response that is not stored could not tell where its turn is.
      if inConversation, let id = plan.request.conversationID {
        _ = try core.records.updateConversation(id) { $0.items += plan.input + writer.output }
      }
      if plan.request.isBackground {
        try core.records.replace(made)
      } else if plan.request.isStored {
        try core.records.put(made)
      }
      return made
    } catch {
      let reason = APIError(storing: error)
      storingError = reason
      var record = made
      record.body["store"] = false
      record.body["not_stored"] = .string(reason.code ?? reason.type)
      // Its client has the id already, and asks for it.
      if plan.request.isBackground { core.records.hold(record) }
      return record
    }
  }
}
