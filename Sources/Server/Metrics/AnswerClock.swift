// What one generation of an answer has done and when, gathered by its own thread and told to the counters in pieces.

import Inference
import Platform

/// One choice of an answer. Used by one thread.
struct AnswerClock {
  let submitted: Instant
  private(set) var started: Instant?
  private(set) var firstToken: Instant?
  private var lastToken: Instant?
  private(set) var tokens = 0

  init(submitted: Instant) { self.submitted = submitted }

  mutating func start(at now: Instant) { started = started ?? now }

  /// - Returns: the time since the token before; nil for the first.
  mutating func token(at now: Instant) -> Double? {
    defer { lastToken = now }
    tokens += 1
    firstToken = firstToken ?? now
    return lastToken.map { now.seconds(since: $0) }
  }
}

/// What has come since the counters were told last.
struct TokenTally {
  var tokens = 0
  var intervals = Histogram(bounds: Histogram.betweenTokens)
}

/// Why an answer, or one choice of it, has ended.
enum AnswerEnding: String, CaseIterable {
  case stop, length
  /// The client left, read too slowly, or was told that the server ends.
  case abort
  case error
}

/// Why an answer was not finished, as counters name it.
enum AbortReason: String, CaseIterable {
  case clientGone = "client_gone"
  case clientTooSlow = "client_too_slow"
  case shuttingDown = "shutting_down"
  case engine = "engine_error"
  case noToken = "no_usable_token"
  case memory = "out_of_memory"
}

/// One choice that has ended.
struct AnswerSummary {
  /// What is true of all choices together.
  struct Answer {
    var choices: Int
    /// Tokens of the longest choice.
    var longest: Int
  }

  var model: String
  /// The name of the client's key.
  var key: String?
  var ending: AnswerEnding
  /// Why its answer was not finished; told with the first choice only.
  var failure: AnswerFailure?
  /// Nil for choices that share the prompt of another.
  var promptTokens: Int?
  var cachedTokens: Int
  var maxTokens: Int
  /// The answer that the choice is of; told with the first choice only.
  var answer: Answer?
  var clock: AnswerClock
  /// When the request came.
  var begin: Instant
  var end: Instant
}

extension AnswerFailure {
  var reason: AbortReason {
    switch self {
    case .clientGone: .clientGone
    case .clientTooSlow: .clientTooSlow
    case .shuttingDown: .shuttingDown
    case .engine, .refused: .engine
    case .noToken: .noToken
    case .outOfMemory: .memory
    }
  }

  var ending: AnswerEnding {
    switch self {
    case .clientGone, .clientTooSlow, .shuttingDown: .abort
    case .engine, .refused, .noToken, .outOfMemory: .error
    }
  }
}
