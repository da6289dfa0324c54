// Masks, snapshots, ends, and the limit of tokens.

import JSON
import Support
import Testing
import Tokenizers

@testable import Grammar

@Suite struct MatcherTests {
  /// One random answer; nil when it has more than `limit` tokens.
  static func walk(
    _ grammar: CompiledGrammar, limit: Int, _ random: inout SeededGenerator, hurries: Bool = true
  ) -> (tokens: [Int32], isEnded: Bool) {
    var matcher = GrammarMatcher(grammar)
    var tokens: [Int32] = []
    while tokens.count < limit {
      let mask = matcher.allowed(remaining: hurries ? limit - tokens.count : 1_000_000)
      let ids = (0..<Int32(mask.count)).filter { mask.contains($0) }
      guard let id = ids.randomElement(using: &random) else { return (tokens, false) }
      guard matcher.accept(id) else { return (tokens, false) }
      if grammar.vocabulary.endTokens.contains(id) { return (tokens, true) }
      tokens.append(id)
    }
    return (tokens, matcher.canEnd)
  }

  static func text(_ tokens: [Int32]) -> [UInt8] { tokens.flatMap { SmallVocabulary.bytes[Int($0)] } }

  @Test func `a mask is what each token alone is accepted as`() throws {
    var random = SeededGenerator(seed: 11)
    for each in SchemaTests.cases {
      let grammar = try CompiledGrammar(schema: each.schema)
      for _ in 0..<4 {
        var matcher = GrammarMatcher(grammar)
        for _ in 0..<24 {
          let mask = matcher.allowed(remaining: 1_000_000)
          for id in 0..<Int32(mask.count) {
            var copy = matcher
            verify(copy.accept(id) == mask.contains(id), "\(each.schema): token \(id)")
          }
          let ids = (0..<Int32(mask.count)).filter { mask.contains($0) && $0 != SmallVocabulary.end }
          guard let id = ids.randomElement(using: &random), matcher.accept(id) else { break }
        }
      }
    }
  }

  @Test func `random answers are valid at every limit that suffices`() throws {
    var random = SeededGenerator(seed: 12)
    for each in SchemaTests.cases {
      let grammar = try CompiledGrammar(schema: each.schema)
      let validator = SmallValidator(root: try JSONValue(parsing: each.schema))
      let least = GrammarMatcher(grammar).tokensToEnd + 1
      for round in 0..<10 {
        let (tokens, isEnded) = Self.walk(grammar, limit: least + round * 3, &random)
        #expect(
          isEnded,
          "\(each.schema) with \(least + round * 3) tokens: \(String(decoding: Self.text(tokens), as: UTF8.self))"
        )
        guard isEnded, let value = try? JSONValue(parsing: Self.text(tokens)) else {
          Issue.record("\(each.schema): \(String(decoding: Self.text(tokens), as: UTF8.self)) is no JSON")
          continue
        }
        #expect(
          validator.isValid(value), "\(each.schema): \(String(decoding: Self.text(tokens), as: UTF8.self))")
      }
    }
  }

  @Test func `a copy is a snapshot`() throws {
    let grammar = try CompiledGrammar(.sequence([.literal("ab"), .choice([.literal("c"), .literal("d")])]))
    var matcher = GrammarMatcher(grammar)
    verify(matcher.accept(Int32(UInt8(ascii: "a"))))
    var copy = matcher
    verify(copy.accept(Int32(UInt8(ascii: "b"))) && copy.accept(Int32(UInt8(ascii: "d"))))
    #expect(copy.mustEnd && !matcher.canEnd)
    verify(!matcher.accept(Int32(UInt8(ascii: "d"))))
    verify(
      matcher.accept(Int32(UInt8(ascii: "b"))) && matcher.accept(Int32(UInt8(ascii: "c"))) && matcher.canEnd)
  }

  @Test func `the end comes exactly where the pattern may end`() throws {
    let grammar = try CompiledGrammar(.regex("a+"))
    var matcher = GrammarMatcher(grammar)
    verify(!matcher.canEnd && !matcher.accept(SmallVocabulary.end))
    #expect(!matcher.allowed(remaining: 9).contains(SmallVocabulary.end))
    verify(matcher.accept(Int32(UInt8(ascii: "a"))))
    #expect(matcher.canEnd && !matcher.mustEnd && matcher.allowed(remaining: 9).contains(SmallVocabulary.end))
    verify(matcher.accept(SmallVocabulary.end) && matcher.mustEnd)
    verify(!matcher.accept(Int32(UInt8(ascii: "a"))))
  }

  @Test func `a special token matches itself and never its text`() throws {
    let pattern = Pattern.sequence([
      .token(SmallVocabulary.mark), .text(excluding: ["END"]), .token(SmallVocabulary.other),
    ])
    var matcher = GrammarMatcher(try CompiledGrammar(pattern))
    verify(!matcher.accept(Int32(UInt8(ascii: "a"))) && matcher.accept(SmallVocabulary.mark))
    for byte in "E EN ENe".utf8 { verify(matcher.accept(Int32(byte))) }
    verify(matcher.accept(Int32(UInt8(ascii: "E"))) && matcher.accept(Int32(UInt8(ascii: "N"))))
    verify(!matcher.accept(Int32(UInt8(ascii: "D"))))
    verify(matcher.accept(SmallVocabulary.other) && matcher.mustEnd)
  }

  @Test func `text is whole characters`() throws {
    let grammar = try CompiledGrammar(.text(excluding: []))
    var matcher = GrammarMatcher(grammar)
    verify(matcher.canEnd && !matcher.accept(0x80) && matcher.accept(0xC3))
    verify(!matcher.canEnd && !matcher.accept(0x20) && matcher.accept(0xA9) && matcher.canEnd)
  }

  @Test func `a choice of strings and repetitions do what they say`() throws {
    let choice = try CompiledGrammar(.choice([.literal("yes"), .literal("no"), .literal("nope")]))
    #expect(choice.allows("yes") && choice.allows("no") && choice.allows("nope") && !choice.allows("nop"))
    let twice = try CompiledGrammar(.repeated(.schema(["type": "integer", "maximum": 5]), min: 2, max: 3))
    #expect(twice.allows("12") && twice.allows("123") && !twice.allows("1") && !twice.allows("6"))
    let many = try CompiledGrammar(.sequence([.repeated(.literal("ab"), min: 0, max: nil), .literal("a")]))
    #expect(many.allows("a") && many.allows("ababa") && !many.allows("abab"))
  }

  @Test func `when no limit suffices the answer is still constrained`() throws {
    let grammar = try CompiledGrammar(.literal("abcdef"))
    var matcher = GrammarMatcher(grammar)
    let mask = matcher.allowed(remaining: 2)
    #expect(mask.contains(Int32(UInt8(ascii: "a"))) && !mask.contains(Int32(UInt8(ascii: "b"))))
  }

  @Test func `two matchers of one grammar do not disturb each other`() throws {
    let grammar = try CompiledGrammar(
      schema: #"{"type": "array", "items": {"type": "string"}, "uniqueItems": true}"#)
    var first = GrammarMatcher(grammar)
    var second = GrammarMatcher(grammar)
    for byte in #"["a", ""#.utf8 { verify(first.accept(Int32(byte))) }
    for byte in #"["b", "a"]"#.utf8 { verify(second.accept(Int32(byte))) }
    verify(first.accept(Int32(UInt8(ascii: "b"))) && first.accept(0x22) && second.canEnd)
  }

  @Test func `the cache keeps the grammars that are used`() throws {
    let cache = GrammarCache(vocabulary: SmallVocabulary.shared, limit: 2)
    let first = try cache.grammar(for: .regex("a"))
    _ = try cache.grammar(for: .regex("b"))
    #expect(try cache.grammar(for: .regex("a")) === first)
    _ = try cache.grammar(for: .regex("c"))
    #expect(try cache.grammar(for: .regex("a")) === first)
    #expect(try cache.grammar(for: .literal("\u{E9}")) !== cache.grammar(for: .literal("e\u{301}")))
  }
}
