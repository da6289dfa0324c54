// The only Sendable handle of an encoder's engine: starts its thread, submits texts, ends it.

import Checkpoint
package import Compute
import Models
import Platform

/// Usable from any thread.
package final class EmbeddingClient: EmbeddingService, CachelessEngine {
  package let limits: EmbeddingLimits
  package let computeName: String
  package let computeMode: ComputeMode
  package let weightBytes: Int

  private let inbox: Monitor<EncoderInbox>
  private let thread: Thread
  private let queueLimit: Int
  private let cache: VectorCache
  private let sharesVectors: Bool

  /// The forward pass keeps its buffers on the heap; this leaves room for deep call chains in debug builds.
  private static let stackBytes = 4 << 20

  /// What other threads may know of the loaded model.
  private struct Facts: Sendable {
    var limits: EmbeddingLimits
    var computeName: String
    var computeMode: ComputeMode
    var weightBytes: Int
  }

  private init(
    facts: Facts, cache: VectorCache, inbox: Monitor<EncoderInbox>, thread: Thread,
    _ configuration: EngineConfiguration
  ) {
    limits = facts.limits
    computeName = facts.computeName
    computeMode = facts.computeMode
    weightBytes = facts.weightBytes
    (self.cache, self.inbox, self.thread) = (cache, inbox, thread)
    queueLimit = configuration.queueLimit
    sharesVectors = configuration.sharesPrefixes
  }

  /// Loads the model on a new thread and returns when it is ready.
  ///
  /// - Throws: `InferenceError.modelLoading` with the loader's words, or `modelTooLarge`.
  package static func start(_ configuration: EngineConfiguration) throws -> EmbeddingClient {
    let inbox = Monitor(EncoderInbox())
    let cache = VectorCache()
    let (facts, thread) = try EngineThread.start("encoder", stackBytes: stackBytes) {
      () throws(InferenceError) in
      let (engine, facts) = try load(configuration, cache, inbox)
      return (facts, { engine.run() })
    }
    return EmbeddingClient(facts: facts, cache: cache, inbox: inbox, thread: thread, configuration)
  }

  /// On the engine's thread, where the model stays.
  private static func load(
    _ configuration: EngineConfiguration, _ cache: VectorCache, _ inbox: Monitor<EncoderInbox>
  ) throws(InferenceError) -> (EmbeddingEngine, Facts) {
    do {
      let folder = try ModelFolder(path: configuration.modelPath, progress: configuration.progress)
      let answers = configuration.answerTokens.map { AnswerTokens(yes: $0.yes, no: $0.no) }
      let turns = try configuration.compute ?? EngineClient.makeCompute(configuration)
      let (model, name, mode, overhead) = try turns.withTurn { compute in
        compute.preparedFolder = configuration.preparedFolder
        return (
          try EncoderFamily.load(folder, answers: answers, compute: compute),
          compute.name, compute.mode,
          compute.overhead(ofCopying: folder.weightBytes)
        )
      }
      let needed = folder.weights.usedBytes - model.tableBytes + overhead
      guard let weights = WeightReservation(configuration.ledger, bytes: needed) else {
        throw InferenceError.modelTooLarge(
          weightBytes: needed, cacheBytes: 0, context: model.maxTokens, leftBytes: configuration.ledger.left,
          limitBytes: configuration.ledger.limit)
      }
      let limits = EmbeddingLimits(model, maxContext: configuration.maxContext)
      let facts = Facts(
        limits: limits, computeName: name, computeMode: mode, weightBytes: folder.weightBytes)
      let engine = EmbeddingEngine(
        model, weights: weights, turns: turns, cache: cache, inbox: inbox, configuration)
      return (engine, facts)
    } catch let error as InferenceError {
      throw error
    } catch {
      throw .modelLoading(String(describing: error))
    }
  }

  // MARK: Requests

  package var embeddingStatistics: EmbeddingStatistics {
    let hits = cache.hits
    return inbox.withLock { inbox in
      var statistics = inbox.statistics
      statistics.cacheHits = hits
      statistics.waiting = inbox.queue.count
      return statistics
    }
  }

  package func submit(_ request: EmbeddingRequest) throws(InferenceError) -> EmbeddingJob {
    for text in request.texts { try check(text) }
    let job = EmbeddingJob(mailbox: Mailbox(capacity: request.texts.count + 1))
    let missing = sendKept(request, job)
    guard !missing.isEmpty else {
      _ = job.mailbox.trySend(.finished)
      job.mailbox.close()
      return job
    }
    let work = EncoderQueue.Work(request, job.mailbox, texts: missing)
    try inbox.update { (inbox) throws(InferenceError) in
      guard !inbox.isDraining, !inbox.isStopped else { throw .draining }
      guard inbox.queue.count < queueLimit else {
        throw .queueFull(limit: queueLimit, running: 0, waiting: inbox.queue.count, retryAfter: 1)
      }
      inbox.queue.add(work)
    }
    return job
  }

  /// Answers what earlier requests have left; an index would only drive it out.
  ///
  /// - Returns: the texts that must be encoded.
  private func sendKept(_ request: EmbeddingRequest, _ job: EmbeddingJob) -> [(index: Int, key: [UInt8]?)] {
    var missing: [(index: Int, key: [UInt8]?)] = []
    for (index, text) in request.texts.enumerated() {
      guard text.output == .vector, request.priority == .interactive else {
        missing.append((index, nil))
        continue
      }
      let key = VectorCache.key(text, tenant: sharesVectors ? 0 : request.tenant)
      if let values = cache.vector(of: key) {
        _ = job.mailbox.trySend(.result(index: index, values: values))
      } else {
        missing.append((index, key))
      }
    }
    return missing
  }

  private func check(_ text: EmbeddingText) throws(InferenceError) {
    guard !text.tokens.isEmpty else { throw .emptyPrompt }
    guard text.tokens.count <= limits.maxTokens else {
      throw .textTooLong(tokens: text.tokens.count, limit: limits.maxTokens)
    }
    for token in text.tokens where token < 0 || Int(token) >= limits.vocabularySize {
      throw .tokenOutOfRange(token: token, vocabularySize: limits.vocabularySize)
    }
  }

  // MARK: The engine's life

  package var contextTokens: Int { limits.maxTokens }
  package func drain() { inbox.update { $0.isDraining = true } }

  /// Cancels everything and waits for the engine's thread to end. Call once.
  package func stop() {
    inbox.update { $0.isStopped = true }
    thread.join()
  }
}
