// How answers become asynchronous sequences: one thread each, which the engine feeds and the reader can stop.

import Inference
import JSON
import Pipeline
import Platform
import Sampling
import Search
import Tokenizers
import Vectors

extension Answer {
  /// An answer that a thread makes.
  init(_ hosted: HostedModel, _ work: @escaping @Sendable (AnswerWork) throws -> Void) {
    pieces = AsyncThrowingStream { continuation in
      let answer = AnswerWork(hosted.model) { continuation.yield($0) }
      continuation.onTermination = { _ in answer.cancel() }
      onThread {
        try hosted.working { try work(answer) }
      } then: { (result: Result<Void, any Error>) in
        switch result {
        case .success: continuation.finish()
        case .failure(let error): continuation.finish(throwing: MLXServeError(answering: error))
        }
      }
    }
  }
}

/// Runs `body` on a thread of its own.
func onThread<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) async throws -> Value {
  try await withCheckedThrowingContinuation { continuation in
    onThread(body) { continuation.resume(with: $0) }
  }
}

/// The same for a `body` that asks now and then whether the task is cancelled, and throws then what becomes
/// `CancellationError`.
func onThread<Value: Sendable>(
  _ body: @escaping @Sendable (_ isCancelled: () -> Bool) throws -> Value
) async throws -> Value {
  try Task.checkCancellation()
  let isCancelled = Monitor(false)
  return try await withTaskCancellationHandler {
    try await onThread {
      do {
        return try body { isCancelled.withLock { $0 } }
      } catch {
        throw isCancelled.withLock { $0 } ? CancellationError() : MLXServeError(answering: error)
      }
    }
  } onCancel: {
    isCancelled.update { $0 = true }
  }
}

/// The same with a function that gets the result, on that thread.
func onThread<Value: Sendable>(
  _ body: @escaping @Sendable () throws -> Value,
  then deliver: @escaping @Sendable (Result<Value, any Error>) -> Void
) {
  do throws(PlatformError) {
    try Thread(name: "answer", stackBytes: 4 << 20) { deliver(Result { try body() }) }.detach()
  } catch {
    deliver(.failure(MLXServeError(.failed, "\(error)")))
  }
}

/// One answer in the making. Its thread works; any thread may cancel it.
final class AnswerWork: Sendable {
  private struct State {
    var generation: Generation?
    var isCancelled = false
  }

  private let model: LoadedModel
  private let deliver: @Sendable (AnswerPiece) -> Void
  private let state = Monitor(State())

  init(_ model: LoadedModel, _ deliver: @escaping @Sendable (AnswerPiece) -> Void) {
    (self.model, self.deliver) = (model, deliver)
  }

  /// Ends it within one step of the engine.
  func cancel() {
    let generation = state.withLock { state in
      state.isCancelled = true
      return state.generation
    }
    generation?.cancel()
  }

  /// The generation that `cancel` ends.
  func begin(_ generation: Generation) {
    let isCancelled = state.withLock { state in
      state.generation = generation
      return state.isCancelled
    }
    if isCancelled { generation.cancel() }
  }

  func take(_ piece: TokenStream.Piece) {
    switch piece {
    case .reasoning(let text): deliver(.reasoning(text))
    case .content(let text, _): deliver(.text(text))
    case .finish(let end): deliver(.end(isComplete: end != .length))
    // A conversation without tools has no others.
    default: break
    }
  }

  /// Text after a prompt.
  func complete(_ prompt: String, _ options: AnswerOptions) throws {
    let tokenizer = model.tokenizer
    let request = GenerationRequest(
      promptTokens: tokenizer.encode(prompt, addSpecialTokens: true),
      maxTokens: max(1, options.maxTokens ?? model.maxAnswer),
      sampling: options.sampling(of: model),
      stopTokens: model.endTokens, tokenLimit: tokenizer.vocabularySize)
    let generation = try model.generator().submit(request)
    begin(generation)
    var settings = TokenStream.Settings()
    settings.stops = options.stops
    var stream = TokenStream(
      settings, detokenizer: tokenizer.makeDetokenizer(skipSpecialTokens: true, isContinuation: true))
    while stream.finish == nil {
      switch generation.next() {
      case .element(.token(let token)): stream.consume(token).forEach(take)
      case .element(.finished(let reason, _)): stream.end(reason).forEach(take)
      case .element(.failed(let error)): throw error
      case .element: continue
      case .closed, .timedOut: stream.end(.cancelled).forEach(take)
      }
    }
    generation.cancel()
  }
}

extension AnswerOptions {
  fileprivate func sampling(of model: LoadedModel) -> SamplingParameters {
    var overrides = model.sampling
    if let temperature { overrides[.temperature] = min(max(0, temperature), 2) }
    var sampling = SamplingParameters(overrides)
    sampling.seed = seed
    return sampling
  }
}

/// The turns of a `Chat`.
///
/// `@unchecked Sendable`: `session` is only touched by the thread that has entered.
final class Conversation: @unchecked Sendable {
  private var session: ChatSession
  private let isBusy = Monitor(false)

  init(_ hosted: HostedModel, system: String?, _ options: AnswerOptions) throws(MLXServeError) {
    var settings = ChatSession.Settings()
    settings.system = system
    settings.sampling = options.sampling(of: hosted.model)
    settings.maxTokens = options.maxTokens
    settings.stops = options.stops
    settings.switchesThinkingOff = (options.thinking ?? hosted.model.thinking) == false
    if let schema = options.schema {
      do {
        settings.schema = try JSONValue(parsing: Array(schema.utf8))
      } catch {
        throw MLXServeError(.invalidArgument, "the schema is not JSON: \(error)", setting: "schema")
      }
    }
    do throws(PipelineError) {
      session = try ChatSession(hosted.model, settings)
    } catch {
      throw MLXServeError(answering: error)
    }
  }

  func send(_ text: String, _ work: AnswerWork) throws {
    _ = isBusy.wait { isBusy in
      guard !isBusy else { return nil as Bool? }
      isBusy = true
      return true
    }
    defer { isBusy.update { $0 = false } }
    _ = try session.send(text, started: work.begin, deliver: work.take)
  }
}

extension MLXServeError {
  /// What an answer ended with.
  init(answering error: any Error) {
    switch error {
    case let error as MLXServeError: self = error
    case let error as InferenceError: self.init(Self.answerCode(of: error), "\(error)")
    case PipelineError.engine(let error): self.init(Self.answerCode(of: error), "\(error)")
    case PipelineError.noTemplate, PipelineError.noTools: self.init(.modelUnsupported, "\(error)")
    case EmbeddingError.engine(let error): self.init(Self.answerCode(of: error), "\(error)")
    case SearchError.index, is IndexError, is PlatformError: self.init(.failed, "\(error)")
    default: self.init(.invalidArgument, "\(error)")
    }
  }

  private static func answerCode(of error: InferenceError) -> Code {
    switch error {
    case .emptyPrompt, .promptTooLong, .tokenOutOfRange, .unusableMedia, .unknownAdapter: .invalidArgument
    case .cannotGenerate: .modelUnsupported
    case .queueFull, .draining: .busy
    case .outOfMemory: .outOfMemory
    default: .failed
    }
  }
}
