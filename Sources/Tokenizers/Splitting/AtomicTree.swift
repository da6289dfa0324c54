// Groups and repetitions that give nothing back, as trees that match in one way at most.

extension SplitTree {
  /// The tree that matches what this one prefers, and nothing else; nil where trees cannot say it.
  ///
  /// An alternative is what none of the better ones can begin. A repetition ends where no further round is possible, if
  /// there is one way for each round.
  var atomic: SplitTree? {
    switch self {
    case .empty, .set, .look, .edge, .once: self
    case .choice(let branches): Self.firstPossible(branches)
    case .sequence(let parts): Self.inOrder(parts)
    case .repeated(let inner, let min, let max, let isLazy): Self.rounds(inner, min, max, isLazy)
    }
  }

  private static func firstPossible(_ branches: [SplitTree]) -> SplitTree? {
    var better: [SplitTree] = []
    var out: [SplitTree] = []
    for branch in branches {
      guard let once = branch.atomic else { return nil }
      out.append(.sequence(better + [once]))
      better.append(.look(branch, isBehind: false, isNegative: true))
    }
    return .once(.choice(out))
  }

  /// What a part prefers stands when nothing after it can fail.
  private static func inOrder(_ parts: [SplitTree]) -> SplitTree? {
    var out: [SplitTree] = []
    for (index, part) in parts.enumerated() {
      guard let once = part.atomic,
        part.hasOneWay || parts[(index + 1)...].allSatisfy(\.cannotFail)
      else { return nil }
      out.append(once)
    }
    return .once(.sequence(out))
  }

  private static func rounds(_ inner: SplitTree, _ min: Int, _ max: Int?, _ isLazy: Bool) -> SplitTree? {
    guard let once = inner.atomic, inner.hasOneWay || min <= 1 else { return nil }
    func repeated(_ min: Int, _ max: Int?) -> SplitTree { .repeated(once, min: min, max: max, isLazy: false) }
    if isLazy || max == min { return .once(repeated(min, min)) }
    guard !inner.canBeEmpty else { return nil }
    let isOver = SplitTree.look(inner, isBehind: false, isNegative: true)
    guard let max else { return .once(.sequence([repeated(min, nil), isOver])) }
    return .once(.choice([repeated(max, max), .sequence([repeated(min, max - 1), isOver])]))
  }

  private var hasOneWay: Bool {
    switch self {
    case .empty, .set, .look, .edge, .once: true
    case .sequence(let parts): parts.allSatisfy(\.hasOneWay)
    case .choice: false
    case .repeated(let inner, let min, let max, _): min == max && inner.hasOneWay
    }
  }

  /// Whether there is a match at every place.
  private var cannotFail: Bool {
    switch self {
    case .empty: true
    case .set, .look, .edge: false
    case .sequence(let parts): parts.allSatisfy(\.cannotFail)
    case .choice(let branches): branches.contains(where: \.cannotFail)
    case .repeated(let inner, let min, _, _): min == 0 || inner.cannotFail
    case .once(let inner): inner.cannotFail
    }
  }

  private var canBeEmpty: Bool {
    switch self {
    case .empty, .look, .edge: true
    case .set: false
    case .sequence(let parts): parts.allSatisfy(\.canBeEmpty)
    case .choice(let branches): branches.contains(where: \.canBeEmpty)
    case .repeated(let inner, let min, _, _): min == 0 || inner.canBeEmpty
    case .once(let inner): inner.canBeEmpty
    }
  }
}
