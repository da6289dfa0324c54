// What one answer may say next: first a thought, perhaps within a budget, then text that a grammar allows.
//
// The engine asks before each token and tells after each. A guide is a value: a copy is a snapshot, so that drafts
// can be tried and thrown away.

package import Grammar

package struct Guide: Sendable {
  /// The reasoning before the answer, as tokens.
  package struct Thought: Sendable, Equatable {
    /// The token that opens a thought, when the model itself writes it.
    package var open: Int32?
    /// The tokens that close a thought; the last of them ends it.
    package var close: [Int32]
    /// Most tokens of the thought, its closing not counted; nil has no bound.
    package var budget: Int?
    /// Whether the prompt ends inside a thought.
    package var startsInside: Bool

    package init(open: Int32?, close: [Int32], budget: Int?, startsInside: Bool) {
      self.open = open
      self.close = close
      self.budget = budget
      self.startsInside = startsInside
    }
  }

  package enum Allowance: Sendable, Equatable {
    case any
    /// This token comes next, whatever the logits say.
    case only(Int32)
    case among(TokenMask)
  }

  private enum State: Sendable, Equatable {
    /// Nothing generated yet: a thought may open.
    case beginning
    case thinking(tokens: Int)
    /// The budget is spent: so many closing tokens have been forced.
    case closing(Int)
    case answering
  }

  private let thought: Thought?
  private var matcher: GrammarMatcher?
  private var state: State

  package init(thought: Thought? = nil, grammar: CompiledGrammar? = nil) {
    self.thought = thought
    matcher = grammar.map { GrammarMatcher($0) }
    guard let thought else {
      state = .answering
      return
    }
    state = thought.startsInside ? .thinking(tokens: 0) : .beginning
  }

  /// What may come next.
  ///
  /// - Parameter remaining: tokens that may still be generated, the next one included.
  package mutating func allowance(remaining: Int) -> Allowance {
    switch state {
    case .thinking(let tokens):
      guard let thought, let first = thought.close.first else { return .any }
      if let budget = thought.budget, tokens >= budget { return .only(first) }
      // The thought leaves room for the shortest answer and its end.
      if let matcher, remaining <= thought.close.count + matcher.tokensToEnd + 1 {
        state = .closing(0)
        return .only(first)
      }
      return .any
    case .closing(let count):
      guard let thought, count < thought.close.count else { return .any }
      return .only(thought.close[count])
    case .beginning:
      guard var mask = matcher?.allowed(remaining: remaining) else { return .any }
      if let open = thought?.open { mask.insert(open) }
      return .among(mask)
    case .answering:
      guard let mask = matcher?.allowed(remaining: remaining) else { return .any }
      return .among(mask)
    }
  }

  /// Takes the token that was chosen.
  package mutating func accept(_ token: Int32) {
    switch state {
    case .beginning:
      if let thought, token == thought.open {
        state = .thinking(tokens: 0)
      } else {
        state = .answering
        _ = matcher?.accept(token)
      }
    case .thinking(let tokens):
      guard let thought else { return }
      if let budget = thought.budget, tokens >= budget {
        state = thought.close.count > 1 ? .closing(1) : .answering
      } else if token == thought.close.last {
        state = .answering
      } else {
        state = .thinking(tokens: tokens + 1)
      }
    case .closing(let count):
      state = count + 1 < (thought?.close.count ?? 0) ? .closing(count + 1) : .answering
    case .answering:
      _ = matcher?.accept(token)
    }
  }
}
