// Strings whose characters are counted beside an automaton, against automata that have the count in their states.

import Support
import Testing
import Tokenizers

@testable import Grammar

@Suite struct CountedStringTests {
  /// What two ways to count say of one text, step by step.
  private struct Pair {
    var counted: MaskBuilder
    var slow: MaskBuilder

    init(_ expression: String, _ min: Int, _ max: Int) throws {
      let dfa = try CountedStringTests.strings(expression)
      let (same, counts) = try #require(try StringLanguage.counted(dfa))
      counted = try Self.builder { builder throws(GrammarError) in
        try builder.leaf(same, CharacterBounds(min: min, max: max, counts: counts))
      }
      slow = try Self.builder { builder throws(GrammarError) in
        try builder.leaf(StringLanguage.bounded(dfa, min: min, max: max))
      }
    }

    private static func builder(
      _ root: (inout GraphBuilder) throws(GrammarError) -> Int32
    ) throws -> MaskBuilder {
      var builder = GraphBuilder()
      let marks = try builder.punctuation()
      let node = try root(&builder)
      let graph = try GrammarGraph(builder, root: node, marks: marks)
      return MaskBuilder(
        graph: graph, vocabulary: LeafMaskTests.vocabulary, leaves: LeafCache(), memory: GrammarMemory())
    }
  }

  private static func strings(_ expression: String) throws -> ByteDFA {
    try ByteNFA.automaton(RegexParser.parse(expression), spelling: .json, anywhere: true)
      .wrapped([0x22], [0x22]).minimized()
  }

  private static func tokens(_ mask: TokenMask) -> [Int32] {
    (0..<Int32(mask.count)).filter { mask.contains($0) }
  }

  private static let expressions = [
    #"^(?:\S+\s+){0,9}\S+$"#, "^[a-c]+$", "x", "^[^0-9]*$", "^[a-zA-Z ]{2,90}\\.?$", #"^[\\n]*$"#, "^é*日?$",
    "^(?:a+[A-Z]?){3,}!$", "^[ab]{4,}(?:c|é)$", "^.*\u{1}$",
  ]
  private static let bounds = [(0, 5), (1, 12), (3, 40), (7, 7), (9, Int.max), (45, 400)]

  @Test(arguments: expressions)
  func `masks are those of automata with the count in their states`(_ expression: String) throws {
    var random = SeededGenerator(seed: 8)
    var compared = 0
    for (min, max) in Self.bounds {
      // Some bounds leave no text.
      guard var pair = try? Pair(expression, min, max) else { continue }
      compared += 1
      for _ in 0..<4 {
        var (set, twin) = (pair.counted.start(), pair.slow.start())
        for step in 0..<14 {
          let mask = pair.counted.mask(set, remaining: .max)
          #expect(mask == pair.slow.mask(twin, remaining: .max), "\(expression) \(min) \(max), step \(step)")
          #expect(pair.counted.cost(set) >= pair.slow.cost(twin))
          #expect(pair.counted.canEnd(set) == pair.slow.canEnd(twin))
          guard let token = Self.tokens(mask).randomElement(using: &random) else { break }
          (set, twin) = (pair.counted.step(set, token: token), pair.slow.step(twin, token: token))
        }
      }
    }
    #expect(compared >= 4)
  }

  @Test(arguments: expressions)
  func `near the limit there is always a token after which the answer ends in time`(_ expression: String)
    throws
  {
    var random = SeededGenerator(seed: 9)
    let vocabulary = LeafMaskTests.vocabulary
    for (min, max) in Self.bounds {
      guard var pair = try? Pair(expression, min, max) else { continue }
      for begun in 0..<8 {
        var set = pair.counted.start()
        for _ in 0..<begun {
          let mask = pair.counted.mask(set, remaining: .max)
          let inside = Self.tokens(mask).filter { !vocabulary.endTokens.contains($0) }
          guard let token = inside.randomElement(using: &random) else { break }
          set = pair.counted.step(set, token: token)
        }
        // One token for the end, and no more than what completing takes.
        var remaining = Int(pair.counted.cost(set)) + 2
        while !pair.counted.canEnd(set) {
          let mask = pair.counted.mask(set, remaining: remaining)
          let token = try #require(
            Self.tokens(mask).randomElement(using: &random), "\(expression) \(min) \(max), \(remaining) left")
          set = pair.counted.step(set, token: token)
          remaining -= 1
          try #require(remaining > 0 && set != Recogniser.empty, "\(expression) \(min) \(max)")
        }
      }
    }
  }

  @Test func `lengths with gaps are not counted beside an automaton`() throws {
    for expression in ["^(?:ab)*$", "^(?:abc|d{5})$", "^a?(?:...)+$"] {
      #expect(try StringLanguage.counted(Self.strings(expression)) == nil, "\(expression)")
    }
    // A bound that all texts keep.
    let (dfa, counts) = try #require(try StringLanguage.counted(Self.strings("^[a-z]{2,9}$")))
    #expect(counts.allow(0, after: 0, min: 9, max: 20) && !counts.allow(0, after: 0, min: 10, max: 20))
    #expect(counts.allow(0, after: 0, min: 0, max: 2) && !counts.allow(0, after: 0, min: 0, max: 1))
    #expect(counts.cost(0, missing: 5) == 7 && dfa.cost[0] == 4)
  }

  @Test func `a state that stands for several of all strings is told apart first`() throws {
    // After `"\u00` and after `"`, the same may follow.
    let dfa = try ByteDFA.texts(["\"1f\"", "\"\\u001f\""].map { Array($0.utf8) }).minimized()
    let all = try CommonLanguages.canonicalString.get()
    #expect(CharacterCells(dfa, within: all) == nil)
    let (same, counts) = try #require(try StringLanguage.counted(dfa))
    #expect(same.isEquivalent(0, dfa, 0) && same.stateCount > dfa.stateCount)
    #expect(counts.allow(0, after: 0, min: 1, max: 1) && !counts.allow(0, after: 0, min: 3, max: 3))
  }

  @Test func `words and characters may both be counted, however many they are`() throws {
    let schema = #"{"type":"string","pattern":"^(?:\\S+\\s+){0,99}\\S+$","minLength":1,"maxLength":5000}"#
    let grammar = try CompiledGrammar(schema: schema)
    func text(_ words: Int, _ length: Int) -> String {
      let end = String(repeating: "a", count: length - 2 * words + 2)
      return "\"" + String(repeating: "b ", count: words - 1) + end + "\""
    }
    #expect(
      grammar.allows(text(100, 5000)) && grammar.allows(text(1, 5000)) && grammar.allows(text(100, 300)))
    #expect(!grammar.allows(text(101, 4000)) && !grammar.allows(text(100, 5001)) && !grammar.allows("\"\""))
    #expect(throws: GrammarError.self) {
      try CompiledGrammar(
        schema: #"{"type":"string","pattern":"^.{9999}(?:\\S+\\s+)*\\S$","maxLength":5000}"#)
    }
  }
}
