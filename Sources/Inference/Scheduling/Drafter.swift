// Drafts the next tokens of a sequence from its own text: what followed the last time these tokens came up.
//
// Summaries, edits, code and JSON repeat their prompt. A draft costs little beside the pass over the weights that
// the next token needs anyway: all its positions are computed in one step, each is sampled as it would have
// been alone, and the first that differs from the draft ends the step's harvest. So output does not change.
// (Prompt lookup: Saxena 2023; verification: arXiv:2211.17192.)

/// The drafts of one sequence. Engine thread only.
struct Drafter {
  /// Tokens that must repeat before their continuation is believed.
  private static let match = 3
  private static let longest = 15
  /// What earlier tokens count when another is scored: about the last seven decide.
  private static let memory = 0.85

  /// Text outside the sequence that its answer may repeat (`GenerationRequest.draft`), then the sequence's own.
  private var history: [Int32] = []
  private let ownStart: Int
  /// Where the tokens after each trigram's latest occurrence begin in `history`.
  private var continuations: [Trigram: Int] = [:]
  /// Where the latest draft stands in `history`; empty when there was none.
  private var source = 0..<0
  /// Drafted tokens that came and that did not, fading. Drafts are scored whether or not they were computed, so finding
  /// out that a text begins to repeat itself, or stops, costs nothing.
  private var hits = 1.0
  private var misses = 1.0

  private struct Trigram: Hashable {
    let a, b, c: Int32
  }

  init(reference: [Int32]) {
    // A token that never occurs keeps the reference's end from matching into the prompt.
    history = reference.isEmpty ? [] : reference + [-1]
    ownStart = history.count
    for end in history.indices.dropFirst(Self.match) { note(before: end) }
  }

  /// The chance that a drafted token comes, if those before it came.
  var reliability: Double { hits / (hits + misses) }

  /// Tokens that probably follow; none when nothing speaks for any. Call once per step.
  ///
  /// - Parameters:
  ///   - tokens: of the sequence so far; it only ever grows.
  ///   - most: upper bound of the draft.
  mutating func draft(after tokens: [Int32], most: Int) -> [Int32] {
    take(tokens)
    let count = history.count
    source = 0..<0
    guard count >= Self.match,
      let start = continuations[Trigram(a: history[count - 3], b: history[count - 2], c: history[count - 1])]
    else { return [] }
    source = start..<count
    return Array((0..<max(0, min(Self.longest, most))).map(drafted).prefix { $0 >= 0 })
  }

  /// The draft's token `index`. A text that repeats itself up to its end is expected to go round once more.
  private func drafted(_ index: Int) -> Int32 { history[source.lowerBound + index % source.count] }

  /// Takes over new tokens of the sequence, and scores the draft by them up to the first that differs.
  private mutating func take(_ tokens: [Int32]) {
    var index = 0
    var holds = !source.isEmpty
    while history.count - ownStart < tokens.count {
      let token = tokens[history.count - ownStart]
      if holds, drafted(index) >= 0 {
        holds = drafted(index) == token
        hits = hits * Self.memory + (holds ? 1 : 0)
        misses = misses * Self.memory + (holds ? 0 : 1)
        index += 1
      }
      history.append(token)
      // The last three have no continuation yet.
      if history.count > Self.match { note(before: history.count - 1) }
    }
  }

  /// Remembers that `history[end]` follows the three tokens before it.
  private mutating func note(before end: Int) {
    continuations[Trigram(a: history[end - 3], b: history[end - 2], c: history[end - 1])] = end
  }
}

/// What a step gives and costs, while drafted tokens are added to it.
struct DraftBudget {
  /// Tokens that the step is expected to give.
  private(set) var tokens: Double
  /// How long it is expected to take.
  private(set) var seconds: Double
  private let perRow: Double

  /// A step of `rows` sequences that decode, without drafts.
  init(_ cost: StepCost, rows: Int) {
    tokens = Double(rows)
    seconds = cost.seconds(StepLoad(rows: rows, after: 0))
    perRow = cost.perRow
  }

  /// Adds drafted tokens of a sequence for as long as each raises the expected tokens per second.
  ///
  /// - Returns: how many of `most`.
  mutating func add(most: Int, reliability: Double) -> Int {
    var chance = 1.0
    for added in 0..<most {
      // The token counts if all before it came too: (tokens + chance) / (seconds + perRow) > tokens / seconds.
      chance *= reliability
      guard chance * seconds > perRow * tokens else { return added }
      tokens += chance
      seconds += perRow
    }
    return most
  }
}
