// Everything that is counted. Updated once per answer and once per second of a running one, never per token.

package import HTTP
import JSON
import Platform

/// The counters of one server. Shared by all connections.
package final class Metrics: Sendable {
  /// Of one model.
  struct Model {
    var promptTokens = 0
    var generatedTokens = 0
    var cachedTokens = 0
    /// Prompts with a place that moves, and the tokens behind those places that did not.
    var movingPrompts = 0
    var movedTokens = 0
    var endings: [AnswerEnding: Int] = [:]
    var failures: [AbortReason: Int] = [:]
    var firstToken = Histogram(bounds: Histogram.firstToken)
    var betweenTokens = Histogram(bounds: Histogram.betweenTokens)
    var perToken = Histogram(bounds: Histogram.betweenTokens)
    var total = Histogram(bounds: Histogram.requestSeconds)
    var queued = Histogram(bounds: Histogram.requestSeconds)
    var prefill = Histogram(bounds: Histogram.requestSeconds)
    var decode = Histogram(bounds: Histogram.requestSeconds)
    var inference = Histogram(bounds: Histogram.requestSeconds)
    var promptSizes = Histogram(bounds: Histogram.tokens)
    var answerSizes = Histogram(bounds: Histogram.tokens)
    var longestChoices = Histogram(bounds: Histogram.tokens)
    var tokenLimits = Histogram(bounds: Histogram.tokens)
    var choices = Histogram(bounds: [1, 2, 5, 10, 20])
    /// Of requests for vectors, and for scores.
    var embedding = Histogram(bounds: Histogram.searchSeconds)
    var reranking = Histogram(bounds: Histogram.searchSeconds)
  }

  /// Of one key.
  struct Usage {
    var requests = 0
    var promptTokens = 0
    var generatedTokens = 0
  }

  struct Exchange: Hashable {
    let method: String
    let route: String
    let status: Int
  }

  struct State {
    var models: [ByteKey: Model] = [:]
    var keys: [ByteKey: Usage] = [:]
    var exchanges: [Exchange: Int] = [:]
    var errors: [String: Int] = [:]
    var cutResponses = 0
    /// Of passages that a model was shown, and of others.
    var citations = [0, 0]
  }

  /// Labels of one kind, at most: whatever clients do, the text stays short.
  private static let labelLimit = 1000
  private let state = Monitor(State())
  let prompts = PromptWatch()
  /// Of the wall clock; the server's own start.
  let startSeconds = Instant.wallSeconds

  package init() {}

  /// All of it at one moment.
  func snapshot() -> State { state.withLock { $0 } }

  /// Counts a response.
  package func count(_ record: AccessRecord) {
    // Methods are those that the parser knows; a request that could not be read has none.
    let exchange = Exchange(
      method: record.method.utf8.elementsEqual("-".utf8) ? "none" : record.method,
      route: record.route ?? "none", status: record.status)
    state.withLock { state in
      if state.exchanges[exchange] != nil || state.exchanges.count < Self.labelLimit {
        state.exchanges[exchange, default: 0] += 1
      }
      if let code = record.errorCode, state.errors[code] != nil || state.errors.count < Self.labelLimit {
        state.errors[code, default: 0] += 1
      }
      if !record.isComplete { state.cutResponses += 1 }
    }
  }

  /// Adds tokens of an answer that goes on, and empties the tally.
  func add(_ tally: inout TokenTally, model: String) {
    guard tally.tokens > 0 else { return }
    let added = tally
    state.withLock { state in
      state.models[ByteKey(model), default: Model()].generatedTokens += added.tokens
      state.models[ByteKey(model), default: Model()].betweenTokens.add(added.intervals)
    }
    tally = TokenTally()
  }

  /// Counts a request for vectors or scores of texts.
  func add(encoding seconds: Double, isScoring: Bool, model: String) {
    state.withLock { state in
      if isScoring {
        state.models[ByteKey(model), default: Model()].reranking.observe(seconds)
      } else {
        state.models[ByteKey(model), default: Model()].embedding.observe(seconds)
      }
    }
  }

  /// Counts a request whose answer was not finished, and not begun either.
  func add(aborted reason: AbortReason, model: String) {
    state.withLock { $0.models[ByteKey(model), default: Model()].failures[reason, default: 0] += 1 }
  }

  /// Counts a prompt in which something has moved.
  func add(moving prompt: MovingPrompt) {
    state.withLock { state in
      state.models[ByteKey(prompt.model), default: Model()].movingPrompts += 1
      state.models[ByteKey(prompt.model), default: Model()].movedTokens += prompt.repeated
    }
  }

  /// Counts citations of passages in files.
  func add(citations made: Int, invented: Int) {
    guard made + invented > 0 else { return }
    state.withLock { state in
      state.citations[0] += made
      state.citations[1] += invented
    }
  }

  /// Counts choices that have ended.
  func add(_ summaries: [AnswerSummary]) {
    guard !summaries.isEmpty else { return }
    state.withLock { state in
      for summary in summaries {
        state.models[ByteKey(summary.model), default: Model()].add(summary)
        guard let key = summary.key.map(ByteKey.init) else { continue }
        if state.keys[key] != nil || state.keys.count < Self.labelLimit {
          state.keys[key, default: Usage()].add(summary)
        }
      }
    }
  }
}

extension Metrics.Usage {
  fileprivate mutating func add(_ summary: AnswerSummary) {
    if summary.answer != nil { requests += 1 }
    promptTokens += summary.promptTokens ?? 0
    generatedTokens += summary.clock.tokens
  }
}

extension Metrics.Model {
  fileprivate mutating func add(_ summary: AnswerSummary) {
    let clock = summary.clock
    endings[summary.ending, default: 0] += 1
    if let failure = summary.failure { failures[failure.reason, default: 0] += 1 }
    total.observe(summary.end.seconds(since: summary.begin))
    queued.observe((clock.started ?? summary.end).seconds(since: clock.submitted))
    tokenLimits.observe(Double(summary.maxTokens))
    if let answer = summary.answer { choices.observe(Double(answer.choices)) }
    // What the engine never began has no prompt that was read.
    guard let started = clock.started else { return }
    if let tokens = summary.promptTokens {
      promptTokens += tokens
      cachedTokens += summary.cachedTokens
      promptSizes.observe(Double(tokens))
    }
    answerSizes.observe(Double(clock.tokens))
    if let answer = summary.answer { longestChoices.observe(Double(answer.longest)) }
    inference.observe(summary.end.seconds(since: started))
    guard let first = clock.firstToken else { return }
    firstToken.observe(first.seconds(since: summary.begin))
    prefill.observe(first.seconds(since: started))
    let seconds = summary.end.seconds(since: first)
    decode.observe(seconds)
    if clock.tokens > 1 { perToken.observe(seconds / Double(clock.tokens - 1)) }
  }
}
