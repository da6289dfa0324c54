// Guesses the next tokens of a sequence from its own text: what followed the last time these tokens came up.
//
// Summaries, edits, code and JSON repeat their prompt. A guess costs little beside the pass over the weights that
// the next token needs anyway: all guessed positions are computed in one step, each is sampled as it would have
// been alone, and the first that differs from the guess ends the step's harvest. So output does not change.
// (Prompt lookup: Saxena 2023; verification: arXiv:2211.17192.)

/// The guesses of one sequence. Engine thread only.
struct Drafter {
  /// Tokens that must repeat before their continuation is believed.
  private static let match = 3
  private static let longest = 15

  /// Text outside the sequence that its answer may repeat (`GenerationRequest.draft`), then the sequence's own.
  private var history: [Int32] = []
  private let ownStart: Int
  /// Where the tokens after each trigram's latest occurrence begin in `history`.
  private var continuations: [Trigram: Int] = [:]
  /// How many of the next guesses to make: grows when guesses hold, falls when they fail.
  private var confidence = 4
  /// Tokens to wait before guessing again.
  private var pause = 0
  private var failures = 0

  private struct Trigram: Hashable {
    let a, b, c: Int32
  }

  init(reference: [Int32]) {
    // A token that never occurs keeps the reference's end from matching into the prompt.
    history = reference.isEmpty ? [] : reference + [-1]
    ownStart = history.count
    for end in history.indices.dropFirst(Self.match) { note(before: end) }
  }

  /// Remembers that `history[end]` follows the three tokens before it.
  private mutating func note(before end: Int) {
    continuations[Trigram(a: history[end - 3], b: history[end - 2], c: history[end - 1])] = end
  }

  /// Tokens that probably follow; none when nothing speaks for any. Call once per step.
  ///
  /// - Parameters:
  ///   - tokens: of the sequence so far; it only ever grows.
  ///   - most: upper bound of the guess.
  mutating func guess(after tokens: [Int32], most: Int) -> ArraySlice<Int32> {
    while history.count - ownStart < tokens.count {
      history.append(tokens[history.count - ownStart])
      // The last three have no continuation yet.
      if history.count > Self.match { note(before: history.count - 1) }
    }
    guard pause == 0 else {
      pause -= 1
      return []
    }
    let count = history.count
    guard count >= Self.match, most > 0,
      let start = continuations[Trigram(a: history[count - 3], b: history[count - 2], c: history[count - 1])]
    else { return [] }
    let end = min(count, start + min(confidence, most))
    return history[start..<end].prefix { $0 >= 0 }
  }

  /// Learns how many of the guessed tokens held.
  mutating func learn(guessed: Int, held: Int) {
    guard guessed > 0 else { return }
    if held == guessed {
      confidence = min(Self.longest, confidence * 2)
      failures = 0
    } else if held * 2 >= guessed {
      failures = 0
      confidence = max(2, held + 1)
    } else {
      // Wrong guesses cost time: wait longer after each, so that text without repetition loses next to nothing.
      failures = min(failures + 1, 6)
      pause = held == 0 ? 1 << failures : 0
      confidence = max(2, held + 1)
    }
  }
}
