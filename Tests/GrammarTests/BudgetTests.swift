// Short patterns that would take very much work: they cost little, or are refused.

import JSON
import Support
import Testing
import Tokenizers

@testable import Grammar

@Suite struct BudgetTests {
  static func graph(_ pattern: Pattern) throws -> GrammarGraph {
    try PatternCompiler.compile(pattern, tokens: SmallVocabulary.shared.names)
  }

  static func refuses(_ pattern: Pattern, _ words: String) -> Bool {
    do {
      _ = try CompiledGrammar(pattern)
      return false
    } catch GrammarError.tooLarge(let reason) {
      return reason.contains(words)
    } catch {
      return false
    }
  }

  // MARK: Empty rounds

  @Test(arguments: [
    #"root ::= ("a"?){20000} "b""#, #"root ::= (("a"?){20000}){20000} "b""#,
    #"root ::= (""{20000}){300} ("a"? | "" ""){20000} "b""#,
  ])
  func `rounds that may be empty are not entered at once`(_ text: String) throws {
    var recogniser = Recogniser(graph: try Self.graph(.gbnf(text)))
    var set = recogniser.start()
    for _ in 0..<5 { set = recogniser.step(set, UInt8(ascii: "a")) }
    #expect(recogniser.items.count < 200 && !recogniser.isCut)
    set = recogniser.step(set, UInt8(ascii: "b"))
    #expect(set == Recogniser.ended)
  }

  @Test func `a million empty rounds of a million are nothing`() throws {
    let grammar = try CompiledGrammar(.gbnf(#"root ::= (""{1000000}){1000000} "a""#))
    #expect(grammar.allows("a") && !grammar.allows("") && !grammar.allows("aa"))
  }

  /// A random pattern over a and b, and the same as a regular expression.
  static func random(_ depth: Int, _ random: inout SeededGenerator) -> (Pattern, String) {
    switch depth == 0 ? 0 : Int.random(in: 0..<5, using: &random) {
    case 0:
      let text = ["", "a", "b", "ab"].randomElement(using: &random) ?? ""
      return (.literal(text), "(?:\(text))")
    case 1, 2:
      let parts = (0..<Int.random(in: 1...3, using: &random)).map { _ in Self.random(depth - 1, &random) }
      if Bool.random(using: &random) {
        return (.choice(parts.map(\.0)), "(?:" + parts.map(\.1).joined(separator: "|") + ")")
      }
      return (.sequence(parts.map(\.0)), "(?:" + parts.map(\.1).joined() + ")")
    default:
      let (inner, text) = Self.random(depth - 1, &random)
      let min = Int.random(in: 0...3, using: &random)
      let max = Bool.random(using: &random) ? nil : min + Int.random(in: 0...2, using: &random)
      return (
        .repeated(inner, min: min, max: max), "(?:\(text){\(min),\(max.map(String.init) ?? "")})"
      )
    }
  }

  @Test func `repetitions of what may be empty have the language of the regular expression`() throws {
    var texts = [""]
    for length in 0..<5 {
      texts += texts.filter { $0.utf8.count == length }.flatMap { [$0 + "a", $0 + "b"] }
    }
    #expect(texts.count == 63)
    var random = SeededGenerator(seed: 31)
    for _ in 0..<300 {
      let (pattern, text) = Self.random(4, &random)
      let expected = try CompiledGrammar(.regex(text))
      let grammar = try CompiledGrammar(pattern)
      for each in texts where grammar.allows(each) != expected.allows(each) {
        Issue.record("\(text) and \"\(each)\"")
      }
    }
  }

  // MARK: Work of the recogniser

  /// Rules of which each doubles the stacks of the next.
  static let doubling =
    (0..<24).map { "r\($0) ::= r\($0 + 1) \"x\" | r\($0 + 1) \"y\"" }.joined(separator: "\n")
    + "\nr24 ::= \"(\" root \")\" | \"1\""

  @Test func `a grammar whose answers cannot begin within the steps is refused`() {
    #expect(Self.refuses(.gbnf("root ::= r0\n" + Self.doubling), "the start of an answer"))
  }

  @Test func `a step that would take too much ends within its steps, with answers that are right`() throws {
    let text = "root ::= \"s\" r0\n" + Self.doubling
    var recogniser = Recogniser(graph: try Self.graph(.gbnf(text)))
    let start = recogniser.start()
    #expect(!recogniser.isCut)
    recogniser.begin()
    let set = recogniser.step(start, UInt8(ascii: "s"))
    #expect(recogniser.isCut && recogniser.items.count <= Recogniser.workLimit)
    #expect(!recogniser.items(of: set).isEmpty)
    // What is left can be completed, and the matcher says how.
    var matcher = GrammarMatcher(try CompiledGrammar(.gbnf(text)))
    verify(matcher.accept(Int32(UInt8(ascii: "s"))) && matcher.accept(Int32(UInt8(ascii: "1"))))
    for _ in 0..<24 {
      let mask = matcher.allowed(remaining: 1000)
      let id = [UInt8(ascii: "x"), UInt8(ascii: "y")].map(Int32.init).first { mask.contains($0) }
      guard let id else {
        Issue.record("no way on")
        return
      }
      verify(matcher.accept(id))
    }
    #expect(matcher.mustEnd)
  }

  @Test func `without steps a set keeps what stays inside its leaves and nothing else`() throws {
    var recogniser = Recogniser(graph: try Self.graph(.sequence([.regex("a+"), .literal("b")])))
    let start = recogniser.start()
    recogniser.begin()
    recogniser.spend(Recogniser.workLimit + 1)
    let set = recogniser.step(start, UInt8(ascii: "a"))
    #expect(recogniser.isCut && recogniser.items(of: set).count == 1)
    #expect(recogniser.step(set, UInt8(ascii: "b")) == Recogniser.empty)
  }

  // MARK: Expressions

  @Test func `empty parts of an expression are no work`() throws {
    let text = "((" + String(repeating: "()", count: 60) + "){10000}){1000}a"
    var budget = CompileBudget()
    let dfa = try ByteNFA.automaton(
      RegexParser.parse(text), spelling: .plain, anywhere: false, budget: &budget)
    #expect(dfa.accepts(Array("a".utf8)) && !dfa.accepts([]))
    #expect(ByteNFA.totalWork - budget.expressions < 1000)
  }

  @Test func `repeated empties are counted where an expression still holds them`() {
    let empties = RegexTree.sequence([RegexTree](repeating: .empty, count: 60))
    let tree = RegexTree.repeated(
      .repeated(empties, min: 10_000, max: 10_000), min: 1000, max: 1000)
    #expect(throws: GrammarError.self) { try ByteNFA.automaton(tree, spelling: .plain, anywhere: false) }
  }

  @Test func `what lookaheads combine to is counted`() {
    let text = "^" + String(repeating: "(?=.{1,1100}$)", count: 500) + "a*$"
    #expect(Self.refuses(.regex(text), "takes"))
  }

  // MARK: Schemas

  @Test(arguments: [
    (#"{"type": "array", "contains": {"type": "integer"}, "minContains": 100000000}"#, 200_000_001),
    (
      #"{"type": "array", "contains": {"type": "integer"}, "minContains": 3, "minItems": 100000000}"#,
      200_000_001
    ),
    (
      #"{"type": "array", "contains": {"const": "abc"}, "minContains": 1000, "maxContains": 2000, "minItems": 3000, "maxItems": 4000}"#,
      1000 * 6 + 2000 * 2 + 1
    ),
    (
      #"{"type": "array", "items": {"enum": [1, "abc"]}, "contains": {"const": 1}, "minContains": 2, "maxContains": 5, "minItems": 8}"#,
      5 * 2 + 3 * 6 + 1
    ),
    (
      #"{"type": "array", "prefixItems": [{"const": 5}, {"const": "ab"}], "contains": {"const": 7}, "minContains": 3, "minItems": 6}"#,
      16
    ),
    (
      #"{"type": "array", "allOf": [{"contains": {"const": 123}, "minContains": 10}, {"contains": {"type": "integer"}, "minContains": 20}]}"#,
      10 * 4 + 10 * 2 + 1
    ),
  ])
  func `the shortest array is found for any count`(_ schema: String, _ bytes: Int) throws {
    #expect(GrammarMatcher(try CompiledGrammar(schema: schema)).tokensToEnd == bytes)
  }

  @Test func `more properties than an object may have are refused`() throws {
    func schema(_ count: Int) throws -> Pattern {
      let properties = (0..<count).map { "\"p\($0)\": true" }.joined(separator: ", ")
      return .schema(
        try JSONValue(
          parsing: #"{"type": "object", "properties": {\#(properties)}, "additionalProperties": false}"#))
    }
    #expect(try CompiledGrammar(schema(5000)).allows(#"{"p4999": 1, "p0": null}"#))
    #expect(Self.refuses(try schema(5001), "5000 properties"))
  }

  /// The most kinds of objects that a value may be of.
  static func kinds(_ schema: String) throws -> Int {
    let nodes = try graph(.schema(JSONValue(parsing: schema))).nodes
    func isObject(_ node: Int32) -> Bool { if case .object = nodes[Int(node)] { true } else { false } }
    return nodes.map { node in
      if case .choice(let branches) = node { branches.count(where: isObject) } else { 0 }
    }.max() ?? 0
  }

  @Test func `a member that is missing or wrong is one way to break a schema`() throws {
    let branches = (0..<8).map {
      #"{"required": ["k\#($0)"], "properties": {"k\#($0)": {"type": "string"}}}"#
    }
    let schema = #"{"type": "object", "oneOf": [\#(branches.joined(separator: ", "))]}"#
    // For each branch, one object: that without the other seven. Missing and wrong apart, it was 2^7.
    #expect(try Self.kinds(schema) == 8)
    let grammar = try CompiledGrammar(schema: schema)
    let right = [
      #"{"k0": "a"}"#, #"{"k7": "a", "b": 1}"#, #"{"k0": "a", "k1": 5}"#, #"{"k3": null, "k2": "a"}"#,
    ]
    for text in right { #expect(grammar.allows(text), "\(text)") }
    let wrong = ["{}", #"{"k0": 5}"#, #"{"k0": "a", "k1": "b"}"#, #"{"k0": "a", "k1": 5, "k2": "b"}"#]
    for text in wrong { #expect(!grammar.allows(text), "\(text)") }
    // A member that may have any value can only be missing; one that may have none is never right.
    let any = try CompiledGrammar(
      schema: #"{"type": "object", "not": {"required": ["a", "b"], "properties": {"a": {}, "b": true}}}"#)
    #expect(any.allows(#"{"a": 1}"#) && any.allows(#"{"b": 1}"#) && !any.allows(#"{"a": 1, "b": 1}"#))
    let none = try CompiledGrammar(
      schema: #"{"type": "object", "not": {"required": ["a"], "properties": {"a": false}}}"#)
    #expect(none.allows("{}") && none.allows(#"{"a": 1}"#))
  }

  @Test(arguments: [
    #""required": ["k"], "allOf": [{"oneOf": BRANCHES}]"#,
    ##""required": ["k"], "$ref": "#/$defs/one", "$defs": {"one": {"oneOf": BRANCHES}}"##,
    #""required": ["k"], "dependentSchemas": {"k": {"oneOf": BRANCHES}}"#,
    #""dependentSchemas": {"k": {"oneOf": BRANCHES}}"#,
  ])
  func `branches that a required member tells apart exclude nothing`(_ words: String) throws {
    let branches = (0..<6).map { number in
      let own = (0..<4).map { #""m\#($0)": {"maximum": \#(number * 10 + $0)}"# }.joined(separator: ", ")
      return #"{"properties": {"k": {"const": \#(number)}, \#(own)}}"#
    }
    let schema =
      #"{"type": "object", "properties": {"k": {"type": "integer"}}, "#
      + words.replacing("BRANCHES", with: "[" + branches.joined(separator: ", ") + "]") + "}"
    // One for each branch, and perhaps the object without the member.
    #expect(try (6...7).contains(Self.kinds(schema)))
    let grammar = try CompiledGrammar(schema: schema)
    #expect(grammar.allows(#"{"k": 3, "m0": 30}"#) && grammar.allows(#"{"m3": 53, "k": 5}"#))
    #expect(!grammar.allows(#"{"k": 3, "m0": 31}"#) && !grammar.allows(#"{"k": 6}"#))
  }

  @Test func `members that ask for each other without end are refused`() throws {
    let list = (0..<300).map { "\"p\($0)\": [\"p\(($0 + 1) % 300)\"]" }.joined(separator: ", ")
    #expect(
      Self.refuses(
        .schema(try JSONValue(parsing: #"{"type": "object", "dependentRequired": {\#(list)}}"#)), "20000"))
  }

  @Test func `what a member changes is what looking at all members finds`() {
    var random = SeededGenerator(seed: 32)
    for _ in 0..<2000 {
      let count = Int.random(in: 1...8, using: &random)
      var cost: [Int32] = []
      func node() -> Int32 {
        cost.append(
          Int.random(in: 0..<12, using: &random) == 0 ? Cost.none : Int32.random(in: 1...9, using: &random))
        return Int32(cost.count - 1)
      }
      var properties: [ObjectPlan.Property] = []
      for _ in 0..<count {
        properties.append(
          .init(key: node(), value: node(), isRequired: Int.random(in: 0..<4, using: &random) == 0))
      }
      // Chains, so that what is asked for indirectly is listed, too.
      for index in properties.indices.dropLast().reversed()
      where Int.random(in: 0..<3, using: &random) == 0 {
        properties[index].implied = [index + 1] + properties[index + 1].implied
      }
      let extras = Bool.random(using: &random) ? [(node(), node())] : []
      let least = Int.random(in: 0...count + 1, using: &random)
      let plan = ObjectPlan(properties: properties, extras: extras, min: least, max: least + 3)
      var state = ObjectState(plan)
      for index in plan.properties.indices where Int.random(in: 0..<3, using: &random) == 0 {
        state = state.adding(index, plan)
      }
      if Int.random(in: 0..<4, using: &random) == 0 { state = state.addingExtra(plan) }
      let needs = ObjectNeeds(state, plan, cost)
      for index in plan.properties.indices where !state.contains(index) {
        let rest = needs.rest(after: index, plan, cost)
        let whole = ObjectNeeds(state.adding(index, plan), plan, cost)
        verify(rest.cost == whole.cost && rest.count == whole.shortage(plan), "\(plan), \(state): \(index)")
      }
      let rest = needs.restAfterExtra(plan)
      let whole = ObjectNeeds(state.addingExtra(plan), plan, cost)
      verify(plan.extras.isEmpty || rest.cost == whole.cost && rest.count == whole.shortage(plan))
    }
  }

  // MARK: All together

  @Test func `a schema of many automata is refused by its steps`() throws {
    let list = (0..<400).map { #"{"pattern": "^.{0,\#(100 + $0)}a"}"# }.joined(separator: ", ")
    #expect(Self.refuses(.schema(try JSONValue(parsing: #"{"allOf": [\#(list)]}"#)), ""))
  }
}
