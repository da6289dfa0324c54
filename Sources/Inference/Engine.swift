// The engine: one thread that owns the model, the KV cache and every running sequence.
//
// Each turn of its loop takes requests from the inbox while there is room, lets the scheduler choose rows, runs
// one forward pass over them, samples where a sequence has reached its last token, and sends the events.
// It never waits for a reader: a full mailbox cancels its sequence. When KV blocks run out, the youngest
// sequence gives its blocks back and is computed again later; the kernels' fixed order of accumulation makes
// the second computation equal to the first, bit for bit.

import Compute
import Decoding
import Models
import Platform

/// Not Sendable: created and used on the engine's thread alone.
final class Engine {
  private let model: any CausalModel
  private let cache: KVCache
  private let inbox: Monitor<Inbox>
  private let maxContext: Int
  private let maxSequences: Int
  private let scheduler: Scheduler

  private var pool: BlockPool
  private var prefixes: PrefixCache
  private let speculates: Bool
  /// Oldest first.
  private var running: [ActiveSequence] = []
  /// Sequences that gave their blocks back; they return before anything from the inbox. Oldest first.
  private var preempted: [ActiveSequence] = []
  private var batch = Batch(spans: [])
  private var logits = Logits()
  private var row: [Float] = []
  private var steps = 0
  private var admitted = 0
  /// Milliseconds that each step takes longer.
  private let stepDelay: UInt32

  /// Rows per step of a sequence that wants logits of every prompt row: a row of logits of a large
  /// vocabulary is about a megabyte.
  private static let promptLogprobRows = 16
  /// Most blocks of the prefix cache: a tiny model must not drown in bookkeeping.
  private static let prefixBlocks = 1 << 14
  /// Rows of drafts in one step, shared by its sequences: beyond about this many, a step is bound by arithmetic
  /// and a wrong guess costs as much as a right one saves.
  private static let draftRows = 16

  init(
    model: any CausalModel, cache: KVCache, plan: MemoryPlan, configuration: EngineConfiguration,
    inbox: Monitor<Inbox>
  ) {
    self.model = model
    self.cache = cache
    self.inbox = inbox
    maxContext = plan.maxContext
    maxSequences = max(1, configuration.maxSequences)
    scheduler = Scheduler(rowBudget: max(1, configuration.rowsPerStep))
    pool = BlockPool(blockCount: plan.blockCount)
    prefixes = PrefixCache(
      limit: min(
        plan.blockCount, configuration.prefixCacheBytes / max(1, cache.bytesPerBlock), Self.prefixBlocks))
    speculates = configuration.speculates
    stepDelay = configuration.stepDelayMilliseconds
  }

  /// Works until the inbox says stop.
  func run() {
    while admitFromInbox() {
      dropCancelled()
      guard !running.isEmpty else { continue }
      step()
    }
    for sequence in running + preempted { end(sequence, .cancelled) }
    for job in inbox.withLock({ $0.takeAll() }) {
      _ = job.mailbox.trySend(.finished(.cancelled, GenerationTimings()))
      job.mailbox.close()
    }
  }

  // MARK: Admission

  /// Takes what fits; blocks only when there is nothing to compute. False when the engine is to stop.
  private func admitFromInbox() -> Bool {
    readmitPreempted()
    let room = preempted.isEmpty ? maxSequences - running.count : 0
    let isIdle = running.isEmpty && preempted.isEmpty
    let state = state
    let taken: Inbox.Delivery? = inbox.wait(until: isIdle ? nil : Instant.now) { inbox in
      let taken = inbox.take(room: room, freeTokens: availableTokens, mayWait: isIdle)
      inbox.state = state.admitting(taken?.jobs.count ?? 0)
      return taken
    }
    guard let taken else { return true }
    for job in taken.jobs {
      admitted += 1
      let total = min(job.request.promptTokens.count + job.request.maxTokens, maxContext)
      admit(
        ActiveSequence(
          job: job, ropeVariant: model.ropeVariant(forTokens: total), maxContext: maxContext,
          speculates: speculates))
    }
    return !taken.isStopped
  }

  private var state: EngineState {
    var state = EngineState()
    state.running = running.count + preempted.count
    state.maxSequences = maxSequences
    state.totalBlocks = pool.count
    state.usedBlocks = pool.count - pool.freeCount
    state.cachedBlocks = prefixes.count
    state.steps = steps
    state.admitted = admitted
    return state
  }

  /// Tokens of KV cache that are free or held by nobody but the prefix cache.
  private func availableTokens() -> Int {
    (pool.freeCount + prefixes.evictableCount(pool)) * KVCache.blockTokens
  }

  private func admit(_ sequence: ActiveSequence) {
    sequence.markAdmitted(at: .now)
    running.append(sequence)
  }

  private func readmitPreempted() {
    while let oldest = preempted.first, running.count < maxSequences {
      let blocks = (oldest.tokens.count + KVCache.blockTokens) / KVCache.blockTokens
      guard blocks * KVCache.blockTokens <= availableTokens() || running.isEmpty else { return }
      admit(preempted.removeFirst())
    }
  }

  private func dropCancelled() {
    for sequence in running where sequence.isCancelled { releaseBlocks(of: sequence) }
    running.removeAll { $0.isCancelled }
    preempted.removeAll { $0.isCancelled }
  }

  // MARK: One step

  /// The rows of one sequence in a step.
  private struct Work {
    let sequence: ActiveSequence
    var rows: Int
    /// Guessed tokens behind the sequence's own, the last of the rows.
    var draft: [Int32] = []
  }

  private func step() {
    let work = planWithBlocks()
    guard !work.isEmpty else { return }
    batch.spans.removeAll(keepingCapacity: true)
    for item in work {
      if item.sequence.begin(),
        !item.sequence.mailbox.trySend(.started(cachedTokens: item.sequence.cachedTokens))
      {
        item.sequence.mailbox.close()
      }
      batch.spans.append(span(of: item))
    }
    model.forward(batch, cache: cache, logits: &logits)
    steps += 1
    if stepDelay > 0 { usleep(stepDelay * 1000) }

    let now = Instant.now
    var logitRow = 0
    var ended: Set<ObjectIdentifier> = []
    for (item, span) in zip(work, batch.spans) {
      let sequence = item.sequence
      sequence.computed += item.rows - item.draft.count
      let firstRow = logitRow
      logitRow += span.logits == .all ? item.rows : span.logits == .last ? 1 : 0
      if sequence.wantsPromptLogprobs, span.logits == .all {
        collectPromptLogprobs(of: sequence, span: span, firstLogitRow: firstRow)
      }
      if span.logits != .none, sequence.pending == 0 {
        let lastRow = logitRow - 1 - item.draft.count
        if sample(sequence, logitRow: lastRow, draft: item.draft, at: now) {
          ended.insert(ObjectIdentifier(sequence))
        }
      }
      prefixes.record(
        sequence.tokens, computed: sequence.computed, path: &sequence.path, table: sequence.blocks,
        pool: &pool)
      if ended.contains(ObjectIdentifier(sequence)) { releaseBlocks(of: sequence) }
    }
    running.removeAll { ended.contains(ObjectIdentifier($0)) }
  }

  /// Plans the step and gives every planned row its KV block. When blocks are short, cached prefixes that nobody
  /// reads go first, then the youngest sequence gives its blocks back.
  private func planWithBlocks() -> [Work] {
    adoptPrefixes()
    var drafts = guessDrafts()
    while true {
      let shares = scheduler.plan(
        running.enumerated().map { index, sequence in
          Scheduler.Candidate(
            pending: waitsForTwin(index) ? 0 : sequence.pending,
            chunkLimit: sequence.wantsPromptLogprobs ? Self.promptLogprobRows : .max,
            draft: drafts[ObjectIdentifier(sequence)]?.count ?? 0)
        })
      let work = shares.map { share in
        let sequence = running[share.index]
        let draft = sequence.isDecoding ? (drafts[ObjectIdentifier(sequence)] ?? []) : []
        return Work(sequence: sequence, rows: share.rows, draft: Array(draft.prefix(share.rows - 1)))
      }
      if work.allSatisfy({ giveBlocks(to: $0.sequence, rows: $0.rows) }) { return work }
      guard running.count > 1 else {
        if drafts.isEmpty { return [] }
        drafts = [:]
        continue
      }
      preemptYoungest()
    }
  }

  private func giveBlocks(to sequence: ActiveSequence, rows: Int) -> Bool {
    let end = sequence.computed + rows
    let blocks = (end + KVCache.blockTokens - 1) / KVCache.blockTokens
    prefixes.evict(untilFree: blocks - sequence.blocks.count, pool: &pool)
    return pool.extend(&sequence.blocks, to: blocks)
  }

  /// Sequences that stand at the border of a block take over what others have computed meanwhile.
  private func adoptPrefixes() {
    for sequence in running
    where sequence.pending > 1 && !sequence.wantsPromptLogprobs
      && sequence.computed == sequence.path.blocks * KVCache.blockTokens
    {
      prefixes.adopt(sequence.tokens, path: &sequence.path, table: &sequence.blocks, pool: &pool)
      sequence.computed = sequence.path.blocks * KVCache.blockTokens
    }
  }

  /// Whether an older sequence is about to compute the very block that this one needs next: the choices of one
  /// request, or requests with the same instructions. Waiting for it is cheaper than computing it twice.
  private func waitsForTwin(_ index: Int) -> Bool {
    let sequence = running[index]
    let end = sequence.computed + KVCache.blockTokens
    guard prefixes.isEnabled, sequence.pending > KVCache.blockTokens, !sequence.wantsPromptLogprobs,
      sequence.computed == sequence.path.blocks * KVCache.blockTokens
    else { return false }
    return running[..<index].contains { older in
      older.pending > 1 && older.ropeVariant == sequence.ropeVariant && older.computed < end
        && older.computed >= sequence.computed && older.tokens.count > end
        && older.tokens[..<end].elementsEqual(sequence.tokens[..<end])
    }
  }

  /// Guessed continuations of the decoding sequences.
  private func guessDrafts() -> [ObjectIdentifier: [Int32]] {
    guard speculates else { return [:] }
    let decoding = running.filter(\.isDecoding)
    var drafts: [ObjectIdentifier: [Int32]] = [:]
    for sequence in decoding {
      let draft = sequence.draft(most: Self.draftRows / decoding.count)
      if !draft.isEmpty { drafts[ObjectIdentifier(sequence)] = draft }
    }
    return drafts
  }

  private func releaseBlocks(of sequence: ActiveSequence) {
    pool.release(&sequence.blocks)
    prefixes.trim(pool: &pool)
  }

  private func preemptYoungest() {
    let sequence = running.removeLast()
    releaseBlocks(of: sequence)
    sequence.rewind()
    preempted.insert(sequence, at: 0)
  }

  private func span(of item: Work) -> Batch.Span {
    let sequence = item.sequence
    let start = sequence.computed
    let end = start + item.rows - item.draft.count
    let wanted: LogitRows
    if !item.draft.isEmpty || (sequence.request.promptLogprobs != nil && start + 1 < sequence.promptCount) {
      wanted = .all
    } else {
      wanted = end == sequence.tokens.count ? .last : .none
    }
    return Batch.Span(
      tokens: sequence.tokens[start..<end] + item.draft, start: start, blocks: sequence.blocks,
      ropeVariant: sequence.ropeVariant, logits: wanted)
  }

  // MARK: Tokens out

  /// The logits of position p predict prompt token p + 1.
  private func collectPromptLogprobs(of sequence: ActiveSequence, span: Batch.Span, firstLogitRow: Int) {
    guard let top = sequence.request.promptLogprobs else { return }
    if sequence.promptLogprobs.isEmpty { sequence.promptLogprobs.append(nil) }
    for offset in span.tokens.indices {
      let next = span.start + offset + 1
      // A sequence computed again after preemption meets positions that it has reported before.
      guard next < sequence.promptCount, next == sequence.promptLogprobs.count else { continue }
      copyLogits(row: firstLogitRow + offset, limit: sequence.request.tokenLimit)
      sequence.promptLogprobs.append(
        Logprobs.describe(token: sequence.tokens[next], logits: row, top: top))
    }
  }

  /// Samples a token, and one more for every guess that held. True when the sequence has ended.
  ///
  /// - Parameter logitRow: of the sequence's last token; the rows of the draft follow it.
  private func sample(_ sequence: ActiveSequence, logitRow: Int, draft: [Int32], at now: Instant) -> Bool {
    var held = 0
    while true {
      if sampleNext(sequence, logitRow: logitRow + held, at: now) { return true }
      guard held < draft.count, sequence.tokens.last == draft[held] else { break }
      // Its keys and values are in the cache already.
      sequence.computed += 1
      held += 1
    }
    sequence.learn(guessed: draft.count, held: held)
    return false
  }

  /// Samples one token. True when the sequence has ended.
  private func sampleNext(_ sequence: ActiveSequence, logitRow: Int, at now: Instant) -> Bool {
    if sequence.wantsPromptLogprobs {
      if sequence.promptLogprobs.isEmpty { sequence.promptLogprobs.append(nil) }
      guard sequence.mailbox.trySend(.promptLogprobs(sequence.promptLogprobs)) else {
        return end(sequence, .cancelled)
      }
    }
    copyLogits(row: logitRow, limit: sequence.request.tokenLimit)
    let allowance = sequence.guide?.allowance(remaining: sequence.remaining) ?? .any
    let token = sequence.sampler.sample(
      &row, step: sequence.generatedCount, wantTop: sequence.request.topLogprobs, allowance: allowance)
    sequence.guide?.accept(token.id)
    sequence.append(token.id, at: now)
    // A token that stands for none ends the answer, but not like one that the model wanted: its reader must hear of it.
    if sequence.request.stopTokens.contains(token.id), !token.isArbitrary { return end(sequence, .stop) }
    guard sequence.mailbox.trySend(.token(token)) else { return end(sequence, .cancelled) }
    if token.isArbitrary { return end(sequence, .stop) }
    return sequence.remaining == 0 ? end(sequence, .length) : false
  }

  private func copyLogits(row index: Int, limit: Int?) {
    logits.copyRow(index, into: &row)
    if let limit, limit < row.count { row.removeLast(row.count - limit) }
  }

  /// Tells the reader; the caller frees the blocks. Always true: the sequence has ended.
  @discardableResult
  private func end(_ sequence: ActiveSequence, _ reason: FinishReason) -> Bool {
    _ = sequence.mailbox.trySend(.finished(reason, sequence.timings(at: .now)))
    sequence.mailbox.close()
    return true
  }
}
