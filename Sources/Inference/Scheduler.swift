// Which rows the next step computes: every decoding sequence, then prompt chunks in order of arrival.

/// Pure: no clock, no locks, no I/O; sequences are seen as counts. Tests replay it.
struct Scheduler {
  /// What the scheduler knows of a running sequence.
  struct Candidate: Equatable {
    /// Tokens not yet in the KV cache, at least 1.
    var pending: Int
    /// Most rows of this sequence in one step (sequences that want logits of every prompt row take few).
    var chunkLimit: Int
    /// Guessed tokens that a decoding sequence would like to verify along.
    var draft = 0
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
  /// A sequence with one pending token (decoding, or the tail of a prompt) always gets its row, so that
  /// running streams never wait for a prefill; then come the rows of drafts; the rest of the budget goes to
  /// prompts, oldest first. A candidate with nothing pending (it waits for another's prefill) gets no row.
  func plan(_ running: [Candidate]) -> [Share] {
    var left = rowBudget
    var rows = [Int](repeating: 0, count: running.count)
    for (index, candidate) in running.enumerated() where candidate.pending == 1 {
      rows[index] = 1
      left -= 1
    }
    for (index, candidate) in running.enumerated() where candidate.pending == 1 && left > 0 {
      let draft = min(candidate.draft, left)
      rows[index] += draft
      left -= draft
    }
    for (index, candidate) in running.enumerated() where candidate.pending > 1 && left > 0 {
      rows[index] = min(candidate.pending, candidate.chunkLimit, left)
      left -= rows[index]
    }
    return rows.enumerated().compactMap { $0.element > 0 ? Share(index: $0.offset, rows: $0.element) : nil }
  }
}
