// The only Sendable handle of the engine: starts its thread, submits requests, ends it.

import Checkpoint
package import Compute
import Decoding
package import Media
import Models
import Platform
import Sampling

/// Usable from any thread.
package final class EngineClient: GenerationService {
  package let limits: EngineLimits
  /// Bytes of weights that one decode step reads.
  package let weightBytesPerToken: Int
  /// Bytes of keys and values that one token of context takes, and that every later step reads.
  package let kvBytesPerToken: Int
  /// Bytes of the recurrent layers' state of one sequence, with what waits beside it for the end of a block: every step reads
  /// them.
  package let stateBytes: Int
  /// The instruction set in use, the compute mode unless it is exact, and the cache's format: `avx2 fast, q16 cache`.
  package let computeName: String
  /// What the bits depend on beside the model, the cache's format and the tokens: `int8-1`.
  package let arithmetic: String
  /// How keys and values are stored.
  package let cacheFormat: KVFormat
  /// What the model takes beside text.
  package let mediaRules: MediaRules
  /// The mode in use: exact where fast was configured and this machine has no integer kernels.
  package let computeMode: ComputeMode

  /// What requests may choose.
  package let adapters: [LoadedAdapter]
  /// Bytes of weights, mapped or not.
  package let weightBytes: Int
  /// Bytes of keys and values that are in memory.
  package let touched: TouchedBytes
  /// Where prefixes are saved; nil where they are kept in memory only.
  let saving: StoreOpening?

  /// Waits until it is known where prefixes of these weights are saved.
  ///
  /// - Returns: false where they will not be.
  package func waitForSaving() -> Bool { saving?.wait() != nil }

  /// Bytes of prefixes of this model on disk.
  package var savedPrefixBytes: Int { saving?.prefixes?.bytes ?? 0 }

  private let inbox: Monitor<Inbox>
  private let thread: Thread
  private let queueLimit: Int

  /// Tokens that a reader may leave unread before its generation is cancelled.
  private static let mailboxCapacity = 4096
  /// The forward pass keeps its buffers on the heap; this leaves room for deep call chains in debug builds.
  private static let stackBytes = 4 << 20

  private init(facts: Facts, inbox: Monitor<Inbox>, thread: Thread, queueLimit: Int) {
    limits = facts.limits
    weightBytesPerToken = facts.weightBytesPerToken
    kvBytesPerToken = facts.kvBytesPerToken
    stateBytes = facts.stateBytes
    computeName = facts.computeName
    computeMode = facts.computeMode
    (arithmetic, cacheFormat) = (facts.arithmetic, facts.cacheFormat)
    mediaRules = facts.mediaRules
    adapters = facts.adapters
    weightBytes = facts.weightBytes
    touched = facts.touched
    saving = facts.saving
    (self.inbox, self.thread, self.queueLimit) = (inbox, thread, queueLimit)
  }

  /// Loads the model on a new engine thread and returns when it is ready.
  ///
  /// - Throws: `InferenceError.modelLoading` with the loader's words, or the memory plan's refusal.
  package static func start(_ configuration: EngineConfiguration) throws -> EngineClient {
    try start(configuration, loading: loadModel)
  }

  /// What a loader gives to the engine.
  struct LoadedModel {
    var model: any CausalModel
    var adapters = EngineAdapters()
    var weightBytes: Int
    /// Those of them that need not be in memory: tensors that the model does not use, and tables of which it reads
    /// single rows.
    var idleBytes = 0
    /// What copies of weights may take beyond them.
    var copyOverhead = 0
    var computeName: String
    var computeMode = ComputeMode.exact
    var arithmetic = "exact-1"
    /// What it is; asked only where prefixes are kept on disk.
    var content: () -> ModelContent = { ModelContent() }
    /// Whose kernels the model uses, if others use them too.
    var turns: SharedCompute?
  }

  /// As above with a loader of the caller's: it runs on the engine's thread, where its model stays.
  static func start(
    _ configuration: EngineConfiguration,
    loading load: @escaping @Sendable (EngineConfiguration) throws -> LoadedModel
  ) throws -> EngineClient {
    let inbox = Monitor(Inbox(room: max(1, configuration.maxSequences)))
    let (facts, thread) = try EngineThread.start("engine", stackBytes: stackBytes) {
      () throws(InferenceError) in
      let (engine, facts) = try makeEngine(configuration, inbox: inbox, load: load)
      return (facts, { engine.run() })
    }
    return EngineClient(facts: facts, inbox: inbox, thread: thread, queueLimit: configuration.queueLimit)
  }

  /// What other threads may know of the loaded model.
  private struct Facts: Sendable {
    var limits: EngineLimits
    var weightBytesPerToken: Int
    var kvBytesPerToken: Int
    var stateBytes: Int
    var computeName: String
    var computeMode: ComputeMode
    var arithmetic: String
    var cacheFormat: KVFormat
    var mediaRules: MediaRules
    var adapters: [LoadedAdapter]
    var weightBytes: Int
    var touched: TouchedBytes
    var saving: StoreOpening?
  }

  /// Kernels and threads as the configuration wants them.
  package static func makeCompute(_ configuration: EngineConfiguration) throws -> SharedCompute {
    SharedCompute(try configuration.makeContext())
  }

  /// Opens the folder and binds the weights.
  @Sendable private static func loadModel(_ configuration: EngineConfiguration) throws -> LoadedModel {
    let folder = try ModelFolder(path: configuration.modelPath, progress: configuration.progress)
    let turns = try configuration.compute ?? makeCompute(configuration)
    return try turns.withTurn { compute in
      compute.preparedFolder = configuration.preparedFolder
      let model = try ModelFamily.load(folder, compute: compute, media: configuration.media)
      return LoadedModel(
        model: model,
        adapters: try EngineAdapters(configuration.adapters, into: model, configuration.ledger),
        weightBytes: folder.weightBytes,
        idleBytes: folder.weightBytes - folder.weights.usedBytes + model.tableBytes,
        copyOverhead: compute.overhead(ofCopying: folder.weightBytes),
        computeName: compute.name,
        computeMode: compute.mode,
        arithmetic: compute.arithmetic(
          multipliesFloats: folder.multipliesFloats || !model.cacheShape.recurrent.isEmpty),
        content: { ModelContent(outline: folder.outline, weights: folder.mappedFiles) }, turns: turns)
    }
  }

  /// Engine thread: loads the model and plans the KV memory.
  private static func makeEngine(
    _ configuration: EngineConfiguration, inbox: Monitor<Inbox>,
    load: (EngineConfiguration) throws -> LoadedModel
  ) throws(InferenceError) -> (Engine, Facts) {
    do {
      let loaded = try load(configuration)
      let shape = loaded.model.cacheShape.keysValues
      let format = configuration.kvFormat(beside: loaded.computeMode)
      let computeName = "\(loaded.computeName), \(format.rawValue) cache"
      let touched = TouchedBytes()
      let states = try makeStates(loaded.model, configuration)
      let (plan, quota) = try planMemory(loaded, format, states, configuration, touched)
      let cache = try KVCache(shape: shape, blockCount: plan.blockCount, format: format, states: states)
      let memory = EngineMemory(
        cache: cache, quota: quota, prefixBytes: configuration.prefixBytes(weights: loaded.weightBytes),
        store: try openStore(loaded, cache, configuration, computeName))
      let engine = Engine(
        model: loaded.model, adapters: loaded.adapters, memory: memory, maxContext: plan.maxContext,
        configuration: configuration, turns: loaded.turns, inbox: inbox)
      let facts = Facts(
        limits: EngineLimits(maxContext: plan.maxContext, vocabularySize: loaded.model.vocabularySize),
        weightBytesPerToken: loaded.model.weightBytesPerToken,
        kvBytesPerToken: memory.cache.bytesPerToken, stateBytes: states?.bytesPerSlot ?? 0,
        computeName: computeName, computeMode: loaded.computeMode, arithmetic: loaded.arithmetic,
        cacheFormat: format, mediaRules: loaded.model.mediaRules,
        adapters: loaded.adapters.loaded, weightBytes: loaded.weightBytes, touched: touched,
        saving: memory.store?.opening)
      return (engine, facts)
    } catch let error as InferenceError {
      throw error
    } catch {
      throw .modelLoading(String(describing: error))
    }
  }

  /// Prefixes on disk, if there are to be any.
  private static func openStore(
    _ loaded: LoadedModel, _ cache: KVCache, _ configuration: EngineConfiguration, _ computeName: String
  ) throws -> PrefixStore? {
    guard let path = configuration.prefixCacheFolder else { return nil }
    let content = loaded.content()
    return try PrefixStore.open(
      folder: path, limit: configuration.prefixCacheDiskBytes,
      names: BlockNames(
        content: content.outline, compute: computeName, version: configuration.version, shape: cache.shape),
      bytesPerBlock: cache.bytesPerBlock, bytesPerState: cache.states?.bytesPerSlot ?? 0,
      weights: content.weights)
  }

  /// Slots for the states of the model's recurrent layers, if it has any.
  private static func makeStates(
    _ model: any CausalModel, _ configuration: EngineConfiguration
  ) throws(ComputeError) -> StateCache? {
    let shape = model.cacheShape.recurrent
    guard !shape.isEmpty else { return nil }
    let sequences = max(1, configuration.maxSequences)
    return try StateCache(shape: shape, slotCount: sequences * EngineMemory.slotsPerSequence)
  }

  /// How much context there is memory for, and the quota of it: weights, states and a first stretch of context are
  /// reserved.
  private static func planMemory(
    _ loaded: LoadedModel, _ format: KVFormat, _ states: StateCache?, _ configuration: EngineConfiguration,
    _ touched: TouchedBytes
  ) throws -> (plan: MemoryPlan, quota: MemoryQuota) {
    let (model, ledger) = (loaded.model, configuration.ledger)
    let weightBytes = loaded.weightBytes - loaded.idleBytes + loaded.copyOverhead
    let stateBytes = states.map { $0.slotCount * $0.bytesPerSlot } ?? 0
    let bytesPerToken = try KVCache.bytesPerToken(model.cacheShape.keysValues, format: format)
    func tooLarge(context: Int) -> InferenceError {
      let (cacheBytes, overflow) = context.multipliedReportingOverflow(by: bytesPerToken)
      return .modelTooLarge(
        weightBytes: weightBytes, cacheBytes: overflow ? .max : stateBytes + cacheBytes, context: context,
        leftBytes: ledger.left, limitBytes: ledger.limit)
    }
    guard weightBytes < ledger.limit else {
      throw tooLarge(context: min(model.contextLength, MemoryPlan.guaranteedTokens))
    }
    let bytes = try BlockBytes(
      model.cacheShape.keysValues, format, rowsPerStep: configuration.rowsPerStep)
    let plan = try MemoryPlan(
      requestedContext: configuration.maxContext, modelContext: model.contextLength,
      maxSequences: configuration.maxSequences, bytes: bytes,
      freeBytes: configuration.kvBytes(weights: weightBytes) - stateBytes)
    let quota = MemoryQuota(
      ledger: ledger, weightBytes: weightBytes, stateBytes: stateBytes, bytes: bytes,
      guaranteedBlocks: plan.guaranteedBlocks, touched: touched)
    guard let quota else { throw tooLarge(context: min(plan.maxContext, MemoryPlan.guaranteedTokens)) }
    return (plan, quota)
  }

  /// Queues a request; its events come through the generation that is returned. For any thread; does not wait.
  ///
  /// - Throws: `emptyPrompt`, `promptTooLong`, `tokenOutOfRange`, `unusableMedia` or `unknownAdapter` for what cannot be computed,
  ///   `queueFull` or `draining` for what could be at another time.
  package func submit(_ request: GenerationRequest) throws(InferenceError) -> Generation {
    guard !request.promptTokens.isEmpty else { throw .emptyPrompt }
    guard request.promptTokens.count < limits.maxContext else {
      throw .promptTooLong(tokens: request.promptTokens.count, limit: limits.maxContext)
    }
    for token in request.promptTokens + request.expected
    where token < 0 || Int(token) >= limits.vocabularySize {
      throw .tokenOutOfRange(token: token, vocabularySize: limits.vocabularySize)
    }
    try check(request.media, promptCount: request.promptTokens.count)
    if let choice = request.adapter, !adapters.contains(where: { $0.digest == choice.digest }) {
      throw .unknownAdapter
    }
    let mailbox = Mailbox<GenerationEvent>(capacity: Self.mailboxCapacity)
    let job = Job(
      request: request, mailbox: mailbox,
      seed: request.sampling.seed ?? UInt64.random(in: 0...UInt64.max), arrived: .now)
    let limit = min(request.queueLimit ?? queueLimit, queueLimit)
    let (loser, refusal) = try inbox.update { (inbox) throws(InferenceError) -> (Job?, InferenceError?) in
      let loser = try inbox.add(job, limit: limit)
      return (loser, loser == nil ? nil : inbox.refusal(limit: limit, at: job.arrived))
    }
    if let loser, let refusal {
      _ = loser.mailbox.trySend(.failed(refusal))
      loser.mailbox.close()
    }
    return Generation(mailbox: mailbox)
  }

  package var statistics: EngineStatistics { inbox.withLock { $0.statistics } }

  private func check(_ media: [MediaSpan], promptCount: Int) throws(InferenceError) {
    var end = 0
    for span in media {
      guard mediaRules.takes(span.input.kind) else {
        throw .unusableMedia("the model takes no input of the kind '\(span.input.kind.rawValue)'")
      }
      guard span.input.tokenCount > 0, span.start >= end, span.start <= promptCount - span.input.tokenCount
      else { throw .unusableMedia("an image or an audio clip does not fit into the prompt") }
      end = span.positions.upperBound
    }
  }

  /// Refuses new requests; what is queued and running goes on.
  package func drain() { inbox.update { $0.isDraining = true } }

  /// Asks the engine to give up cached prefixes and free blocks, and waits a while for it.
  ///
  /// - Returns: bytes that the ledger has got back.
  package func reclaim(_ bytes: Int, seconds: Double) -> Int {
    let before = inbox.update { inbox in
      inbox.askToReclaim(bytes)
      return (answers: inbox.answers, given: inbox.given)
    }
    let given: Int? = inbox.wait(until: Instant.now.adding(seconds: seconds)) { inbox in
      inbox.isStopped || inbox.answers > before.answers ? inbox.given - before.given : nil
    }
    return given ?? 0
  }

  /// Bytes of the buffers of all engines.
  package static var scratchBytes: Int { ScratchBuffer.heldBytes }

  /// Bytes of weights that engines have copied out of their files.
  package static var copiedWeightBytes: Int { ComputeContext.copiedWeightBytes }

  /// Cancels everything and waits for the engine's thread to end. Call once.
  package func stop() {
    inbox.update { $0.isStopped = true }
    thread.join()
  }
}
