// Groups and repetitions that give nothing back, as trees that match in one way at most.

extension RegexTree {
  /// The tree that matches what this one prefers, and nothing else; nil where trees cannot say it.
  ///
  /// An alternative is what none of the better ones can begin. A repetition ends where no further round is possible, if
  /// there is one way for each round.
  var atomic: RegexTree? {
    switch self {
    case .empty, .set, .start, .end, .lookaround, .once: self
    case .choice(let branches): Self.firstPossible(branches)
    case .sequence(let parts): Self.inOrder(parts)
    case .repeated(let inner, let min, let max, let isLazy): Self.rounds(inner, min, max, isLazy)
    }
  }

  private static func firstPossible(_ branches: [RegexTree]) -> RegexTree? {
    var better: [RegexTree] = []
    var out: [RegexTree] = []
    for branch in branches {
      guard let once = branch.atomic else { return nil }
      out.append(.sequence(better + [once]))
      better.append(.lookaround(branch, isAhead: true, isPositive: false))
    }
    return .once(.choice(out))
  }

  /// What a part prefers stands when nothing after it can fail.
  private static func inOrder(_ parts: [RegexTree]) -> RegexTree? {
    var out: [RegexTree] = []
    for (index, part) in parts.enumerated() {
      guard let once = part.atomic,
        part.hasOneWay || parts[(index + 1)...].allSatisfy(\.cannotFail)
      else { return nil }
      out.append(once)
    }
    return .once(.sequence(out))
  }

  private static func rounds(_ inner: RegexTree, _ min: Int, _ max: Int?, _ isLazy: Bool) -> RegexTree? {
    guard let once = inner.atomic, inner.hasOneWay || min <= 1 else { return nil }
    func repeated(_ min: Int, _ max: Int?) -> RegexTree { .repeated(once, min: min, max: max, isLazy: false) }
    if isLazy || max == min { return .once(repeated(min, min)) }
    guard !inner.canBeEmpty else { return nil }
    let isOver = RegexTree.lookaround(inner, isAhead: true, isPositive: false)
    guard let max else { return .once(.sequence([repeated(min, nil), isOver])) }
    return .once(.choice([repeated(max, max), .sequence([repeated(min, max - 1), isOver])]))
  }

  private var hasOneWay: Bool {
    switch self {
    case .empty, .set, .start, .end, .lookaround, .once: true
    case .sequence(let parts): parts.allSatisfy(\.hasOneWay)
    case .choice: false
    case .repeated(let inner, let min, let max, _): min == max && inner.hasOneWay
    }
  }

  /// Whether there is a match at every place.
  private var cannotFail: Bool {
    switch self {
    case .empty: true
    case .set, .start, .end, .lookaround: false
    case .sequence(let parts): parts.allSatisfy(\.cannotFail)
    case .choice(let branches): branches.contains(where: \.cannotFail)
    case .repeated(let inner, let min, _, _): min == 0 || inner.cannotFail
    case .once(let inner): inner.cannotFail
    }
  }

  private var canBeEmpty: Bool {
    switch self {
    case .empty, .start, .end, .lookaround: true
    case .set: false
    case .sequence(let parts): parts.allSatisfy(\.canBeEmpty)
    case .choice(let branches): branches.contains(where: \.canBeEmpty)
    case .repeated(let inner, let min, _, _): min == 0 || inner.canBeEmpty
    case .once(let inner): inner.canBeEmpty
    }
  }
}
