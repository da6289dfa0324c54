// Regular expressions as patterns have them: what a tree asks of a text, and how large it is.

import Tokenizers

extension RegexTree {
  /// Any text.
  static var anything: RegexTree { .repeated(.set(.all), min: 0, max: nil) }

  /// Sets and copies of sets, and brackets inside each other.
  var measure: (size: Int, depth: Int) {
    switch self {
    case .empty, .start, .end: return (1, 1)
    case .set(let set): return (max(1, set.ranges.count / 8), 1)
    case .lookaround(let inner, _, _), .once(let inner): return inner.measure
    case .sequence(let parts), .choice(let parts):
      let all = parts.map(\.measure)
      return (all.reduce(1) { $0 + $1.size }, 1 + (all.map(\.depth).max() ?? 0))
    case .repeated(let inner, let min, let max, _):
      let (size, depth) = inner.measure
      let (total, overflow) = size.multipliedReportingOverflow(by: Swift.max(1, max ?? min))
      return (overflow ? .max / 2 : Swift.min(total, .max / 2), depth + 1)
    }
  }

  /// Whether it means the same beside other text: it asks for no start or end.
  var isPlain: Bool {
    switch self {
    case .empty, .set: true
    case .start, .end, .lookaround: false
    case .sequence(let parts), .choice(let parts): parts.allSatisfy(\.isPlain)
    case .repeated(let inner, _, _, _), .once(let inner): inner.isPlain
    }
  }

  /// Whether it asks for what stands beside it, but for conditions on the whole text.
  var looksAround: Bool {
    leadingLookaheads.rest.contains { if case .lookaround = $0 { true } else { false } }
  }

  /// Whether any part of it is one for which `isSought` holds.
  func contains(where isSought: (RegexTree) -> Bool) -> Bool {
    if isSought(self) { return true }
    switch self {
    case .empty, .set, .start, .end: return false
    case .sequence(let parts), .choice(let parts): return parts.contains { $0.contains(where: isSought) }
    case .repeated(let inner, _, _, _), .once(let inner), .lookaround(let inner, _, _):
      return inner.contains(where: isSought)
    }
  }

  /// Lookaheads directly after a leading `^`, which are conditions on the whole text, and the expression without them.
  var leadingLookaheads: (rest: RegexTree, conditions: [(tree: RegexTree, isPositive: Bool)]) {
    guard case .sequence(let parts) = self, case .start? = parts.first else { return (self, []) }
    var conditions: [(RegexTree, Bool)] = []
    var rest = parts.dropFirst()
    while case .lookaround(let inner, isAhead: true, let isPositive)? = rest.first {
      conditions.append((inner, isPositive))
      rest = rest.dropFirst()
    }
    return (.sequence([.start] + rest), conditions)
  }

  /// The set and the bounds of an expression for whole texts of a number of characters, such as `^[a-z]{1,63}$`.
  var countedSet: (set: ScalarSet, min: Int, max: Int?)? {
    guard case .sequence(let parts) = self, parts.count == 3, case .start = parts[0], case .end = parts[2],
      case .repeated(.set(let set), let min, let max, _) = parts[1]
    else { return nil }
    return (set, min, max)
  }

  /// The same with letters of either case.
  var ignoringCase: RegexTree {
    switch self {
    case .empty, .start, .end: self
    case .set(let set): .set(set.ignoringCase)
    case .sequence(let parts): .sequence(parts.map(\.ignoringCase))
    case .choice(let branches): .choice(branches.map(\.ignoringCase))
    case .repeated(let inner, let min, let max, let isLazy):
      .repeated(inner.ignoringCase, min: min, max: max, isLazy: isLazy)
    case .once(let inner): .once(inner.ignoringCase)
    case .lookaround(let inner, let isAhead, let isPositive):
      .lookaround(inner.ignoringCase, isAhead: isAhead, isPositive: isPositive)
    }
  }
}

extension RegexParser {
  /// The tree of an expression of ECMA 262.
  ///
  /// - Parameter dotIsAll: whether `.` also matches line breaks.
  static func parse(_ text: String, dotIsAll: Bool = false) throws(GrammarError) -> RegexTree {
    func place(_ at: Int) -> String { "character \(at + 1) of the regular expression" }
    do throws(RegexProblem) {
      return try parse(text, as: .ecma(dotIsAll: dotIsAll))
    } catch {
      switch error {
      case .malformed(let words, let at): throw .malformed(path: place(at), reason: words)
      case .unsupported(let what, let at, let reason):
        throw .unsupported(keyword: what, path: place(at), reason: reason)
      case .tooLarge(let reason): throw .tooLarge(reason: reason)
      }
    }
  }
}
