// Rules to grammar nodes: what is regular becomes automata, only recursion stays a rule.

import Tokenizers

/// One pass over the rules of a grammar.
struct RuleCompiler {
  private let rules: [String: RuleTree]
  private var nodes: [String: Int32] = [:]
  /// The rules without recursion, as expressions; nil where they are not regular or too large.
  private var expressions: [String: (tree: RegexTree, size: Int, depth: Int)?] = [:]
  private var pending: [String] = []
  /// The terminals that `&` and `~` name.
  private var terminals: [String: ByteDFA] = [:]
  private let tokens: TokenNames
  /// How text is written: as it is, or within a JSON string.
  private let spelling: Spelling
  private var budget: CompileBudget

  /// Larger expressions stay rules.
  private static let sizeLimit = 2000
  private static let depthLimit = 96

  static func compile(
    _ grammar: RuleSet, tokens: TokenNames, spelling: Spelling = .plain, into builder: inout GraphBuilder,
    budget: inout CompileBudget
  ) throws(GrammarError) -> Int32 {
    guard grammar.rules[grammar.root] != nil else {
      throw .malformed(path: "the grammar", reason: "there is no rule '\(grammar.root)'")
    }
    for name in grammar.names { try checkNames(name, in: grammar.rules) }
    let rules = try LeftRecursion.removed(from: grammar, budget: &budget)
    var compiler = RuleCompiler(rules: rules, tokens: tokens, spelling: spelling, budget: budget)
    defer { budget = compiler.budget }
    compiler.findExpressions(grammar.names)
    let root = try compiler.node(rule: grammar.root, &builder)
    while let name = compiler.pending.popLast() {
      guard let tree = rules[name], let node = compiler.nodes[name] else { continue }
      builder.fill(node, .choice([try compiler.node(tree, &builder)]))
    }
    return root
  }

  private init(rules: [String: RuleTree], tokens: TokenNames, spelling: Spelling, budget: CompileBudget) {
    (self.rules, self.spelling, self.tokens) = (rules, spelling, tokens)
    self.budget = budget
  }

  private static func checkNames(_ rule: String, in rules: [String: RuleTree]) throws(GrammarError) {
    var queue = [rules[rule] ?? .empty]
    while let tree = queue.popLast() {
      switch tree {
      case .set, .literal, .expression, .schema, .token, .special: break
      case .rule(let name):
        guard rules[name] != nil else {
          throw .malformed(path: "the rule '\(rule)'", reason: "there is no rule '\(name)'")
        }
      case .sequence(let parts), .choice(let parts), .both(let parts): queue += parts
      case .repeated(let inner, _, _), .other(let inner): queue.append(inner)
      }
    }
  }

  /// Rounds over all rules: a rule is regular once all rules that it names are. As many rounds as rules name each
  /// other in a chain.
  private mutating func findExpressions(_ names: [String]) {
    for _ in 0..<64 {
      var isChanged = false
      for name in names.reversed() where expressions[name] == nil {
        guard let tree = rules[name], let found = expression(tree) else { continue }
        expressions[name] = found
        isChanged = true
      }
      guard isChanged else { return }
    }
  }

  private func expression(_ tree: RuleTree) -> (tree: RegexTree, size: Int, depth: Int)? {
    switch tree {
    case .set(let set): return (.set(set), 1, 1)
    case .literal(let scalars):
      return (.sequence(scalars.map { .set(ScalarSet($0.value)) }), max(1, scalars.count), 2)
    case .rule(let name): return expressions[name] ?? nil
    case .expression(let tree):
      let (size, depth) = tree.measure
      return size <= Self.sizeLimit && depth < Self.depthLimit && tree.isPlain ? (tree, size, depth) : nil
    case .schema, .token, .special, .both, .other: return nil
    case .sequence(let parts), .choice(let parts):
      var size = 1
      var depth = 0
      var trees: [RegexTree] = []
      for part in parts {
        guard let part = expression(part), size + part.size <= Self.sizeLimit, part.depth < Self.depthLimit
        else {
          return nil
        }
        trees.append(part.tree)
        size += part.size
        depth = max(depth, part.depth)
      }
      if case .choice = tree { return (.choice(trees), size, depth + 1) }
      return (.sequence(trees), size, depth + 1)
    case .repeated(let inner, let min, let max):
      guard let (tree, size, depth) = expression(inner), depth < Self.depthLimit else { return nil }
      let (total, overflow) = size.multipliedReportingOverflow(by: Swift.max(1, max ?? min))
      guard !overflow, total <= Self.sizeLimit else { return nil }
      return (.repeated(tree, min: min, max: max), total + 1, depth + 1)
    }
  }

  private mutating func node(rule name: String, _ builder: inout GraphBuilder) throws(GrammarError) -> Int32 {
    if let known = nodes[name] { return known }
    let node = try builder.reserve()
    nodes[name] = node
    pending.append(name)
    return node
  }

  private mutating func node(_ tree: RuleTree, _ builder: inout GraphBuilder) throws(GrammarError) -> Int32 {
    if let (expression, _, _) = expression(tree), let leaf = try regular(expression, &builder) { return leaf }
    switch tree {
    case .set(let set):
      return try builder.leaf(automaton(.set(set)))
    case .literal(let scalars):
      return try builder.literal(spelling.bytes(of: scalars))
    case .rule(let name): return try node(rule: name, &builder)
    case .expression(let tree):
      return try builder.leaf(automaton(tree))
    case .schema where spelling == .json, .token where spelling == .json, .special where spelling == .json:
      throw .unsupported(
        keyword: "a schema or a token", path: "the grammar", reason: "it cannot stand within a JSON string")
    case .schema(let schema): return try SchemaCompiler.node(schema, into: &builder, budget: &budget)
    case .token(let id): return try builder.token(id, of: tokens.count)
    case .special(let name):
      guard let id = tokens.special(name) else {
        throw .unsatisfiable(path: "", reason: "the vocabulary has no special token '\(name)'")
      }
      return try builder.token(id, of: tokens.count)
    case .both, .other: return try builder.leaf(terminal(tree, depth: 0))
    case .choice(let branches):
      var nodes: [Int32] = []
      for branch in branches { nodes.append(try node(branch, &builder)) }
      return try builder.add(.choice(nodes))
    case .repeated(let inner, let min, let max):
      return try builder.add(.repeated(try node(inner, &builder), min: min, max: max ?? Int.max))
    case .sequence(let parts):
      var nodes: [Int32] = []
      var run: [RuleTree] = []
      for part in parts + [.choice([])] {
        if expression(part) != nil, !isImpossible(part) {
          run.append(part)
          continue
        }
        if !run.isEmpty {
          // A run that covers everything was tried above, and is too large together.
          if run.count < parts.count {
            nodes.append(try node(run.count == 1 ? run[0] : .sequence(run), &builder))
          } else {
            for part in run { nodes.append(try node(part, &builder)) }
          }
          run = []
        }
        if !isImpossible(part) { nodes.append(try node(part, &builder)) }
      }
      return try builder.add(.sequence(nodes))
    }
  }

  /// The texts of a terminal within `&` and `~`.
  private mutating func terminal(_ tree: RuleTree, depth: Int) throws(GrammarError) -> ByteDFA {
    guard depth < GrammarText.depthLimit else { throw GrammarText.tooDeep() }
    if let (expression, _, _) = expression(tree) { return try automaton(expression) }
    switch tree {
    case .expression(let tree): return try automaton(tree)
    case .rule(let name):
      if let known = terminals[name] { return known }
      let made = try terminal(rules[name] ?? .empty, depth: depth + 1)
      terminals[name] = made
      return made
    case .choice(let parts):
      var whole = try ByteDFA.texts([])
      for part in parts {
        whole = try budget.counted(
          whole.union(terminal(part, depth: depth + 1), watch: budget.watch))
      }
      return whole
    case .both(let parts):
      guard let first = parts.first else { return try automaton(.anything) }
      var whole = try terminal(first, depth: depth + 1)
      for part in parts.dropFirst() {
        whole = try budget.counted(
          whole.intersection(terminal(part, depth: depth + 1), watch: budget.watch))
      }
      return whole
    case .other(let inner):
      let inner = try terminal(inner, depth: depth + 1)
      return try budget.counted(automaton(.anything).subtracting(inner, watch: budget.watch))
    case .set, .literal, .sequence, .repeated, .schema, .token, .special:
      throw .unsupported(
        keyword: "& and ~", path: "the grammar",
        reason: "they stand between terminals that are expressions of less than \(Self.sizeLimit) parts")
    }
  }

  private mutating func automaton(_ tree: RegexTree) throws(GrammarError) -> ByteDFA {
    try ByteNFA.automaton(tree, spelling: spelling, anywhere: false, budget: &budget)
  }

  private func isImpossible(_ tree: RuleTree) -> Bool {
    if case .choice(let branches) = tree { branches.isEmpty } else { false }
  }

  /// One leaf for an expression, unless its automaton is too large.
  private mutating func regular(_ tree: RegexTree, _ builder: inout GraphBuilder) throws(GrammarError)
    -> Int32?
  {
    let dfa: ByteDFA
    do {
      dfa = try automaton(tree)
    } catch {
      guard error != .unwanted, budget.expressions > 0, budget.steps > 0 else { throw error }
      return nil
    }
    return try builder.leaf(dfa)
  }
}
