// One step of the engine: which rows, with which KV blocks, and what they give.

import Compute
import Decoding
import Models
import Platform

/// The rows of one sequence in a step.
struct StepWork {
  let sequence: ActiveSequence
  var rows: Int
  /// Guessed tokens behind the sequence's own, the last of the rows.
  var draft: [Int32] = []
}

extension Engine {
  /// Rows per step of a sequence that wants logits of every prompt row: a row of logits of a large
  /// vocabulary is about a megabyte.
  private static var promptLogprobRows: Int { 16 }
  /// Most rows of drafts in one step, shared by its sequences: each has a row of logits.
  private static var draftRows: Int { 16 }
  /// How often an engine without memory looks for some, seconds.
  private static var memoryPoll: Double { 0.01 }

  func step() {
    let begin = Instant.now
    let isAwaited = running.contains(where: \.isDecoding)
    adoptPrefixes()
    encodeMedia()
    guard let work = planWithBlocks() else { return waitForMemory() }
    stalledSince = nil
    guard !work.isEmpty else { return }
    let planned = Instant.now
    let load = work.reduce(StepLoad()) { $0 + StepLoad(rows: $1.rows, after: $1.sequence.computed) }
    compute(work)
    running.removeAll { $0.hasEnded }
    memory.account(pool, prefixes)

    let end = Instant.now
    clock.learn(load, seconds: end.seconds(since: planned), besideStreams: isAwaited)
    statistics.steps += 1
    if isAwaited { statistics.longestStall = max(statistics.longestStall, end.seconds(since: begin)) }
  }

  private func compute(_ work: [StepWork]) {
    batch.spans.removeAll(keepingCapacity: true)
    for item in work {
      begin(item.sequence)
      batch.spans.append(span(of: item))
    }
    forward()
    if stepDelay > 0 { usleep(stepDelay * 1000) }

    let now = Instant.now
    var logitRow = 0
    for (item, span) in zip(work, batch.spans) {
      let sequence = item.sequence
      count(item)
      sequence.computed += item.rows - item.draft.count
      let firstRow = logitRow
      logitRow += span.logits == .all ? item.rows : span.logits == .last ? 1 : 0
      if sequence.wantsPromptLogprobs, span.logits == .all {
        collectPromptLogprobs(of: sequence, span: span, firstLogitRow: firstRow)
      }
      if span.logits != .none, sequence.pending == 0 {
        let lastRow = logitRow - 1 - item.draft.count
        sequence.hasEnded = sample(sequence, logitRow: lastRow, draft: item.draft, at: now)
      }
      prefixes.record(
        sequence.keys, computed: sequence.computed, path: &sequence.path, table: sequence.blocks,
        pool: &pool)
      if sequence.hasEnded { leave(sequence) } else { changeRoPE(of: sequence) }
    }
  }

  /// A sequence that has outgrown what its rotary frequencies are made for is computed again with those for longer
  /// ones (longrope): so its tokens depend on the text alone, not on the limit that its request sets.
  private func changeRoPE(of sequence: ActiveSequence) {
    let variant = model.ropeVariant(forTokens: sequence.tokens.count)
    guard variant != sequence.ropeVariant else { return }
    releaseBlocks(of: sequence)
    sequence.rewind(ropeVariant: variant)
  }

  private func forward() {
    guard let turns else { return forward(nil) }
    turns.withTurn { forward($0) }
  }

  /// The logits, and their maxima as long as they are in the caches of the cores that computed them.
  private func forward(_ compute: ComputeContext?) {
    let begin = Instant.now
    model.forward(batch, cache: cache, logits: &logits)
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

  /// The only sequence left finds no room for its next rows: others are asked for memory, and if none comes, it fails.
  private func waitForMemory() {
    let now = Instant.now
    guard let since = stalledSince else {
      stalledSince = now
      return
    }
    guard now.seconds(since: since) < memoryPatience else {
      stalledSince = nil
      for sequence in running {
        sequence.hasEnded = fail(sequence, memory.shortage(tokens: sequence.tokens.count))
        leave(sequence)
      }
      running.removeAll()
      return
    }
    let pause = now.adding(seconds: Self.memoryPoll)
    let _: Bool? = inbox.wait(until: pause) { $0.isStopped || $0.reclaim > 0 ? true : nil }
  }

  /// Tells the reader that the first step takes the sequence.
  private func begin(_ sequence: ActiveSequence) {
    guard sequence.begin() else { return }
    statistics.prefixQueryTokens += sequence.promptCount
    statistics.prefixHitTokens += sequence.cachedTokens
    if !sequence.mailbox.trySend(.started(cachedTokens: sequence.cachedTokens)) { sequence.mailbox.close() }
  }

  private func count(_ item: StepWork) {
    let own = item.rows - item.draft.count
    if item.sequence.isDecoding {
      statistics.decodeTokens += own
      report.served[item.sequence.request.tenant, default: 0] += own
    } else {
      statistics.prefillTokens += own
    }
    statistics.drafts += item.draft.isEmpty ? 0 : 1
    statistics.draftedTokens += item.draft.count
  }

  // MARK: The plan

  /// Plans the step and gives every planned row its KV block. When blocks are short, cached prefixes that nobody
  /// reads go first, then the youngest sequence gives its blocks back.
  ///
  /// - Returns: nil when not even one sequence finds room.
  private func planWithBlocks() -> [StepWork]? {
    var drafts = guessDrafts()
    while true {
      let work = scheduler.plan(candidates(drafts), clock.allowance).map { share in
        let sequence = running[share.index]
        let draft = sequence.isDecoding ? (drafts[ObjectIdentifier(sequence)] ?? []) : []
        let rows = model.seesImagesWhole ? sequence.wholeRows(share.rows) : share.rows
        return StepWork(sequence: sequence, rows: rows, draft: Array(draft.prefix(rows - 1)))
      }
      if work.allSatisfy({ giveBlocks(to: $0.sequence, rows: $0.rows) }) { return work }
      guard running.count > 1 else {
        if drafts.isEmpty { return nil }
        drafts = [:]
        continue
      }
      preemptYoungest()
    }
  }

  private func candidates(_ drafts: [ObjectIdentifier: [Int32]]) -> [Scheduler.Candidate] {
    let twins = running.indices.map(twin)
    for (sequence, twin) in zip(running, twins)
    where twin == nil && sequence.isAtBorder && !sequence.isLoading { copyPartial(of: sequence) }
    var candidates = running.map { sequence in
      Scheduler.Candidate(
        pending: sequence.isLoading ? 0 : sequence.ready, computed: sequence.computed,
        chunkLimit: sequence.wantsPromptLogprobs ? Self.promptLogprobRows : .max,
        draft: drafts[ObjectIdentifier(sequence)]?.count ?? 0, isStream: sequence.isDecoding)
    }
    for (index, twin) in twins.enumerated() {
      guard let twin else { continue }
      candidates[twin].urgency = min(candidates[twin].urgency, candidates[index].pending)
      candidates[index].pending = 0
    }
    return candidates
  }

  private func giveBlocks(to sequence: ActiveSequence, rows: Int) -> Bool {
    let end = sequence.computed + rows
    let blocks = (end + KVCache.blockTokens - 1) / KVCache.blockTokens
    let missing = blocks - sequence.blocks.count
    memory.grow(&pool, untilFree: missing)
    prefixes.evict(untilFree: missing, pool: &pool)
    if pool.extend(&sequence.blocks, to: blocks) { return true }
    memory.ask(forBlocks: missing - pool.freeCount, at: .now)
    return false
  }

  /// Guessed continuations of the decoding sequences, as many tokens as are worth their rows.
  private func guessDrafts() -> [ObjectIdentifier: [Int32]] {
    guard speculates else { return [:] }
    let decoding = running.filter(\.isDecoding)
    var drafts: [ObjectIdentifier: [Int32]] = [:]
    var budget = DraftBudget(clock.cost, rows: decoding.count)
    for sequence in decoding {
      var draft = sequence.draft(most: Self.draftRows / decoding.count, within: &budget)
      // A guess behind the border of the frequencies would be computed with the wrong ones.
      while !draft.isEmpty,
        model.ropeVariant(forTokens: sequence.tokens.count + draft.count) != sequence.ropeVariant
      { draft.removeLast() }
      if !draft.isEmpty { drafts[ObjectIdentifier(sequence)] = draft }
    }
    return drafts
  }

  private func preemptYoungest() {
    let sequence = running.removeLast()
    releaseBlocks(of: sequence)
    sequence.rewind()
    preempted.insert(sequence, at: 0)
    statistics.preemptions += 1
  }

  private func span(of item: StepWork) -> Batch.Span {
    let sequence = item.sequence
    let start = sequence.computed
    let end = start + item.rows - item.draft.count
    let wanted: LogitRows
    if !item.draft.isEmpty || sequence.lacksPromptLogprobs(before: end) {
      wanted = .all
    } else {
      wanted = end == sequence.tokens.count ? .last : .none
    }
    var span = Batch.Span(
      tokens: sequence.tokens[start..<end] + item.draft, start: start, blocks: sequence.blocks,
      ropeVariant: sequence.ropeVariant, logits: wanted)
    if !sequence.request.media.isEmpty {
      span.soft = sequence.softRows(in: start..<end)
      if model.seesImagesWhole { span.groups = sequence.imageGroups(in: start..<end) }
    }
    return span
  }
}

extension Engine {
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
        Logprobs.describe(token: sequence.tokens[next], logits: row.copy, top: top))
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
      statistics.acceptedTokens += 1
      statistics.decodeTokens += 1
      report.served[sequence.request.tenant, default: 0] += 1
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
    let allowance = sequence.guide?.allowance(remaining: sequence.remaining) ?? .any
    let token = sequence.sampler.sample(
      row, step: sequence.generatedCount, wantTop: sequence.request.topLogprobs, allowance: allowance)
    sequence.guide?.accept(token.id)
    sequence.append(token.id, at: now)
    // A token that stands for none ends the answer, but not like one that the model wanted: its reader must hear of it.
    if sequence.request.stopTokens.contains(token.id), !token.isArbitrary { return end(sequence, .stop) }
    guard sequence.mailbox.trySend(.token(token)) else { return end(sequence, .cancelled) }
    if token.isArbitrary { return end(sequence, .stop) }
    return sequence.remaining == 0 ? end(sequence, .length) : false
  }
}
