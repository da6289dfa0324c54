// One step of the engine: which rows, with which memory, and what they give.

import Compute
import Decoding
import Models
import Platform

extension Engine {
  /// How often an engine without memory looks for some, seconds.
  private static var memoryPoll: Double { 0.01 }
  /// How often an engine looks for a guide that is all it waits for, seconds.
  private static var guidePoll: Double { 0.0002 }

  func step() {
    let begin = Instant.now
    let isAwaited = running.contains { $0.isDecoding && !$0.givesWay }
    forkSequences()
    encodeMedia()
    guard let work = planWithMemory().map(byAdapter) else { return waitForMemory() }
    stalledSince = nil
    guard !work.isEmpty else { return waitForGuides() }
    let planned = Instant.now
    let load = work.reduce(StepLoad()) { $0 + StepLoad(rows: $1.rows, after: $1.sequence.computed) }
    let isAhead = work.allSatisfy { $0.sequence.givesWay && $0.sequence.request.keepsPrefix }
    let before = isAhead ? (ProcessUsage.cpuSecondsNow, energy.reading) : nil
    compute(work, load, at: planned)
    running.removeAll { $0.hasEnded }
    memory.account()

    let end = Instant.now
    clock.learn(load, seconds: end.seconds(since: planned), besideStreams: isAwaited)
    statistics.steps += 1
    if let (cpuSeconds, joules) = before {
      statistics.aheadTokens += load.rows
      statistics.aheadSeconds += end.seconds(since: planned)
      statistics.aheadCPUSeconds += ProcessUsage.cpuSecondsNow - cpuSeconds
      if let used = energy.joules(since: joules) {
        statistics.aheadJoules = (statistics.aheadJoules ?? 0) + used
      }
    }
    if isAwaited { statistics.longestStall = max(statistics.longestStall, end.seconds(since: begin)) }
  }

  /// The same work with the rows of each adapter together: its pairs are read once for all of them.
  private func byAdapter(_ work: [StepWork]) -> [StepWork] {
    guard work.contains(where: { $0.sequence.request.adapter != nil }) else { return work }
    return Dictionary(grouping: work.enumerated()) { $0.element.sequence.request.adapter?.digest ?? "" }
      .sorted { $0.key < $1.key }.flatMap { $0.value.map(\.element) }
  }

  /// Nothing can be computed: where that is for guides that are being made, the processor is left to them.
  private func waitForGuides() {
    guard running.contains(where: \.awaitsGuide), !running.contains(where: \.isLoading) else { return }
    let pause = Instant.now.adding(seconds: Self.guidePoll)
    let _: Bool? = inbox.wait(until: pause) { $0.isStopped || $0.reclaim > 0 ? true : nil }
  }

  private func compute(_ work: [StepWork], _ load: StepLoad, at begin: Instant) {
    batch.spans.removeAll(keepingCapacity: true)
    for item in work {
      self.begin(item.sequence)
      if item.sequence.generatedCount == 0 {
        item.sequence.note(secondsLeft: secondsLeft(item, of: load), at: begin)
      }
      if !item.draft.isEmpty { memory.checkpoint(&item.sequence.memory) }
      batch.spans.append(span(of: item))
    }
    forward()
    if stepDelay > 0 { usleep(stepDelay * 1000) }

    let now = Instant.now
    var logitRow = 0
    for (item, span) in zip(work, batch.spans) {
      let sequence = item.sequence
      let reachesEnd = sequence.pending == item.ownRows
      count(item)
      sequence.memory.advance(by: item.rows)
      let firstRow = logitRow
      logitRow += span.logits == .all ? item.rows : span.logits == .last ? 1 : 0
      if sequence.wantsPromptLogprobs, span.logits == .all {
        collectPromptLogprobs(of: sequence, span: span, firstLogitRow: firstRow)
      }
      if reachesEnd, sequence.generatedCount == 0 { sequence.note(secondsLeft: 0, at: now) }
      if span.logits != .none, reachesEnd {
        let lastRow = logitRow - 1 - item.draft.count
        sequence.hasEnded = sample(sequence, logitRow: lastRow, draft: item.draft, at: now)
      }
      memory.snapshot(&sequence.memory, keys: sequence.keys)
      if sequence.hasEnded { leave(sequence) } else { changeRoPE(of: sequence) }
    }
  }

  /// How long the prompt of a step's item still takes; nil while no step has told what one costs.
  private func secondsLeft(_ item: StepWork, of load: StepLoad) -> Double? {
    let (left, start) = (item.sequence.pending, item.sequence.computed)
    guard clock.cost != StepCost() else { return nil }
    return clock.cost.seconds(
      of: left, after: start, by: item.rows, beside: load - StepLoad(rows: item.rows, after: start))
  }

  /// A sequence that has outgrown what its rotary frequencies are made for is computed again with those for longer
  /// ones (longrope): so its tokens depend on the text alone, not on the limit that its request sets.
  private func changeRoPE(of sequence: ActiveSequence) {
    let variant = model.ropeVariant(forTokens: sequence.tokens.count)
    guard variant != sequence.ropeVariant else { return }
    memory.release(&sequence.memory, keys: sequence.keys)
    sequence.restart(ropeVariant: variant)
  }

  private func forward() {
    guard let turns else { return forward(nil) }
    turns.withTurn { forward($0) }
  }

  /// The logits, and their maxima as long as they are in the caches of the cores that computed them.
  private func forward(_ compute: ComputeContext?) {
    let begin = Instant.now
    model.forward(batch, cache: memory.cache, logits: &logits)
    statistics.forwardSeconds += Instant.now.seconds(since: begin)
    // Before the fork: room for the maxima may have to grow.
    let rows = (0..<logits.rows).map { logitRow($0) }
    func findMaxima(_ blocks: Range<Int>) {
      for row in rows { row.findMaxima(ofBlocks: blocks) }
    }
    let blocks = LogitRow.blockCount(logits.columns)
    guard let compute else { return findMaxima(0..<blocks) }
    compute.forEachRow(blocks, work: logits.rows * logits.columns / max(1, blocks), findMaxima)
  }

  private func logitRow(_ index: Int) -> LogitRow {
    let maxima = maxima.rows(logits.rows, LogitRow.blockCount(logits.columns))
    return unsafe LogitRow(values: logits.row(index), maxima: maxima.elements(ofRow: index))
  }

  /// A row as far as the request's tokens go.
  private func logitRow(_ index: Int, for request: GenerationRequest) -> LogitRow {
    let row = logitRow(index)
    return request.tokenLimit.map { row.prefix($0) } ?? row
  }

  /// The only sequence left finds no room for its next rows: other engines are asked for memory, and if none comes, it
  /// fails.
  private func waitForMemory() {
    let now = Instant.now
    guard let since = stalledSince else {
      stalledSince = now
      return
    }
    guard now.seconds(since: since) < memoryPatience else {
      stalledSince = nil
      for sequence in running {
        sequence.hasEnded = fail(sequence, shortage(tokens: sequence.tokens.count))
        leave(sequence)
      }
      running.removeAll()
      return
    }
    let pause = now.adding(seconds: Self.memoryPoll)
    let _: Bool? = inbox.wait(until: pause) { $0.isStopped || $0.reclaim > 0 ? true : nil }
  }

  /// Why a sequence of `tokens` tokens cannot go on.
  private func shortage(tokens: Int) -> InferenceError {
    let ledger = memory.quota.ledger
    return .outOfMemory(
      tokens: tokens, bytesPerToken: memory.cache.bytesPerToken, leftBytes: ledger.left,
      limitBytes: ledger.limit)
  }

  /// Tells the reader that the first step takes the sequence.
  private func begin(_ sequence: ActiveSequence) {
    guard sequence.begin() else { return }
    statistics.prefixQueryTokens += sequence.promptCount
    statistics.prefixHitTokens += sequence.cachedTokens
    if !sequence.mailbox.trySend(.started(cachedTokens: sequence.cachedTokens)) { sequence.mailbox.close() }
  }

  private func count(_ item: StepWork) {
    if item.sequence.isDecoding {
      statistics.decodeTokens += item.ownRows
      serve(item.sequence, item.ownRows)
    } else {
      statistics.prefillTokens += item.ownRows
    }
    statistics.drafts += item.draft.isEmpty ? 0 : 1
    statistics.draftedTokens += item.draft.count
  }

  /// Counts tokens for the turn of the sequence's tenant; what is computed while nobody waits costs it nothing.
  private func serve(_ sequence: ActiveSequence, _ tokens: Int) {
    guard !sequence.givesWay else { return }
    report.served[sequence.request.tenant, default: 0] += tokens
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
      let row = logitRow(firstLogitRow + offset, for: sequence.request)
      sequence.promptLogprobs.append(
        Logprobs.describe(token: sequence.tokens[next], logits: row.copy, top: top, ranks: true))
    }
  }

  /// Samples a token, and one more for every token of the draft that came true; the others are forgotten. True when the
  /// sequence has ended.
  ///
  /// - Parameter logitRow: of the sequence's last token; the rows of the draft follow it.
  private func sample(_ sequence: ActiveSequence, logitRow: Int, draft: [Int32], at now: Instant) -> Bool {
    let computed = sequence.computed - draft.count
    var held = 0
    defer { memory.rewind(&sequence.memory, to: computed + held) }
    while true {
      if sampleNext(sequence, logitRow: logitRow + held, at: now) { return true }
      guard held < draft.count, sequence.tokens.last == draft[held] else { break }
      held += 1
      statistics.acceptedTokens += 1
      statistics.decodeTokens += 1
      serve(sequence, 1)
    }
    return false
  }

  /// Samples one token. True when the sequence has ended.
  private func sampleNext(_ sequence: ActiveSequence, logitRow: Int, at now: Instant) -> Bool {
    let row = self.logitRow(logitRow, for: sequence.request)
    guard row.isUsable else {
      return fail(sequence, .unusableLogits(tokens: sequence.tokens.count))
    }
    if sequence.wantsPromptLogprobs {
      if sequence.promptLogprobs.isEmpty { sequence.promptLogprobs.append(nil) }
      guard sequence.mailbox.trySend(.promptLogprobs(sequence.promptLogprobs)) else {
        return end(sequence, .cancelled)
      }
    }
    let token = sequence.sampler.sample(
      row, step: sequence.generatedCount, wantTop: sequence.request.topLogprobs,
      allowance: sequence.allowance())
    sequence.append(token.id, at: now)
    // A token that stands for none ends the answer, but not like one that the model wanted: its reader must hear of it.
    if sequence.request.stopTokens.contains(token.id), !token.isArbitrary { return end(sequence, .stop) }
    guard sequence.mailbox.trySend(.token(token)) else { return end(sequence, .cancelled) }
    if token.isArbitrary { return end(sequence, .stop) }
    return sequence.remaining == 0 ? end(sequence, .length) : false
  }
}
