// Patterns to grammars.

import JSON
import Tokenizers

/// One pass over a pattern.
struct PatternCompiler {
  private var builder: GraphBuilder
  private let tokens: TokenNames
  private var depth = 0
  /// Which members objects have whose schemas do not say.
  private var members = UndeclaredMembers.allowed
  /// How text is written: as it is, or within a JSON string.
  private var spelling = Spelling.plain
  private var budget: CompileBudget
  /// Any text but what an expression matches.
  private var plainTexts: [String: ByteDFA] = [:]

  private static let depthLimit = 32
  private static let excludedLimit = 4096

  /// - Parameter missing: bytes that no token has alone.
  static func compile(
    _ pattern: Pattern, tokens: TokenNames, missing: [UInt8] = [], budget: CompileBudget = CompileBudget()
  ) throws(GrammarError) -> GrammarGraph {
    var compiler = PatternCompiler(tokens: tokens, missing: missing, budget: budget)
    let marks = try compiler.builder.punctuation()
    let root = try compiler.node(pattern)
    return try GrammarGraph(compiler.builder, root: root, marks: marks)
  }

  private init(tokens: TokenNames, missing: [UInt8], budget: CompileBudget) {
    builder = GraphBuilder(missing: missing)
    (self.tokens, self.budget) = (tokens, budget)
  }

  private mutating func node(_ pattern: Pattern) throws(GrammarError) -> Int32 {
    guard depth < Self.depthLimit else {
      throw .tooLarge(reason: "a pattern is nested more than \(Self.depthLimit) deep")
    }
    depth += 1
    defer { depth -= 1 }
    try budget.spend(1)
    switch pattern {
    case .literal(let text): return try builder.literal(spelling.bytes(of: text.unicodeScalars))
    case .token(let id):
      try check(isPlain: "a token")
      return try builder.token(id, of: tokens.count)
    case .sequence(let parts):
      var nodes: [Int32] = []
      for part in parts { nodes.append(try node(part)) }
      return nodes.count == 1 ? nodes[0] : try builder.add(.sequence(nodes))
    case .choice(let branches): return try choice(branches)
    case .repeated(let inner, let min, let max):
      guard min >= 0, min <= max ?? Int.max else {
        throw .malformed(path: "", reason: "a repetition from \(min) to \(max ?? 0)")
      }
      return try builder.add(.repeated(try node(inner), min: min, max: max ?? Int.max))
    case .quoted(let inner):
      try check(isPlain: "a string")
      spelling = .json
      defer { spelling = .plain }
      let text = try node(inner)
      return try builder.add(.sequence([builder.literal([0x22]), text, builder.literal([0x22])]))
    case .schema(let schema): return try addSchema(schema)
    case .anyObject: return try addSchema(["type": "object"])
    case .regex(let text):
      let tree = try RegexParser.parse(text)
      let dfa = try ByteNFA.automaton(tree, spelling: spelling, anywhere: false, budget: &budget)
      guard !dfa.isEmpty else {
        throw .unsatisfiable(path: "", reason: "no text matches the regular expression")
      }
      return try builder.leaf(dfa)
    case .gbnf(let text): return try rules(GBNFParser.parse(text))
    case .lark(let text): return try rules(LarkParser.parse(text))
    case .declared(let inner):
      let before = members
      members = .refused
      defer { members = before }
      return try node(inner)
    case .text(let excluded):
      try check(isPlain: "free text")
      return try builder.leaf(Self.text(without: excluded))
    case .quote(let texts):
      try budget.spend(texts.reduce(1) { $0 + $1.utf8.count })
      return try builder.quote(of: texts, spelling)
    case .string(let schema, let unlike):
      try check(isPlain: "a string")
      return try builder.leaf(text(schema, unlike: unlike))
    case .without(let excluded, let inner):
      try check(isPlain: "excluded text")
      let before = builder.excluding(try Self.texts(with: excluded, orBeginnings: Self.isJoined(inner)))
      defer { builder.excluding(before) }
      return try node(inner)
    }
  }

  /// Whether a text is put together of leaves, between which there may be no sign.
  private static func isJoined(_ pattern: Pattern) -> Bool {
    switch pattern {
    case .lark, .gbnf: true
    case .quoted(let inner): isJoined(inner)
    default: false
    }
  }

  private mutating func text(_ schema: JSONValue, unlike: String?) throws(GrammarError) -> ByteDFA {
    if schema == true, let known = plainTexts[unlike ?? ""] { return known }
    var dfa = try SchemaCompiler.text(schema, budget: &budget)
    if let unlike {
      let other = try ByteNFA.automaton(
        RegexParser.parse(unlike), spelling: .plain, anywhere: false, budget: &budget)
      dfa = try budget.counted(dfa.subtracting(other, watch: budget.watch))
    }
    if schema == true { plainTexts[unlike ?? ""] = dfa }
    return dfa
  }

  /// All texts in which one of these occurs, or that end with the beginning of one.
  private static func texts(with excluded: [String], orBeginnings: Bool) throws(GrammarError) -> ByteDFA {
    func tree(_ text: some Sequence<Unicode.Scalar>) -> RegexTree {
      .sequence(text.map { .set(ScalarSet($0.value)) })
    }
    try checkSize(of: excluded)
    let texts = excluded.filter { !$0.isEmpty }
    let dfa = try ByteNFA.automaton(
      .choice(texts.map { tree($0.unicodeScalars) }), spelling: .plain, anywhere: true)
    guard orBeginnings else { return dfa }
    let beginnings = texts.flatMap { text in
      (1..<text.unicodeScalars.count).map { tree(text.unicodeScalars.prefix($0)) }
    }
    return try dfa.union(
      ByteNFA.automaton(.sequence([.anything, .choice(beginnings)]), spelling: .plain, anywhere: false))
  }

  private static func checkSize(of excluded: [String]) throws(GrammarError) {
    guard excluded.reduce(0, { $0 + $1.utf8.count }) <= excludedLimit else {
      throw .tooLarge(reason: "the excluded strings have more than \(excludedLimit) bytes")
    }
  }

  private func check(isPlain what: String) throws(GrammarError) {
    guard case .plain = spelling else {
      throw .unsupported(keyword: what, path: "", reason: "it cannot stand within a JSON string")
    }
  }

  private mutating func addSchema(_ schema: JSONValue) throws(GrammarError) -> Int32 {
    try check(isPlain: "a schema")
    return try SchemaCompiler.node(schema, members: members, into: &builder, budget: &budget)
  }

  private mutating func rules(_ rules: RuleSet) throws(GrammarError) -> Int32 {
    try RuleCompiler.compile(
      rules, tokens: tokens, spelling: spelling, into: &builder, budget: &budget)
  }

  private mutating func choice(_ branches: [Pattern]) throws(GrammarError) -> Int32 {
    var texts: [[UInt8]] = []
    for case .literal(let text) in branches { texts.append(spelling.bytes(of: text.unicodeScalars)) }
    if texts.count == branches.count, !texts.isEmpty, !texts.contains([]) {
      return try builder.leaf(ByteDFA.texts(texts))
    }
    var nodes: [Int32] = []
    for branch in branches { nodes.append(try node(branch)) }
    return try builder.add(.choice(nodes))
  }

  private static func text(without excluded: [String]) throws(GrammarError) -> ByteDFA {
    var dfa = try CommonLanguages.text.get()
    try checkSize(of: excluded)
    for text in excluded {
      guard !text.isEmpty else {
        throw .unsatisfiable(path: "", reason: "every text contains the empty string")
      }
      let tree = RegexTree.sequence(text.unicodeScalars.map { .set(ScalarSet($0.value)) })
      dfa = try dfa.subtracting(ByteNFA.automaton(tree, spelling: .plain, anywhere: true))
    }
    return dfa
  }
}
