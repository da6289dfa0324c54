// Which rows the next step computes: every decoding sequence, then chunks of prompts that fit into the time.

/// Pure: no clock, no locks, no I/O; sequences are seen as counts. Tests replay it.
struct Scheduler {
  /// What the scheduler knows of a running sequence.
  struct Candidate: Equatable {
    /// Tokens not yet in the KV cache; 0 while it waits for another's prefill.
    var pending: Int
    /// Tokens in the KV cache.
    var computed = 0
    /// Most rows of this sequence in one step (sequences that want logits of every prompt row take few).
    var chunkLimit = Int.max
    /// Drafted tokens that a decoding sequence would like to verify along.
    var draft = 0
    /// Whether a reader waits for its next token.
    var isStream = false
    /// Whether somebody at a keyboard waits for its first token.
    var comesFirst = false
    /// Tokens until the first answer that depends on this prompt: less than `pending` where another sequence
    /// waits for it.
    var urgency = Int.max
  }

  /// Rows to compute of one running sequence, by its index.
  struct Share: Equatable {
    var index: Int
    var rows: Int
  }

  /// Most rows of one step. Decoding sequences are served even when they are more than this.
  var rowBudget: Int

  /// Plans one step over the running sequences in order of their admission.
  ///
  /// A sequence with one pending token (decoding, or the tail of a prompt) always gets its row, so that running
  /// streams never wait for a prefill; then come the rows of drafts. The rest goes to prompts: half to the oldest,
  /// so that each is done in time, and half to those with the least to do, so that short ones need not wait for
  /// long ones; those that come first precede both and leave the others a row. While a stream or such a one is among
  /// them, the step stays within `allowance.besideStreams`; where decoding alone takes longer than that, prompts still
  /// get a fifth of the step.
  func plan(_ running: [Candidate], _ allowance: StepAllowance = StepAllowance()) -> [Share] {
    var rows = [Int](repeating: 0, count: running.count)
    var left = rowBudget
    for (index, candidate) in running.enumerated() where candidate.pending == 1 {
      rows[index] = 1
      left -= 1
    }
    for (index, candidate) in running.enumerated() where candidate.pending == 1 && left > 0 {
      let draft = min(candidate.draft, left)
      rows[index] += draft
      left -= draft
    }
    let decoding = running.indices.reduce(StepLoad()) {
      $0 + StepLoad(rows: rows[$1], after: running[$1].computed)
    }
    let decodingSeconds = allowance.cost.seconds(decoding)
    let isAwaited = running.contains { $0.isStream || ($0.comesFirst && $0.pending > 0) }
    let limit = isAwaited ? allowance.besideStreams : allowance.alone
    var budget = PromptBudget(
      cost: allowance.cost, rows: min(left, isAwaited ? allowance.rowsBesideStreams : allowance.rowsAlone),
      seconds: max(limit - decodingSeconds, decoding.rows > 0 ? decodingSeconds / 4 : 0))
    plan(prompts: running, &budget, &rows)
    return rows.enumerated().compactMap { $0.element > 0 ? Share(index: $0.offset, rows: $0.element) : nil }
  }

  /// Those that come first, then half for the oldest, then the shortest first, then what is left for the oldest again.
  private func plan(prompts running: [Candidate], _ budget: inout PromptBudget, _ rows: inout [Int]) {
    let prompts = running.indices.filter { running[$0].pending > 1 }
    guard let oldest = prompts.first, budget.rows > 0 else { return }
    let othersRow = prompts.count > 1 ? 1 : 0
    budget.rows -= othersRow
    for index in prompts where running[index].comesFirst {
      rows[index] = budget.take(running[index], already: 0, least: budget.rows > 0 ? 1 : 0)
    }
    budget.rows += othersRow
    let shortestFirst = prompts.sorted {
      (min(running[$0].pending, running[$0].urgency), $0) < (
        min(running[$1].pending, running[$1].urgency), $1
      )
    }
    if prompts.count > 1 && rows[oldest] == 0 && budget.rows > 0 {
      rows[oldest] += budget.take(running[oldest], already: 0, least: 1, share: 2)
    }
    for (place, index) in shortestFirst.enumerated() where budget.rows > 0 {
      rows[index] += budget.take(
        running[index], already: rows[index], least: place == 0 && rows[index] == 0 ? 1 : 0)
    }
    if budget.rows > 0 { rows[oldest] += budget.take(running[oldest], already: rows[oldest], least: 0) }
  }
}

/// What is left of a step for prompts.
private struct PromptBudget {
  let cost: StepCost
  var rows: Int
  var seconds: Double

  /// Takes rows for a prompt that has `already` some in this step.
  ///
  /// - Parameters:
  ///   - least: rows that it gets however long they take: no prompt stands still.
  ///   - share: 2 for no more than half of what is left.
  mutating func take(_ prompt: Scheduler.Candidate, already: Int, least: Int, share: Int = 1) -> Int {
    let most = min(prompt.pending, prompt.chunkLimit) - already
    let start = prompt.computed + already
    let fitting = cost.rows(
      within: seconds / Double(share), after: start, most: min(most, (rows + share - 1) / share))
    let taken = max(fitting, min(least, most))
    seconds -= cost.seconds(StepLoad(rows: taken, after: start)) - cost.fixed
    rows -= taken
    return taken
  }
}
