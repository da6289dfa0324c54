// The engine: one thread that owns the model, the KV cache and every running sequence.
//
// Each turn of its loop takes requests from the inbox while there is room, lets the scheduler choose rows, runs
// one forward pass over them, samples where a sequence has reached its last token, and sends the events.
// It never waits for a reader: a full mailbox cancels its sequence. When memory runs out, the youngest
// sequence gives its memory back and is computed again later; the kernels' fixed order of accumulation makes
// the second computation equal to the first, bit for bit.

import Compute
import Decoding
import Media
import Models
import Platform

/// Not Sendable: created and used on the engine's thread alone.
final class Engine {
  let model: any CausalModel
  let inbox: Monitor<Inbox>
  private let maxContext: Int
  private let maxSequences: Int
  let scheduler: Scheduler
  let speculates: Bool
  private let sharesPrefixes: Bool
  let maxStall: Double
  private let savingSeconds: Double
  /// Milliseconds that each step takes longer.
  let stepDelay: UInt32
  /// Held for as long as the engine is there.
  private let adapters: EngineAdapters

  let memory: EngineMemory
  /// Whose turn it is to compute, where several engines share the kernels.
  let turns: SharedCompute?
  var media: MediaCache
  /// The image or audio clip that is being encoded.
  var encoding: (digest: [UInt8], run: any MediaEncoding)?
  var clock: StepClock
  /// Since when no sequence can go on for want of memory.
  var stalledSince: Instant?
  let memoryPatience: Double
  /// Oldest first, also those that give way and stand still.
  var running: [ActiveSequence] = []
  /// Sequences that gave their memory back; they return before anything from the inbox, unless they give way. Oldest
  /// first.
  var preempted: [ActiveSequence] = []
  /// What other threads may see of the engine; told to the inbox once per turn.
  var statistics = EngineStatistics()
  let energy = EnergyCounter()
  var report = Inbox.Report()
  var batch = Batch(spans: [])
  var logits = Logits()
  /// The largest logits of the blocks of each row of `logits`.
  let maxima = ScratchBuffer()

  init(
    model: any CausalModel, adapters: EngineAdapters = EngineAdapters(), memory: EngineMemory,
    maxContext: Int,
    configuration: EngineConfiguration, turns: SharedCompute?, inbox: Monitor<Inbox>
  ) {
    self.adapters = adapters
    (self.model, self.memory, self.turns) = (model, memory, turns)
    (self.inbox, self.maxContext) = (inbox, maxContext)
    maxSequences = max(1, configuration.maxSequences)
    scheduler = Scheduler(rowBudget: max(1, configuration.rowsPerStep))
    clock = StepClock(limit: configuration.maxStall)
    media = MediaCache(bytes: configuration.mediaCacheBytes)
    memoryPatience = configuration.memoryPatience
    speculates = configuration.speculates
    (maxStall, savingSeconds) = (configuration.maxStall, configuration.savingSeconds)
    sharesPrefixes = configuration.sharesPrefixes
    stepDelay = configuration.stepDelayMilliseconds
    statistics.kvBlocksTotal = memory.cache.blockCount
    (statistics.prefixBlocksMost, statistics.blockTokens) = (memory.prefixes.limit, KVCache.blockTokens)
    statistics.maxSequences = maxSequences
  }

  /// Works until the inbox says stop.
  func run() {
    while admitFromInbox() {
      dropCancelled()
      if !running.isEmpty { step() }
      memory.saveHot(most: running.isEmpty ? .max : 1)
    }
    for sequence in running + preempted { end(sequence, .cancelled) }
    for job in inbox.withLock({ $0.takeAll() }) {
      _ = job.mailbox.trySend(.finished(.cancelled, GenerationTimings()))
      job.mailbox.close()
    }
    memory.saveAll(within: savingSeconds)
  }

  // MARK: Giving way

  /// Whether a request is under way for which somebody waits: those that give way stand still meanwhile.
  private var serves: Bool { running.contains { !$0.givesWay } || preempted.contains { !$0.givesWay } }

  /// Whether a sequence is not computed now.
  func standsStill(_ sequence: ActiveSequence) -> Bool { sequence.givesWay && serves }

  /// Tokens that sequences that give way would make room for.
  private var yieldable: Int {
    running.reduce(0) {
      $0 + ($1.givesWay ? memory.weight(ofTokens: $1.memory.blocks.count * KVCache.blockTokens) : 0)
    }
  }

  // MARK: Admission

  /// Takes what fits; blocks only when there is nothing to compute. False when the engine is to stop.
  private func admitFromInbox() -> Bool {
    readmitPreempted()
    tellInbox()
    let serves = serves
    let mayStart = !preempted.contains { !$0.givesWay }
    let room = mayStart ? maxSequences - running.count { !$0.givesWay } : 0
    let laterRoom = serves || !preempted.isEmpty ? 0 : maxSequences - running.count
    let isIdle = running.isEmpty && preempted.isEmpty
    let taken: Inbox.Delivery? = inbox.wait(until: isIdle ? idleUntil : Instant.now) { inbox in
      inbox.take(
        room: room, laterRoom: laterRoom, freeTokens: { memory.freeTokens() + yieldable },
        weight: memory.weight, cached: cachedTokens, mayWait: isIdle)
    }
    guard let taken else { return true }
    statistics.admitted += taken.jobs.count
    if taken.reclaimed > 0 { shrink(by: taken.reclaimed) }
    for job in taken.jobs {
      if running.count >= maxSequences { preempt() }
      admit(
        ActiveSequence(job: job, root: root(of: job.request), maxContext: maxContext, speculates: speculates))
    }
    return !taken.isStopped
  }

  /// What a request shares its prefixes with.
  private func root(of request: GenerationRequest) -> PrefixCache.Root {
    PrefixCache.Root(
      ropeVariant: model.ropeVariant(forTokens: request.promptTokens.count),
      tenant: sharesPrefixes ? 0 : request.tenant, adapter: request.adapter)
  }

  /// Leading tokens of a waiting prompt that are computed; images have other keys than tokens.
  private func cachedTokens(_ request: GenerationRequest) -> Int {
    request.media.isEmpty
      ? memory.prefixes.count(of: request.promptTokens, under: root(of: request)) : 0
  }

  /// Without work the engine sleeps, but not on prefixes that are to be saved.
  private var idleUntil: Instant? { memory.hasUnsaved ? Instant.now.adding(seconds: 0.02) : nil }

  private func tellInbox() {
    statistics.running = running.count + preempted.count
    statistics.reading = running.compactMap(\.progress)
    statistics.kvBlocksUsed = memory.usedBlocks
    statistics.kvBlocksCached = memory.cachedBlocks
    statistics.prefixLostTokens = memory.prefixes.recomputedTokens
    statistics.prefixBlocksGivenUp = memory.prefixes.givenUp
    memory.store?.note(isBusy: !running.isEmpty)
    statistics.kvBlocksHeld = running.reduce(0) { $0 + $1.memory.blocks.count }
    inbox.withLock { $0.note(report, statistics, at: .now) }
    report = Inbox.Report()
  }

  /// Gives memory back that others ask for.
  private func shrink(by bytes: Int) {
    let given = memory.shrink(by: bytes)
    inbox.update { $0.answerReclaim(given) }
  }

  private func admit(_ sequence: ActiveSequence) {
    sequence.markAdmitted(at: .now)
    running.append(sequence)
  }

  private func readmitPreempted() {
    while running.count < maxSequences,
      let index = preempted.firstIndex(where: { !$0.givesWay }) ?? (serves ? nil : preempted.indices.first)
    {
      // With room for the token that comes next.
      let needed = memory.weight(ofTokens: preempted[index].tokens.count + 1)
      guard needed <= memory.freeTokens() || running.isEmpty else { return }
      admit(preempted.remove(at: index))
    }
  }

  private func dropCancelled() {
    // Asked once: a reader that leaves between two looks would take the sequence's memory with it.
    for sequence in running + preempted where sequence.isCancelled {
      statistics.cancelled += 1
      sequence.hasEnded = true
      leave(sequence)
    }
    running.removeAll { $0.hasEnded }
    preempted.removeAll { $0.hasEnded }
  }

  // MARK: Ends

  /// Tells the reader. Always true: the sequence has ended, and the caller lets it go.
  @discardableResult
  func end(_ sequence: ActiveSequence, _ reason: FinishReason) -> Bool {
    _ = sequence.mailbox.trySend(.finished(reason, sequence.timings(at: .now)))
    sequence.mailbox.close()
    if reason == .cancelled { statistics.cancelled += 1 } else { statistics.finished += 1 }
    return true
  }

  /// Tells the reader what went wrong. Always true, as above.
  func fail(_ sequence: ActiveSequence, _ error: InferenceError) -> Bool {
    _ = sequence.mailbox.trySend(.failed(error))
    sequence.mailbox.close()
    statistics.failed += 1
    return true
  }

  /// Gives back what an ended sequence holds.
  func leave(_ sequence: ActiveSequence) {
    memory.release(&sequence.memory, keys: sequence.keys)
    if !sequence.givesWay { report.ended.append(sequence.request.tenant) }
  }
}
