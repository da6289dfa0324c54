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
  /// Oldest first.
  private var running: [ActiveSequence] = []
  /// Sequences that gave their blocks back; they return before anything from the inbox. Oldest first.
  private var preempted: [ActiveSequence] = []
  private var batch = Batch(spans: [])
  private var logits = Logits()
  private var row: [Float] = []

  /// Rows per step of a sequence that wants logits of every prompt row: a row of logits of a large
  /// vocabulary is about a megabyte.
  private static let promptLogprobRows = 16

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
    let freeTokens = pool.freeCount * KVCache.blockTokens
    let taken: Inbox.Delivery? = inbox.wait(until: isIdle ? nil : Instant.now) { inbox in
      inbox.take(room: room, freeTokens: freeTokens, mayWait: isIdle)
    }
    guard let taken else { return true }
    for job in taken.jobs {
      let total = min(job.request.promptTokens.count + job.request.maxTokens, maxContext)
      admit(
        ActiveSequence(job: job, ropeVariant: model.ropeVariant(forTokens: total), maxContext: maxContext))
    }
    return !taken.isStopped
  }

  private func admit(_ sequence: ActiveSequence) {
    let isFirst = sequence.markAdmitted(at: .now)
    guard !isFirst || sequence.mailbox.trySend(.started(cachedTokens: 0)) else { return }
    running.append(sequence)
  }

  private func readmitPreempted() {
    while let oldest = preempted.first, running.count < maxSequences {
      let blocks = (oldest.tokens.count + KVCache.blockTokens) / KVCache.blockTokens
      guard blocks <= pool.freeCount || running.isEmpty else { return }
      admit(preempted.removeFirst())
    }
  }

  private func dropCancelled() {
    for sequence in running where sequence.isCancelled { pool.release(&sequence.blocks) }
    running.removeAll { $0.isCancelled }
    preempted.removeAll { $0.isCancelled }
  }

  // MARK: One step

  private func step() {
    let shares = planWithBlocks()
    guard !shares.isEmpty else { return }
    batch.spans.removeAll(keepingCapacity: true)
    for share in shares { batch.spans.append(span(of: running[share.index], rows: share.rows)) }
    model.forward(batch, cache: cache, logits: &logits)

    let now = Instant.now
    var logitRow = 0
    var ended: Set<Int> = []
    for (share, span) in zip(shares, batch.spans) {
      let sequence = running[share.index]
      sequence.computed += share.rows
      switch span.logits {
      case .none: continue
      case .last: break
      case .all:
        collectPromptLogprobs(of: sequence, span: span, firstLogitRow: logitRow)
        logitRow += share.rows - 1
      }
      defer { logitRow += 1 }
      guard sequence.pending == 0 else { continue }
      if sampleNext(sequence, logitRow: logitRow, at: now) { ended.insert(share.index) }
    }
    running = running.enumerated().filter { !ended.contains($0.offset) }.map(\.element)
  }

  /// Plans the step and gives every planned row its KV block, preempting the youngest while blocks are short.
  private func planWithBlocks() -> [Scheduler.Share] {
    while true {
      let shares = scheduler.plan(
        running.map { sequence in
          let wantsAllRows = sequence.request.promptLogprobs != nil && sequence.generatedCount == 0
          return Scheduler.Candidate(
            pending: sequence.pending, chunkLimit: wantsAllRows ? Self.promptLogprobRows : .max)
        })
      let fits = shares.allSatisfy { share in
        let sequence = running[share.index]
        let end = sequence.computed + share.rows
        return pool.extend(&sequence.blocks, to: (end + KVCache.blockTokens - 1) / KVCache.blockTokens)
      }
      if fits || running.count <= 1 { return fits ? shares : [] }
      preemptYoungest()
    }
  }

  private func preemptYoungest() {
    let sequence = running.removeLast()
    pool.release(&sequence.blocks)
    sequence.computed = 0
    preempted.insert(sequence, at: 0)
  }

  private func span(of sequence: ActiveSequence, rows: Int) -> Batch.Span {
    let start = sequence.computed
    let wanted: LogitRows
    if sequence.request.promptLogprobs != nil && start + 1 < sequence.promptCount {
      wanted = .all
    } else {
      wanted = start + rows == sequence.tokens.count ? .last : .none
    }
    return Batch.Span(
      tokens: Array(sequence.tokens[start..<start + rows]), start: start, blocks: sequence.blocks,
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

  /// Samples one token. True when the sequence has ended.
  private func sampleNext(_ sequence: ActiveSequence, logitRow: Int, at now: Instant) -> Bool {
    if sequence.request.promptLogprobs != nil && sequence.generatedCount == 0 {
      if sequence.promptLogprobs.isEmpty { sequence.promptLogprobs.append(nil) }
      guard sequence.mailbox.trySend(.promptLogprobs(sequence.promptLogprobs)) else {
        return end(sequence, .cancelled)
      }
    }
    copyLogits(row: logitRow, limit: sequence.request.tokenLimit)
    let token = sequence.sampler.sample(
      &row, step: sequence.generatedCount, wantTop: sequence.request.topLogprobs)
    sequence.append(token.id, at: now)
    if sequence.request.stopTokens.contains(token.id) { return end(sequence, .stop) }
    guard sequence.mailbox.trySend(.token(token)) else { return end(sequence, .cancelled) }
    return sequence.remaining == 0 ? end(sequence, .length) : false
  }

  private func copyLogits(row index: Int, limit: Int?) {
    logits.copyRow(index, into: &row)
    if let limit, limit < row.count { row.removeLast(row.count - limit) }
  }

  /// Frees the blocks and tells the reader. Always true: the sequence has ended.
  @discardableResult
  private func end(_ sequence: ActiveSequence, _ reason: FinishReason) -> Bool {
    pool.release(&sequence.blocks)
    _ = sequence.mailbox.trySend(.finished(reason, sequence.timings(at: .now)))
    sequence.mailbox.close()
    return true
  }
}
