// Runs the generations of one answer together and hands out their pieces as they come.

import Decoding
import HTTP
import Inference
import JSON
import Media
import Pipeline
import Platform
import Wire

/// Used on the connection's thread only.
final class AnswerRun: AnswerSource {
  /// One choice of the answer.
  struct Part {
    var request: GenerationRequest
    var stream: TokenStream
    /// Whether the prompt is counted with this part: choices of one prompt share it.
    var countsPrompt: Bool
    /// Whether the ids of the answer's tokens are told.
    let tellsTokens: Bool

    /// Of the answer, but for a stop token; empty unless they are told or remembered.
    fileprivate(set) var tokens: [Int32] = []
    /// What its receipt will say, where it is to have one, and the receipt once it has ended.
    fileprivate var notes: ReceiptNotes?
    fileprivate(set) var receipt: JSONValue?
    /// How many of them have been told.
    fileprivate var toldTokens = 0
    fileprivate(set) var cachedTokens = 0
    fileprivate(set) var promptLogprobs: [SampledToken?] = []
    fileprivate var generation: Generation?
    fileprivate var clock: AnswerClock?
    fileprivate var isFinished = false

    init(request: GenerationRequest, stream: TokenStream, countsPrompt: Bool, tellsTokens: Bool = false) {
      (self.tellsTokens, self.request, self.stream) = (tellsTokens, request, stream)
      self.countsPrompt = countsPrompt
    }
  }

  private(set) var parts: [Part]
  private let begin = Instant.now
  private var firstPiece: Instant?
  private let scope: RequestScope
  private let timing: Timing
  private var tally = TokenTally()
  /// Told of an answer that the model has ended itself: its content, and its tokens. Set before the start.
  var onEnd: ((String, [Int32]) -> Void)?
  private var content = ""
  /// Where its answers begin; nil where they are not remembered.
  private var place: AnswerPlace?
  /// Answers of the prompt, and in the end those that it has made, whose tokens are not the tokenizer's.
  private(set) var written: [WrittenAnswer] = []
  /// Makes what the answers may say, where that takes time; nil where their requests have it.
  private let makeGuide: GuideMaker?

  /// - Throws: 400 for what cannot be enforced.
  typealias GuideMaker = () throws(APIError) -> Guide?

  private struct Timing {
    /// How often a waiting connection looks whether its client is still there, seconds.
    let poll: Double
    /// Silence on a stream after which a comment is sent, seconds.
    let keepAlive: Double
  }

  /// Generations of one answer that the engine may hold at a time.
  private static let window = 8
  /// How often a running answer is counted, seconds.
  private static let countingSeconds = 1.0

  /// - Parameter receipt: what is noted of each part; nil for no receipts.
  init(_ parts: [Part], scope: RequestScope, makeGuide: GuideMaker? = nil, receipt: ReceiptNotes? = nil) {
    (self.parts, self.scope, self.makeGuide) = (parts, scope, makeGuide)
    for index in parts.indices { self.parts[index].notes = receipt }
    if receipt != nil { scope.model.identity.prepare() }
    timing = Timing(poll: scope.settings.pollSeconds, keepAlive: scope.settings.keepAliveSeconds)
  }

  deinit { cancelAll() }

  /// Has the tokens of its answers remembered, for prompts that go on with this one's text.
  func remembersAnswer(behind prompt: String) {
    place = AnswerPlace(after: prompt)
    written = scope.model.written.answers(in: Array(prompt.utf8), tenant: scope.client.number)
  }

  private func cancelAll() {
    for part in parts { part.generation?.cancel() }
  }

  /// Submits the first generations, and makes their guide while the engine computes their prompts.
  ///
  /// - Throws: what the service throws for the very first, or what the guide is refused with.
  func start(param: String) throws(APIError) {
    let guide = makeGuide.map { _ in LateGuide() }
    for index in parts.indices { parts[index].request.lateGuide = guide }
    do throws(InferenceError) {
      try submitFirst()
    } catch {
      throw APIError(error, param: param)
    }
    do throws(APIError) {
      try guide?.fill(checkGuide())
    } catch {
      cancelAll()
      throw error
    }
  }

  /// What the answers may say, if that is yet to be made.
  @discardableResult
  func checkGuide() throws(APIError) -> Guide? { try makeGuide?() }

  /// Those for which the queue has no room wait, but for the very first.
  private func submitFirst() throws(InferenceError) {
    for index in parts.indices.prefix(Self.window) {
      do throws(InferenceError) {
        try submit(index)
      } catch {
        if case .queueFull = error, index > 0 { return }
        throw error
      }
    }
  }

  private var hasUnfinished: Bool { parts.contains { !$0.isFinished } }

  private func submit(_ index: Int) throws(InferenceError) {
    parts[index].generation = try scope.model.generator().submit(parts[index].request)
    parts[index].clock = AnswerClock(submitted: .now)
  }

  func run(
    _ context: ConnectionContext, isClientGone: () -> Bool, weight: ((TokenStream.Piece) -> Int)?,
    onSilence: () throws(SocketError) -> Void, deliver: (Int, TokenStream.Piece) throws(SocketError) -> Void
  ) throws(AnswerFailure) {
    do throws(AnswerFailure) {
      try work(context, isClientGone: isClientGone, weight: weight, onSilence: onSilence, deliver: deliver)
    } catch {
      conclude(context, failure: error)
      throw error
    }
    conclude(context, failure: nil)
    if parts.first?.stream.finish == .stop { onEnd?(content, parts[0].tokens) }
  }

  /// Ends what is left, and tells the log and the counters.
  private func conclude(_ context: ConnectionContext, failure: AnswerFailure?) {
    cancelAll()
    scope.metrics.add(&tally, model: scope.model.id)
    if let place {
      if let first = parts.first, first.request.media.isEmpty {
        scope.server.readAhead?.note(
          first.request.promptTokens + first.tokens, tenant: scope.client.number, model: scope.model.id)
      }
      written += parts.compactMap { part in
        scope.model.remember(
          part.tokens, after: part.request.promptTokens, at: place, tenant: scope.client.number)
      }
    }
    scope.settings.recorder?.write(
      parts.compactMap(\.receipt), model: scope.model.id, at: scope.settings.now(), context)
    let end = Instant.now
    let aborted = hasUnfinished ? failure : nil
    let answer = AnswerSummary.Answer(
      choices: parts.count, longest: parts.map { $0.clock?.tokens ?? 0 }.max() ?? 0)
    scope.metrics.add(
      parts.enumerated().compactMap { index, part in
        part.clock.map { clock in
          AnswerSummary(
            model: scope.model.id, key: context.client.name,
            ending: part.stream.finish.map { $0 == .length ? .length : .stop } ?? failure?.ending ?? .abort,
            failure: index == 0 ? aborted : nil,
            promptTokens: part.countsPrompt ? part.request.promptTokens.count : nil,
            cachedTokens: part.countsPrompt ? part.cachedTokens : 0, maxTokens: part.request.maxTokens,
            answer: index == 0 ? answer : nil, clock: clock, begin: begin, end: end)
        }
      })
    log(context, at: end, aborted: aborted?.reason)
  }

  private func work(
    _ context: ConnectionContext, isClientGone: () -> Bool, weight: ((TokenStream.Piece) -> Int)?,
    onSilence: () throws(SocketError) -> Void,
    deliver: (Int, TokenStream.Piece) throws(SocketError) -> Void
  ) throws(AnswerFailure) {
    var lastSent = Instant.now
    var lastCounted = lastSent
    while hasUnfinished {
      var pieces: [(Int, TokenStream.Piece)] = []
      let failure = collect(into: &pieces)
      if let weight { try claim(pieces.reduce(0) { $0 + weight($1.1) }) }
      do throws(SocketError) {
        for (index, piece) in pieces { try deliver(index, piece) }
        if !pieces.isEmpty {
          lastSent = .now
          if lastSent.seconds(since: lastCounted) >= Self.countingSeconds {
            lastCounted = lastSent
            scope.metrics.add(&tally, model: scope.model.id)
          }
          if pieces.contains(where: { !$0.1.isReading }) { firstPiece = firstPiece ?? lastSent }
        }
        if Instant.now.seconds(since: lastSent) >= timing.keepAlive {
          try onSilence()
          lastSent = .now
        }
      } catch {
        throw .clientGone
      }
      if let failure { throw failure }
      // A client that leaves after the last piece has lost nothing.
      if hasUnfinished && isClientGone() { throw .clientGone }
      if context.phase == .expired { throw .shuttingDown }
    }
  }

  /// Claims memory for what is kept of pieces.
  private func claim(_ bytes: Int) throws(AnswerFailure) {
    guard bytes > 0, let memory = scope.memory, !memory.extend(by: bytes) else { return }
    throw .outOfMemory(needed: bytes, limit: memory.limit)
  }

  /// One turn: what has arrived, or else the next event, or nothing after the poll time. What came before a
  /// failure is still to be delivered.
  private func collect(into pieces: inout [(Int, TokenStream.Piece)]) -> AnswerFailure? {
    do throws(AnswerFailure) {
      try submitWaiting()
      for index in parts.indices { try drain(index, into: &pieces) }
      if pieces.isEmpty { try wait(into: &pieces) }
      return nil
    } catch {
      return error
    }
  }

  /// Fills the window again. A full queue is no error here: the next turn tries again.
  private func submitWaiting() throws(AnswerFailure) {
    var running = parts.count { $0.generation != nil && !$0.isFinished }
    for index in parts.indices where parts[index].generation == nil && running < Self.window {
      do throws(InferenceError) {
        try submit(index)
        running += 1
      } catch {
        guard case .queueFull = error else { throw .engine(error) }
        return
      }
    }
  }

  /// Waits for a running generation's next event, or for room in the queue.
  private func wait(into pieces: inout [(Int, TokenStream.Piece)]) throws(AnswerFailure) {
    if let running = parts.firstIndex(where: { $0.generation != nil && !$0.isFinished }) {
      try read(running, until: Instant.now.adding(seconds: timing.poll), into: &pieces)
    } else if parts.contains(where: { $0.generation == nil }) {
      usleep(UInt32(timing.poll * 1e6))
    }
  }

  /// Takes everything that has arrived, without waiting.
  private func drain(_ index: Int, into pieces: inout [(Int, TokenStream.Piece)]) throws(AnswerFailure) {
    guard parts[index].generation != nil else { return }
    let past = Instant(nanoseconds: 0)
    while !parts[index].isFinished, try read(index, until: past, into: &pieces) {}
  }

  /// Reads one event. False when none came in time.
  @discardableResult
  private func read(_ index: Int, until deadline: Instant, into pieces: inout [(Int, TokenStream.Piece)])
    throws(AnswerFailure) -> Bool
  {
    guard let generation = parts[index].generation else { return false }
    let before = pieces.count
    let counted = parts[index].stream.completionTokens
    var reason: FinishReason?
    switch generation.next(until: deadline) {
    case .timedOut: return false
    case .closed: throw .clientTooSlow
    case .element(.started(let cached)):
      parts[index].cachedTokens = cached
      parts[index].clock?.start(at: .now)
    case .element(.progress(let progress)): pieces.append((index, .reading(progress)))
    case .element(.promptLogprobs(let logprobs)): parts[index].promptLogprobs = logprobs
    case .element(.token(let token)) where token.isArbitrary: throw .noToken
    case .element(.token(let token)):
      tally.tokens += 1
      if parts[index].tellsTokens || place != nil { parts[index].tokens.append(token.id) }
      if let interval = parts[index].clock?.token(at: .now) { tally.intervals.observe(interval) }
      pieces += parts[index].stream.consume(token).map { (index, $0) }
      if parts[index].stream.completionTokens > counted { parts[index].notes?.add(token) }
    case .element(.finished(.cancelled, _)): throw .clientTooSlow
    case .element(.finished(let ended, _)):
      reason = ended
      pieces += parts[index].stream.end(ended).map { (index, $0) }
      parts[index].isFinished = true
    case .element(.failed(let error)): throw .engine(error)
    }
    if onEnd != nil {
      for case (_, .content(let text, _)) in pieces[before...] { content += text }
    }
    if parts[index].stream.finish != nil {
      parts[index].isFinished = true
      generation.cancel()
      try makeReceipt(of: index, endedBy: reason)
    }
    return true
  }

  /// Bytes that a token takes in a receipt, as a value and as text.
  private static let receiptBytes = 64

  /// - Parameter reason: why the engine ended the answer; nil where what read it did.
  private func makeReceipt(of index: Int, endedBy reason: FinishReason?) throws(AnswerFailure) {
    let part = parts[index]
    guard let notes = part.notes else { return }
    try claim(Self.receiptBytes * (part.request.promptTokens.count + notes.answer.count))
    let ending: Receipt.Ending =
      switch reason {
      case .stop: .stopToken
      case .length: .length
      case .cancelled, nil: part.stream.stopString == nil ? .reader : .stopText
      }
    let late = part.request.lateGuide?.guide ?? nil
    parts[index].receipt =
      Receipt(
        notes, of: part.request, guide: late ?? part.request.guide, stops: part.stream.stopTexts,
        ending: ending, model: scope.model, key: scope.settings.receiptKey
      ).json
  }

  /// Ids of a part's tokens that have come since the last call; nil where they are not told.
  func takeTokens(of index: Int) -> [Int32]? {
    guard parts[index].tellsTokens else { return nil }
    defer { parts[index].toldTokens = parts[index].tokens.count }
    return Array(parts[index].tokens[parts[index].toldTokens...])
  }

  /// The receipt of a part that has ended; nil where there is none.
  func receipt(of index: Int) -> JSONValue? { parts.indices.contains(index) ? parts[index].receipt : nil }

  var current: AnswerRun? { self }
  var usageSoFar: Usage? { usage }
  var searches: [JSONValue] { [] }
  func citation(_: Int, at _: Int) -> FileCitation? { nil }

  /// Counts of everything so far.
  var usage: Usage {
    var usage = Usage()
    for part in parts {
      if part.countsPrompt {
        usage.promptTokens += part.request.promptTokens.count
        usage.cachedTokens += part.cachedTokens
        for span in part.request.media where span.input.kind == .audio {
          usage.audioTokens += span.input.tokenCount
        }
      }
      usage.completionTokens += part.stream.completionTokens
      usage.reasoningTokens += part.stream.reasoningTokens
    }
    return usage
  }

  /// About what a piece takes that is kept as it is: its text as it came, as it grew and as it is written, and tokens
  /// with the likeliest others in their places.
  static func keptBytes(_ piece: TokenStream.Piece) -> Int {
    switch piece {
    case .content(let text, let tokens):
      tokens.reduce(64 + 4 * text.utf8.count) { $0 + 96 + 8 * $1.top.count }
    case .reasoning(let text), .toolCallArguments(let text): 64 + 4 * text.utf8.count
    case .toolCallBegan(let name): 256 + name.utf8.count
    case .toolCallEnded, .toolCallsFailed, .finish, .search, .reading: 0
    }
  }

  /// For the operator: counts and times, never text. In the line of the request if it is one answer, else in one of
  /// its own.
  private func log(_ context: ConnectionContext, at end: Instant, aborted: AbortReason?) {
    let usage = usage
    var facts = [
      ("prompt_tokens", "\(usage.promptTokens)"), ("cached_tokens", "\(usage.cachedTokens)"),
      ("completion_tokens", "\(usage.completionTokens)"),
      ("first_token_ms", firstPiece.map { "\(milliseconds(from: begin, to: $0))" } ?? "none"),
      ("answer_ms", "\(milliseconds(from: begin, to: end))"),
      ("malformed_calls", "\(parts.reduce(0) { $0 + $1.stream.malformedCalls })"),
      ("finish", parts.prefix(8).map { $0.stream.finish?.rawValue ?? "none" }.joined(separator: ",")),
    ]
    if let aborted { facts.append((LogField.aborted, aborted.rawValue)) }
    guard !context.isOneAnswer else {
      for (name, value) in facts { context.tell(name, value) }
      return
    }
    let key = context.client.name.map { [("key", $0)] } ?? []
    let model = (LogField.model, scope.model.id)
    Log.info("answer", fields: [("request_id", context.requestID)] + key + [model] + facts)
  }

  private func milliseconds(from start: Instant, to end: Instant) -> Int {
    Int((end.nanoseconds - start.nanoseconds) / 1_000_000)
  }
}

extension TokenStream.Piece {
  /// Whether it is nothing of the answer.
  fileprivate var isReading: Bool { if case .reading = self { true } else { false } }
}

extension PromptProgress {
  /// The member of events that has it, as llama-server calls it.
  static let member = "prompt_progress"

  /// Times in milliseconds; `remaining_ms` is this server's own, and null while nothing is known of it.
  var json: JSONValue {
    [
      "total": .int(total), "cache": .int(cached), "processed": .int(processed),
      "time_ms": Self.milliseconds(seconds),
      "remaining_ms": secondsLeft.map(Self.milliseconds) ?? nil,
    ]
  }

  private static func milliseconds(_ seconds: Double) -> JSONValue {
    .int(Int((min(max(0, seconds), 1e9) * 1000).rounded()))
  }
}
