// What the limits allow fits on the stack of a server thread and into the memory that grammars may take.

import JSON
import Support
import Testing

@testable import Grammar

@Suite struct LimitTests {
  /// Whether a matcher takes the text byte by byte and may end after it; it asks for masks on the way.
  static func takes(_ grammar: CompiledGrammar, _ text: String) -> Bool {
    var matcher = GrammarMatcher(grammar)
    for (index, byte) in text.utf8.enumerated() {
      if index % 50 == 49, !matcher.allowed(remaining: 100_000).contains(Int32(byte)) { return false }
      guard matcher.accept(Int32(byte)) else { return false }
    }
    return matcher.canEnd
  }

  /// `open` so often, `middle`, `close` so often.
  static func nested(_ count: Int, _ open: String, _ middle: String, _ close: String) -> String {
    String(repeating: open, count: count) + middle + String(repeating: close, count: count)
  }

  @Test func `the deepest schemas compile and answer on a small stack`() throws {
    try onSmallStack {
      for (open, middle, close, answer) in [
        (#"{"type": "array", "minItems": 1, "items": "#, "{}", "}", Self.nested(49, "[", "1", "]")),
        (
          #"{"type": "object", "required": ["a"], "properties": {"a": "#, #"{"type": "null"}"#, "}}",
          Self.nested(49, #"{"a": "#, "null", "}")
        ),
      ] {
        let schema = try JSONValue(parsing: Self.nested(49, open, middle, close), maxDepth: 1000)
        #expect(Self.takes(try CompiledGrammar(.schema(schema)), answer))
      }
      // These end at one limit or another; what counts is that they end.
      for (open, close) in [
        (#"{"allOf": [true, "#, "]}"), (#"{"anyOf": [{"type": "null"}, "#, "]}"), (#"{"not": "#, "}"),
        (#"{"oneOf": [{"const": 1}, "#, "]}"), (#"{"if": "#, "}"), (#"{"$defs": {"a": "#, "}}"),
        (#"{"properties": {"a": "#, "}}"), (#"{"items": "#, "}"), (#"{"additionalProperties": "#, "}"),
        (#"{"dependentSchemas": {"a": "#, "}}"), (#"{"enum": [["#, "]]}"), (#"{"const": {"a": "#, "}}"),
      ] {
        for count in [24, 36, 48, 72, 99] {
          let schema = try JSONValue(parsing: Self.nested(count, open, "{}", close), maxDepth: 1000)
          do { _ = try CompiledGrammar(.schema(schema)) } catch is GrammarError {}
        }
      }
    }
  }

  @Test func `the deepest expressions and grammars compile on a small stack`() throws {
    try onSmallStack {
      #expect(Self.takes(try CompiledGrammar(.regex(Self.nested(46, "(", "[ab]+", ")"))), "abab"))
      let ahead = Self.nested(46, "(?=", "[ab]+", ")")
      #expect(Self.takes(try CompiledGrammar(.regex("a" + ahead + "[ab]+")), "abab"))
      #expect(
        Self.takes(
          try CompiledGrammar(.gbnf("root ::= " + Self.nested(46, "(", "([ab] | \"c\")+", ")"))), "abc"))
      // Rules that name each other, put into one expression or left as they are.
      for count in [60, 90, 400, 2000] {
        let rules = (0..<count).map { "r\($0) ::= ( r\($0 + 1) \"\" | \"x\" )" }.joined(separator: "\n")
        let text = "root ::= r0 \"y\"\n\(rules)\nr\(count) ::= \"z\""
        do {
          #expect(Self.takes(try CompiledGrammar(.gbnf(text)), "xy"))
        } catch is GrammarError {}
      }
      var pattern = Pattern.literal("x")
      for _ in 0..<31 { pattern = .sequence([.literal("("), pattern]) }
      do { _ = try CompiledGrammar(pattern) } catch is GrammarError {}
    }
  }

  @Test func `values nested to the limit are written on a small stack`() throws {
    try onSmallStack {
      let any = try CompiledGrammar(schema: "{}")
      #expect(Self.takes(any, Self.nested(340, "[", "", "]")))
      #expect(Self.takes(any, Self.nested(340, #"{"a": "#, "1", "}")))
      #expect(!Self.takes(any, Self.nested(800, "[", "", "]")))
      let tree = try CompiledGrammar(
        schema:
          ##"{"type": "array", "items": {"anyOf": [{"$ref": "#"}, {"$ref": "#/$defs/b"}]}, "$defs": {"b": {"type": "array", "maxItems": 3, "items": {"$ref": "#"}}}}"##
      )
      #expect(Self.takes(tree, Self.nested(340, "[", "", "]")))
    }
  }

  @Test(arguments: [
    #"root ::= "(" root ")" | "(" root | "1""#, #"root ::= "(" root ")" | "((" root "))" | "1""#,
    #"root ::= a | b"# + "\n" + #"a ::= "(" a ")" | "(" b ")" | "1""# + "\n"
      + #"b ::= "(" a ")" | "(" b ")]" | "1""#,
  ])
  func `deep stacks move on a small stack`(_ text: String) throws {
    try onSmallStack {
      // So little that every step begins a new state.
      let grammar = try CompiledGrammar(
        .gbnf(text), vocabulary: SmallVocabulary.shared, memory: GrammarMemory(bytes: 1))
      #expect(Self.takes(grammar, Self.nested(330, "(", "1", ")")))
      #expect(!Self.takes(grammar, "(" + Self.nested(330, "(", "1", "))")))
    }
  }

  static let schema =
    #"{"type": "object", "properties": {"tags": {"type": "array", "items": {"type": "string", "maxLength": 9}, "uniqueItems": true, "minItems": 20}, "id": {"type": "string", "pattern": "^[a-z]{2,8}-[0-9]{4}$"}}, "required": ["tags", "id"]}"#

  @Test func `with little memory the answers are the same`() throws {
    let schema = Pattern.schema(try JSONValue(parsing: Self.schema))
    let roomy = try CompiledGrammar(schema, vocabulary: SmallVocabulary.shared)
    let bytes = 40_000
    let narrow = try CompiledGrammar(
      schema, vocabulary: SmallVocabulary.shared, memory: GrammarMemory(bytes: bytes))
    var random = SeededGenerator(seed: 3)
    var largest = 0
    for _ in 0..<6 {
      var first = GrammarMatcher(roomy)
      var second = GrammarMatcher(narrow)
      for taken in 0..<200 {
        let mask = first.allowed(remaining: 200 - taken)
        verify(second.allowed(remaining: 200 - taken) == mask, "after \(taken) tokens")
        let ids = (0..<Int32(mask.count)).filter { mask.contains($0) }
        guard let id = ids.randomElement(using: &random) else { break }
        verify(first.accept(id) && second.accept(id))
        largest = max(largest, narrow.cachedByteCount)
        if id == SmallVocabulary.end { break }
      }
      verify(first.canEnd && second.canEnd)
    }
    // One step may add to a state that is just below its limit.
    #expect(largest < bytes * 4 && roomy.cachedByteCount > bytes * 4, "\(largest), \(roomy.cachedByteCount)")
  }

  @Test func `the grammars of a cache share its memory`() throws {
    let patterns = try (0..<4).map { index in
      Pattern.schema(try JSONValue(parsing: Self.schema.replacing("{4}", with: "{\(index + 4)}")))
    }
    let fixed = try patterns.map { pattern in
      try CompiledGrammar(pattern, vocabulary: SmallVocabulary.shared).fixedByteCount + pattern.byteCount
    }
    // Three sixteenths are for the automata: all four have room, and nothing to spare.
    let limit = fixed.reduce(0, +) * 16 / 3 + 16
    let cache = GrammarCache(vocabulary: SmallVocabulary.shared, limit: 4, byteLimit: limit)
    var random = SeededGenerator(seed: 4)
    var kept: [CompiledGrammar] = []
    for pattern in patterns {
      let grammar = try cache.grammar(for: pattern)
      for _ in 0..<6 { _ = MatcherTests.walk(grammar, limit: 400, &random) }
      kept.append(grammar)
    }
    // The last one made the others smaller, and is the only one that may have grown since.
    let sizes = kept.map(\.cachedByteCount)
    #expect(sizes.dropLast().allSatisfy { $0 <= limit / 4 * 3 / 4 }, "\(sizes), \(fixed)")
    #expect(sizes.reduce(0, +) <= limit, "\(sizes)")
  }

  @Test func `grammars with large automata leave the cache first`() throws {
    let cache = GrammarCache(vocabulary: SmallVocabulary.shared, limit: 8, byteLimit: 650_000)
    let small = try cache.grammar(for: .regex("a"))
    let large = try cache.grammar(for: .regex("[ab]{4000}"))
    #expect(large.fixedByteCount > 60_000 && small.fixedByteCount < 20_000)
    #expect(try cache.grammar(for: .regex("a")) === small)
    let other = try cache.grammar(for: .regex("[cd]{4000}"))
    #expect(try cache.grammar(for: .regex("[cd]{4000}")) === other)
    #expect(try cache.grammar(for: .regex("[ab]{4000}")) !== large)
  }

  // MARK: Refusals, and clients that leave

  /// Whether the cache compiled to find out that the pattern is refused.
  static func compiles(_ pattern: Pattern, in cache: GrammarCache) -> Bool {
    var questions = 0
    #expect(throws: GrammarError.self) {
      try cache.grammar(for: pattern) {
        questions += 1
        return false
      }
    }
    return questions > 0
  }

  @Test func `a refused pattern is remembered, in the order and the room of all`() throws {
    let cache = GrammarCache(vocabulary: SmallVocabulary.shared, limit: 2, byteLimit: 8000)
    let refused = Pattern.regex("a(?=b)")
    #expect(Self.compiles(refused, in: cache) && !Self.compiles(refused, in: cache))
    #expect(cache.byteCount > 0)
    // One that takes more than there is for all of them leaves the others alone.
    let large = Pattern.regex(String(repeating: "a", count: 3000) + "(?=b)")
    #expect(Self.compiles(large, in: cache) && Self.compiles(large, in: cache))
    #expect(!Self.compiles(refused, in: cache))
    for name in ["c", "d"] { #expect(Self.compiles(.regex(name + "(?=b)"), in: cache)) }
    #expect(Self.compiles(refused, in: cache))
  }

  @Test func `refused patterns push no grammar out, however many they are`() throws {
    let cache = GrammarCache(vocabulary: SmallVocabulary.shared, limit: 2)
    let patterns = [Pattern.regex("ab"), .regex("cd")]
    let grammars = try patterns.map { try cache.grammar(for: $0) }
    for number in 0..<100 { #expect(Self.compiles(.regex("x{\(number)}(?=b)"), in: cache)) }
    for (pattern, grammar) in zip(patterns, grammars) {
      #expect(try cache.grammar(for: pattern) === grammar)
    }
    #expect(!Self.compiles(.regex("x{99}(?=b)"), in: cache) && Self.compiles(.regex("x{97}(?=b)"), in: cache))
  }

  @Test(arguments: [
    Pattern.schema([
      "allOf": .array((0..<400).map { ["pattern": .string("^.{0,\(100 + $0)}a")] })
    ]),
    .gbnf(
      (0..<200).map { "r\($0) ::= [^a]{\($0 + 900)} r\($0 + 1)" }.joined(separator: "\n")
        + "\nr200 ::= \"x\"\nroot ::= r0"),
  ])
  func `compiling ends when nobody waits any more, and is not remembered`(_ pattern: Pattern) {
    Self.expectsToEnd(pattern, at: 3)
  }

  @Test(arguments: [
    // One expression of 32,768 states.
    Pattern.regex("(a|b)*a(a|b){14}"),
    // One product: lengths that both 149 and 151 divide.
    .schema(["allOf": [["pattern": "^([a-z]{149})*$"], ["pattern": "^([a-z]{151})*$"]]]),
  ])
  func `also within one automaton`(_ pattern: Pattern) {
    Self.expectsToEnd(pattern, at: 5)
  }

  /// Thousands of alternatives that are no expression, since each leads to all of them.
  private static let wide = Pattern.gbnf(
    "root ::= " + (0..<7_000).map { "\"\($0)(\" root" }.joined(separator: " | ") + " | \"x\"")

  @Test func `also where the start of an answer is looked for`() throws {
    var all = 0
    _ = try CompiledGrammar(Self.wide, vocabulary: SmallVocabulary.shared) {
      all += 1
      return false
    }
    // It is asked last there.
    Self.expectsToEnd(Self.wide, at: all)
  }

  @Test(arguments: [
    Pattern.gbnf(#"root ::= ("(" root ")" | [a-c]){1,3}"#), .anyObject,
  ])
  func `a first mask that was left is made anew`(_ pattern: Pattern) throws {
    let whole = GrammarMatcher(try CompiledGrammar(pattern, vocabulary: SmallVocabulary.shared))
    var reference = whole
    let expected = reference.allowed(remaining: 100)
    var all = 0
    try CompiledGrammar(pattern, vocabulary: SmallVocabulary.shared).prepare {
      all += 1
      return false
    }
    #expect(all > 0)
    for last in 1...max(1, all) {
      let grammar = try CompiledGrammar(pattern, vocabulary: SmallVocabulary.shared)
      var questions = 0
      grammar.prepare {
        questions += 1
        return questions == last
      }
      #expect(questions == last)
      var matcher = GrammarMatcher(grammar)
      #expect(matcher.allowed(remaining: 100) == expected)
    }
  }

  @Test(arguments: [
    (Pattern.gbnf(#"root ::= ("(" root ")" | [a-c]){1,3}"#), "(a"), (.anyObject, #"{"a": ["#), (wide, "7("),
  ])
  func `a later mask ends when nobody waits any more, and is made anew`(_ pattern: Pattern, _ text: String)
    throws
  {
    func matcher() throws -> GrammarMatcher {
      var matcher = GrammarMatcher(try CompiledGrammar(pattern, vocabulary: SmallVocabulary.shared))
      for byte in text.utf8 { verify(matcher.accept(Int32(byte))) }
      return matcher
    }

    var reference = try matcher()
    let expected = reference.allowed(remaining: 100)
    var counted = try matcher()
    var all = 0
    _ = counted.allowed(remaining: 100) {
      all += 1
      return false
    }
    #expect(all > 1)
    for last in [1, 2, 3, all / 2, all] where (1...max(1, all)).contains(last) {
      var left = try matcher()
      var questions = 0
      let part = left.allowed(remaining: 100) {
        questions += 1
        return questions == last
      }
      #expect(questions == last)
      #expect(zip(part.words, expected.words).allSatisfy { $0 & ~$1 == 0 })
      verify(left.allowed(remaining: 100) == expected, "after \(last) of \(all)")
    }
  }

  private static func expectsToEnd(_ pattern: Pattern, at last: Int) {
    let cache = GrammarCache(vocabulary: SmallVocabulary.shared)
    for _ in 0..<2 {
      var questions = 0
      #expect(throws: GrammarError.unwanted) {
        try cache.grammar(for: pattern) {
          questions += 1
          return questions == last
        }
      }
      #expect(questions == last)
    }
    #expect(cache.byteCount == 0)
  }
}
