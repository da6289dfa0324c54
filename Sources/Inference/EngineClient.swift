// The only Sendable handle of the engine: starts its thread, submits requests, ends it.

import Checkpoint
import Compute
import Models
package import Platform

/// Usable from any thread.
package final class EngineClient: GenerationService {
  package let limits: EngineLimits
  /// Bytes of weights that one decode step reads.
  package let weightBytesPerToken: Int
  /// The instruction set in use.
  package let isaName: String

  private let inbox: Monitor<Inbox>
  private let thread: Thread
  private let queueLimit: Int
  private let seeds: Monitor<SystemRandomNumberGenerator>

  /// Tokens that a reader may lag behind before its generation is cancelled.
  private static let mailboxCapacity = 4096
  /// The forward pass keeps its buffers on the heap; this leaves room for deep call chains in debug builds.
  private static let stackBytes = 4 << 20

  private init(ready: Loaded, inbox: Monitor<Inbox>, thread: Thread, queueLimit: Int) {
    limits = ready.limits
    weightBytesPerToken = ready.weightBytesPerToken
    isaName = ready.isaName
    self.inbox = inbox
    self.thread = thread
    self.queueLimit = queueLimit
    seeds = Monitor(SystemRandomNumberGenerator())
  }

  /// Loads the model on a new engine thread and returns when it is ready.
  ///
  /// - Throws: `InferenceError.modelLoading` with the loader's words, or the memory plan's refusal.
  package static func start(_ configuration: EngineConfiguration) throws -> EngineClient {
    let inbox = Monitor(Inbox())
    let outcome = Monitor<Result<Loaded, InferenceError>?>(nil)
    let thread = try Thread(name: "engine", stackBytes: stackBytes) {
      do throws(InferenceError) {
        let (engine, loaded) = try load(configuration, inbox: inbox)
        outcome.update { $0 = .success(loaded) }
        engine.run()
      } catch {
        outcome.update { $0 = .failure(error) }
      }
    }
    let result: Result<Loaded, InferenceError>? = outcome.wait { $0 }
    switch result {
    case .success(let ready):
      return EngineClient(ready: ready, inbox: inbox, thread: thread, queueLimit: configuration.queueLimit)
    case .failure(let error):
      thread.join()
      throw error
    case nil: throw InferenceError.draining
    }
  }

  private struct Loaded: Sendable {
    var limits: EngineLimits
    var weightBytesPerToken: Int
    var isaName: String
  }

  /// Engine thread: opens the folder, binds the weights, plans the KV memory.
  private static func load(
    _ configuration: EngineConfiguration, inbox: Monitor<Inbox>
  ) throws(InferenceError) -> (Engine, Loaded) {
    do {
      let folder = try ModelFolder(path: configuration.modelPath)
      let compute = try ComputeContext(
        threads: configuration.threads, isa: configuration.isa, useReference: configuration.useReference)
      let model = try ModelFamily.load(folder, compute: compute)
      let perBlock = try KVCache.bytesPerBlock(model.cacheShape)
      let plan = try MemoryPlan(
        requestedContext: configuration.maxContext, modelContext: model.contextLength,
        maxSequences: configuration.maxSequences, blockTokens: KVCache.blockTokens, bytesPerBlock: perBlock,
        freeBytes: (Machine.memoryBytes - folder.weightBytes) / 4 * 3)
      let cache = try KVCache(shape: model.cacheShape, blockCount: plan.blockCount)
      let engine = Engine(
        model: model, cache: cache, blockCount: plan.blockCount, maxContext: plan.maxContext,
        configuration: configuration, inbox: inbox)
      let loaded = Loaded(
        limits: EngineLimits(maxContext: plan.maxContext, vocabularySize: model.vocabularySize),
        weightBytesPerToken: model.weightBytesPerToken, isaName: compute.isa?.rawValue ?? "reference")
      return (engine, loaded)
    } catch let error as InferenceError {
      throw error
    } catch {
      throw .modelLoading(String(describing: error))
    }
  }

  package func submit(_ request: GenerationRequest) throws(InferenceError) -> Generation {
    guard !request.promptTokens.isEmpty else { throw .emptyPrompt }
    guard request.promptTokens.count < limits.maxContext else {
      throw .promptTooLong(tokens: request.promptTokens.count, limit: limits.maxContext)
    }
    for token in request.promptTokens where token < 0 || Int(token) >= limits.vocabularySize {
      throw .tokenOutOfRange(token: token, vocabularySize: limits.vocabularySize)
    }
    let mailbox = Mailbox<GenerationEvent>(capacity: Self.mailboxCapacity)
    let job = Job(
      request: request, mailbox: mailbox,
      seed: request.sampling.seed ?? seeds.withLock { $0.next() }, arrived: .now)
    let limit = queueLimit
    try inbox.update { (inbox) throws(InferenceError) in try inbox.add(job, limit: limit) }
    return Generation(mailbox: mailbox)
  }

  /// Refuses new requests; what is queued and running goes on.
  package func drain() { inbox.update { $0.isDraining = true } }

  /// Cancels everything and waits for the engine's thread to end. Call once.
  package func stop() {
    inbox.update { $0.isStopped = true }
    thread.join()
  }
}
