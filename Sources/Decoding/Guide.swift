// What one answer may say next: first reasoning, perhaps within a budget, then text that a grammar allows.
//
// The engine asks before each token and tells after each. A guide is a value: a copy is a snapshot, so that drafts
// can be tried and thrown away.

package import Grammar

/// Where one answer stands: in its reasoning, in tokens that are forced, or in the text that its grammar allows.
package struct Guide: Sendable {
  /// What the next token may be.
  package enum Allowance: Sendable, Equatable {
    case any
    /// This token comes next, whatever the logits say.
    case only(Int32)
    case among(TokenMask)
  }

  private enum State: Sendable {
    /// Reasoning may open: the given number of bytes of its marker have come. Meanwhile the text may still be an answer.
    case beginning(matched: Int, mayBeAnswer: Bool)
    case thinking(tokens: Int)
    /// These tokens come next, from an index on.
    case forcing([Int32], Int)
    case answering
  }

  let reasoning: Reasoning?
  let grammar: CompiledGrammar?
  /// Text of the answer that stood before its first token.
  private(set) var continued: [Int32] = []
  private var matcher: GrammarMatcher?
  private var state: State
  /// The end of the reasoning's text: enough to find its closing marker.
  private var tail: [UInt8] = []
  /// What reasoning before a constrained answer may hold: everything but the end of the answer.
  private let reasoningMask: TokenMask?
  /// The same while the closing marker may be under way, if it is ordinary text: the token that completes it must
  /// not hold text of the answer, which no grammar would see.
  private let closingMask: TokenMask?

  /// - Parameters:
  ///   - reasoning: nil where none is expected, or its end does not matter.
  ///   - grammar: what the text after the reasoning must be; nil for any text.
  package init(reasoning: Reasoning? = nil, grammar: CompiledGrammar? = nil) {
    (self.reasoning, self.grammar) = (reasoning, grammar)
    matcher = grammar.map { GrammarMatcher($0) }
    guard let reasoning else {
      state = .answering
      reasoningMask = nil
      closingMask = nil
      return
    }
    state = reasoning.startsInside ? .thinking(tokens: 0) : .beginning(matched: 0, mayBeAnswer: true)
    let vocabulary = grammar?.vocabulary
    reasoningMask = vocabulary?.continuing
    closingMask =
      reasoning.isClosedByText
      ? vocabulary?.continuing(key: reasoning.closingMarker, without: reasoning.closesWithText) : nil
  }

  /// Takes text that the answer goes on with. False when the grammar does not allow it.
  package mutating func accept(prefix tokens: [Int32]) -> Bool {
    guard matcher != nil else { return true }
    for token in tokens where matcher?.accept(token) != true { return false }
    continued += tokens
    return true
  }

  // MARK: Asking

  /// What may come next.
  ///
  /// - Parameters:
  ///   - remaining: tokens that may still be generated, the next one included.
  ///   - isUnwanted: whether nobody waits for the answer any more; asked now and then. Then only some of what may come
  ///     is told.
  package mutating func allowance(remaining: Int, isUnwanted: () -> Bool = { false }) -> Allowance {
    switch state {
    case .beginning(let matched, let mayBeAnswer):
      return beginning(matched, mayBeAnswer, remaining, isUnwanted)
    case .thinking(let tokens):
      if let first = forcedEnd(after: tokens)?.first { return .only(first) }
      if let first = makeRoom(remaining) { return .only(first) }
      guard let reasoningMask else { return .any }
      if let closingMask, reasoning?.mayBeClosing(tail) ?? false { return .among(closingMask) }
      return .among(reasoningMask)
    case .forcing(let tokens, let index): return index < tokens.count ? .only(tokens[index]) : .any
    case .answering:
      guard let mask = matcher?.allowed(remaining: remaining, isUnwanted: isUnwanted) else { return .any }
      return .among(mask)
    }
  }

  private mutating func beginning(
    _ matched: Int, _ mayBeAnswer: Bool, _ remaining: Int, _ isUnwanted: () -> Bool
  ) -> Allowance {
    guard let reasoning, let grammar else { return .any }
    var mask = TokenMask(count: grammar.vocabulary.count)
    if mayBeAnswer, let answer = matcher?.allowed(remaining: remaining, isUnwanted: isUnwanted) {
      mask = answer
    }
    for token in reasoning.openings(after: matched) { mask.insert(token) }
    return .among(mask)
  }

  /// The tokens that end the reasoning now, when its budget is spent.
  private func forcedEnd(after tokens: Int) -> [Int32]? {
    guard let reasoning, let budget = reasoning.budget, tokens >= budget else { return nil }
    // A character is not cut in half, nor a marker that the model is about to write.
    if tokens - budget < reasoning.patience(after: tail) { return nil }
    return reasoning.ending(after: tail)
  }

  /// Closes the reasoning when only the shortest answer and its end still fit after it.
  private mutating func makeRoom(_ remaining: Int) -> Int32? {
    guard let reasoning, let matcher else { return nil }
    let end = reasoning.ending(after: tail)
    guard remaining <= end.count + matcher.tokensToEnd + 1 else { return nil }
    force(end, from: 0)
    return end.first
  }

  // MARK: Telling

  /// Takes the token that was chosen.
  package mutating func accept(_ token: Int32) {
    switch state {
    case .beginning(let matched, let mayBeAnswer): begin(token, matched, mayBeAnswer)
    case .thinking(let tokens):
      if let end = forcedEnd(after: tokens) {
        force(end, from: 1)
      } else {
        think(token, tokens)
      }
    case .forcing(let tokens, let index): force(tokens, from: index + 1)
    case .answering: _ = matcher?.accept(token)
    }
  }

  private mutating func force(_ tokens: [Int32], from index: Int) {
    state = index < tokens.count ? .forcing(tokens, index) : .answering
  }

  private mutating func begin(_ token: Int32, _ matched: Int, _ mayBeAnswer: Bool) {
    guard let reasoning else { return }
    let isAnswer = mayBeAnswer && (matcher?.accept(token) ?? true)
    switch reasoning.open(token, after: matched) {
    case .complete(let rest):
      // What the grammar saw of the marker was no answer.
      matcher = grammar.map { GrammarMatcher($0) }
      tail = rest
      state = .thinking(tokens: 0)
    case .partial(let bytes): state = .beginning(matched: bytes, mayBeAnswer: isAnswer)
    case .none: state = .answering
    }
  }

  private mutating func think(_ token: Int32, _ tokens: Int) {
    guard let reasoning else { return }
    guard let rest = reasoning.close(token, after: &tail) else {
      state = .thinking(tokens: tokens + 1)
      return
    }
    // The model writes the white space after its reasoning by itself, unless a grammar has no place for it.
    force(matcher != nil && rest.isEmpty ? reasoning.separator : [], from: 0)
  }
}

extension TokenMask {
  /// Makes every token that is not in the set impossible.
  func banOthers(in row: UnsafeMutableBufferPointer<Float>) {
    for (index, word) in words.enumerated() where word != .max {
      let start = index * 64
      guard start < row.count else { return }
      let end = min(start + 64, row.count)
      if word == 0 {
        for id in start..<end { row[id] = -.infinity }
      } else {
        for id in start..<end where word & (1 << UInt64(id - start)) == 0 { row[id] = -.infinity }
      }
    }
    if count < row.count { for id in count..<row.count { row[id] = -.infinity } }
  }

  /// The lowest id of the set.
  var first: Int? {
    words.firstIndex { $0 != 0 }.map { $0 * 64 + words[$0].trailingZeroBitCount }
  }
}
