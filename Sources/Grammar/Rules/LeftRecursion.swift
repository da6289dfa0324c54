// Rules that begin with themselves, written again as repetitions.

/// The recogniser needs a first byte to wait for: `a ::= a "x" | "y"` becomes `a ::= "y" "x"*`, the same texts.
///
/// What cannot be written so within the limits stays as it is, and is refused later by that name.
struct LeftRecursion {
  private var rules: [String: RuleTree]
  private var nullable: Set<String> = []
  private var budget: CompileBudget

  /// Most alternatives of one rule, and most rules that begin with each other.
  private static let alternativeLimit = 2000
  private static let groupLimit = 64

  /// The rules of a grammar of which none begins with itself, where that can be done.
  static func removed(
    from grammar: RuleSet, budget: inout CompileBudget
  ) throws(GrammarError) -> [String: RuleTree] {
    var work = LeftRecursion(rules: grammar.rules, budget: budget)
    defer { budget = work.budget }
    try work.findNullable(grammar.names)
    for group in try work.groups(grammar.names) { try work.resolve(group) }
    return work.rules
  }

  private init(rules: [String: RuleTree], budget: CompileBudget) {
    (self.rules, self.budget) = (rules, budget)
  }

  private mutating func findNullable(_ names: [String]) throws(GrammarError) {
    let size = names.reduce(0) { $0 + (rules[$1]?.size ?? 0) }
    var isChanged = true
    while isChanged {
      isChanged = false
      try budget.spend(size)
      for name in names.reversed() where !nullable.contains(name) {
        guard let tree = rules[name], isNullable(tree) else { continue }
        nullable.insert(name)
        isChanged = true
      }
    }
  }

  /// Whether the empty text is one of the tree's; an expression may have it.
  private func isNullable(_ tree: RuleTree) -> Bool {
    switch tree {
    case .set, .schema, .token, .special: false
    case .expression, .both, .other: true
    case .literal(let text): text.isEmpty
    case .rule(let name): nullable.contains(name)
    case .sequence(let parts): parts.allSatisfy { isNullable($0) }
    case .choice(let branches): branches.contains { isNullable($0) }
    case .repeated(let inner, let min, _): min == 0 || isNullable(inner)
    }
  }

  /// The rules with which a tree may begin.
  private func firsts(_ tree: RuleTree) -> [String] {
    switch tree {
    case .set, .literal, .expression, .schema, .token, .special, .both, .other: return []
    case .rule(let name): return [name]
    case .choice(let branches): return branches.flatMap { firsts($0) }
    case .repeated(let inner, _, _): return firsts(inner)
    case .sequence(let parts):
      var out: [String] = []
      for part in parts {
        out += firsts(part)
        guard isNullable(part) else { break }
      }
      return out
    }
  }

  /// Groups of rules that begin with each other, in O(rules and what they name) (Tarjan's components).
  private mutating func groups(_ names: [String]) throws(GrammarError) -> [[String]] {
    var search = ComponentSearch()
    let numbers = Dictionary(names.enumerated().map { ($0.element, $0.offset) }) { first, _ in first }
    for name in names {
      let firsts = Set(rules[name].map { self.firsts($0) } ?? [])
      try budget.spend(1 + firsts.count)
      search.edges.append(firsts.compactMap { numbers[$0] }.sorted())
    }
    let components = search.components()
    return components.filter { $0.count > 1 || search.edges[$0[0]].contains($0[0]) }
      .map { $0.sorted().map { names[$0] } }
  }

  // MARK: One group

  private mutating func resolve(_ group: [String]) throws(GrammarError) {
    guard group.count <= Self.groupLimit else { return }
    let before = rules
    for (index, name) in group.enumerated() {
      let members = Set(group)
      guard var list = try alternatives(rules[name] ?? .empty, members) else {
        rules = before
        return
      }
      for earlier in group[..<index] {
        guard let replaced = try replacing(earlier, in: list, members) else {
          rules = before
          return
        }
        list = replaced
      }
      rules[name] = Self.repetition(of: name, list)
    }
  }

  /// The tree as sequences, of which none begins with a bracket that holds a rule of the group; nil where there are too
  /// many, or where something that may be empty stands before such a rule.
  private mutating func alternatives(
    _ tree: RuleTree, _ group: Set<String>
  ) throws(GrammarError) -> [[RuleTree]]? {
    var out: [[RuleTree]] = []
    var queue: [[RuleTree]] = [[tree]]
    while let parts = queue.popLast() {
      try budget.spend(1 + parts.count)
      guard out.count + queue.count < Self.alternativeLimit else { return nil }
      guard let first = parts.first, !group.isDisjoint(with: firsts(.sequence(parts))) else {
        out.append(parts)
        continue
      }
      let rest = Array(parts.dropFirst())
      switch first {
      case .rule(let name):
        guard !nullable.contains(name) || group.isDisjoint(with: firsts(.sequence(rest))) else { return nil }
        out.append(parts)
      case .sequence(let inner): queue.append(inner + rest)
      case .choice(let branches): for branch in branches { queue.append([branch] + rest) }
      case .repeated(let inner, let min, let max):
        guard !isNullable(inner) else { return nil }
        if min == 0 { queue.append(rest) }
        if max ?? 1 > 0 {
          let more = RuleTree.repeated(inner, min: Swift.max(0, min - 1), max: max.map { $0 - 1 })
          queue.append([inner, more] + rest)
        }
      case .expression, .both, .other: return nil
      case .set, .literal, .schema, .token, .special: out.append(parts)
      }
    }
    return out
  }

  /// The alternatives with those of a rule for the rule where it stands first.
  private mutating func replacing(
    _ name: String, in list: [[RuleTree]], _ group: Set<String>
  ) throws(GrammarError) -> [[RuleTree]]? {
    var out: [[RuleTree]] = []
    for parts in list {
      guard case .rule(let first)? = parts.first, first == name, let tree = rules[name] else {
        out.append(parts)
        continue
      }
      guard let own = try alternatives(tree, group) else { return nil }
      out += own.map { $0 + parts.dropFirst() }
      guard out.count < Self.alternativeLimit else { return nil }
    }
    return out
  }

  private static func repetition(of name: String, _ list: [[RuleTree]]) -> RuleTree {
    var bases: [RuleTree] = []
    var tails: [RuleTree] = []
    for parts in list {
      if case .rule(let first)? = parts.first, first == name {
        // A rule that is only itself says nothing.
        if parts.count > 1 { tails.append(.sequence(Array(parts.dropFirst()))) }
      } else {
        bases.append(.sequence(parts))
      }
    }
    guard !tails.isEmpty else { return .choice(bases) }
    return .sequence([.choice(bases), .repeated(.choice(tails), min: 0, max: nil)])
  }
}

/// Finds the groups of nodes that reach each other, without recursion: grammars may be long chains.
struct ComponentSearch {
  /// For each node, those that it leads to.
  var edges: [[Int]] = []

  func components() -> [[Int]] {
    var order = [Int](repeating: -1, count: edges.count)
    var lowest = order
    var isOpen = [Bool](repeating: false, count: edges.count)
    var open: [Int] = []
    var out: [[Int]] = []
    var count = 0
    for root in edges.indices where order[root] < 0 {
      var path: [(node: Int, next: Int)] = [(root, 0)]
      while let (node, next) = path.last {
        if next == 0 {
          (order[node], lowest[node]) = (count, count)
          count += 1
          open.append(node)
          isOpen[node] = true
        }
        if next < edges[node].count {
          path[path.count - 1].next += 1
          let target = edges[node][next]
          if order[target] < 0 {
            path.append((target, 0))
          } else if isOpen[target] {
            lowest[node] = min(lowest[node], order[target])
          }
          continue
        }
        path.removeLast()
        if let above = path.last?.node { lowest[above] = min(lowest[above], lowest[node]) }
        guard lowest[node] == order[node], let start = open.lastIndex(of: node) else { continue }
        out.append(Array(open[start...]))
        for member in open[start...] { isOpen[member] = false }
        open.removeLast(open.count - start)
      }
    }
    return out
  }
}
