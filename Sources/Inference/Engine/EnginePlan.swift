// The plan of a step: what sequences need not compute, which rows they compute, and with which memory.

import Compute
import Models
import Platform

/// The rows of one sequence in a step.
struct StepWork {
  let sequence: ActiveSequence
  var rows: Int
  /// Tokens after the sequence's own that it may go on with, the last of the rows.
  var draft: [Int32] = []

  /// Rows of the sequence's own tokens.
  var ownRows: Int { rows - draft.count }
}

extension Engine {
  /// Rows per step of a sequence that wants logits of every prompt row: a row of logits of a large
  /// vocabulary is about a megabyte.
  private static var promptLogprobRows: Int { 16 }
  /// Most rows of drafts in one step, shared by its sequences: each has a row of logits.
  private static var draftRows: Int { 16 }
  /// Most rows of an answer that is known, in a step of its own: as many as have their logits in 32 MiB.
  private var expectedRows: Int {
    max(Self.draftRows, min(scheduler.rowBudget - 1, (32 << 20) / (4 * max(1, model.vocabularySize))))
  }

  // MARK: What others have computed

  /// What reading from disk may take of one turn when no stream waits, seconds.
  private static var loadSeconds: Double { 0.5 }

  /// Sequences that stand at a border take over what others have computed meanwhile, or what an earlier run of the
  /// server has left on disk.
  func forkSequences() {
    // Streams wait while files are read.
    let isAwaited = running.contains { $0.isDecoding && !$0.givesWay }
    let seconds = isAwaited ? maxStall / 8 : Self.loadSeconds
    let deadline = Instant.now.adding(seconds: seconds)
    for sequence in running where sequence.isAtBorder && !standsStill(sequence) {
      memory.fork(&sequence.memory, keys: sequence.keys)
      let found = sequence.computed
      sequence.isLoading = memory.load(&sequence.memory, keys: sequence.keys, until: deadline)
      statistics.prefixDiskTokens += sequence.computed - found
    }
    for sequence in running where sequence.missingMedia != nil { sequence.takeSoft { media.soft(of: $0) } }
  }

  /// An older sequence that is about to compute the very tokens that this one needs next: another choice of the same
  /// request, or a request with the same instructions. Waiting for it is cheaper than computing them twice.
  private func twin(of index: Int) -> Int? {
    let sequence = running[index]
    guard memory.sharesPrefixes, sequence.isAtBorder else { return nil }
    return running[..<index].firstIndex { older in
      guard !older.givesWay || sequence.givesWay else { return false }
      let end = memory.border(after: sequence.computed, of: older.memory)
      return older.pending > 1 && sequence.tokens.count > end
        && older.memory.path.root == sequence.memory.path.root && older.computed < end
        && older.computed >= sequence.computed && older.tokens.count > end
        && older.keys[..<end].elementsEqual(sequence.keys[..<end])
    }
  }

  // MARK: The plan

  /// Plans the step and gives every planned row its memory. When memory is short, cached prefixes that no sequence
  /// reads go first, then the youngest sequence gives its memory back, those that give way before others.
  ///
  /// - Returns: nil when not even one sequence finds room.
  func planWithMemory() -> [StepWork]? {
    var drafts = makeDrafts()
    while true {
      let work = scheduler.plan(candidates(drafts), clock.allowance).map { share in
        let sequence = running[share.index]
        let draft = sequence.isDecoding ? (drafts[ObjectIdentifier(sequence)] ?? []) : []
        let rows = model.seesImagesWhole ? sequence.wholeRows(share.rows) : share.rows
        return StepWork(sequence: sequence, rows: rows, draft: Array(draft.prefix(rows - 1)))
      }
      if work.allSatisfy({ memory.extend(&$0.sequence.memory, by: $0.rows) }) { return work }
      guard running.count > 1 else {
        if drafts.isEmpty { return nil }
        drafts = [:]
        continue
      }
      preempt()
    }
  }

  private func candidates(_ drafts: [ObjectIdentifier: [Int32]]) -> [Scheduler.Candidate] {
    let twins = running.indices.map(twin)
    for (sequence, twin) in zip(running, twins)
    where twin == nil && sequence.isAtBorder && !sequence.isLoading {
      memory.forkPart(&sequence.memory, keys: sequence.keys)
    }
    var candidates = running.map { sequence in
      Scheduler.Candidate(
        pending: sequence.isLoading || standsStill(sequence) ? 0 : sequence.ready,
        computed: sequence.computed,
        chunkLimit: min(
          memory.rowsToBorder(of: sequence.memory),
          sequence.wantsPromptLogprobs ? Self.promptLogprobRows : .max),
        draft: drafts[ObjectIdentifier(sequence)]?.count ?? 0,
        isStream: sequence.isDecoding && !sequence.givesWay,
        comesFirst: sequence.request.comesFirst && !sequence.isDecoding)
    }
    for (index, twin) in twins.enumerated() {
      guard let twin else { continue }
      candidates[twin].urgency = min(candidates[twin].urgency, candidates[index].pending)
      candidates[index].pending = 0
    }
    return candidates
  }

  /// What the decoding sequences may go on with, as many tokens as are worth their rows.
  private func makeDrafts() -> [ObjectIdentifier: [Int32]] {
    let decoding = running.filter { $0.isDecoding && !standsStill($0) }
    var drafts: [ObjectIdentifier: [Int32]] = [:]
    var budget = DraftBudget(clock.cost, rows: decoding.count)
    for sequence in decoding {
      let rows =
        sequence.isExpected && running.count == 1 ? expectedRows : Self.draftRows / decoding.count
      let most = min(rows, memory.rowsToBorder(of: sequence.memory) - 1)
      var draft = sequence.draft(most: most, within: &budget)
      // A draft that passes the border of the frequencies would be computed with the wrong ones.
      while !draft.isEmpty,
        model.ropeVariant(forTokens: sequence.tokens.count + draft.count) != sequence.ropeVariant
      { draft.removeLast() }
      if !draft.isEmpty { drafts[ObjectIdentifier(sequence)] = draft }
    }
    return drafts
  }

  /// Has the youngest sequence give its memory back, of those that give way if there are any.
  func preempt() {
    guard let index = running.lastIndex(where: \.givesWay) ?? running.indices.last else { return }
    let sequence = running.remove(at: index)
    memory.release(&sequence.memory, keys: sequence.keys)
    preempted.insert(sequence, at: 0)
    statistics.preemptions += 1
  }

  func span(of item: StepWork) -> Batch.Span {
    let sequence = item.sequence
    let start = sequence.computed
    let end = start + item.ownRows
    let wanted: LogitRows
    if !item.draft.isEmpty || sequence.lacksPromptLogprobs(before: end) {
      wanted = .all
    } else {
      wanted = end == sequence.tokens.count ? .last : .none
    }
    var span = Batch.Span(
      tokens: sequence.tokens[start..<end] + item.draft, start: start, blocks: sequence.memory.blocks,
      slot: sequence.memory.slot,
      ropeVariant: sequence.ropeVariant, logits: wanted)
    span.adapter = sequence.request.adapter.flatMap { choice in
      model.adapters?.slot(of: choice.digest).map { .init(slot: $0, strength: choice.strength) }
    }
    if !sequence.request.media.isEmpty {
      span.soft = sequence.softRows(in: start..<end)
      span.places = sequence.places(in: start..<start + span.tokens.count)
      if model.seesImagesWhole { span.groups = sequence.imageGroups(in: start..<end) }
    }
    return span
  }
}
