// Masks of strings against what each token alone does, with a vocabulary of many plain tokens.

import JSON
import Support
import Testing
import Tokenizers

@testable import Grammar

@Suite struct LeafMaskTests {
  /// All bytes, and words of one to thirty characters of a few kinds, some with quotes, breaks or halves of characters.
  static let vocabulary: GrammarVocabulary = {
    var random = SeededGenerator(seed: 5)
    let kinds = [
      "abcdefgh", "abcXYZ", "abc 12", "ABC", "0123456789", "ab ,.-_", "é日😀a", "\u{2028}ab", "ab\"", "x\n\t",
      "a\\n\"",
      "\": ,}",
    ].map(Array.init)
    var tokens: [[UInt8]] = (0..<256).map { [UInt8($0)] }
    for _ in 0..<2500 {
      let kind = kinds.randomElement(using: &random) ?? ["a"]
      let count = Int.random(in: 1...(Bool.random(using: &random) ? 5 : 30), using: &random)
      var bytes = Array(String((0..<count).map { _ in kind.randomElement(using: &random) ?? "a" }).utf8)
      if Int.random(in: 0..<20, using: &random) == 0 { bytes.removeLast() }
      if !bytes.isEmpty, Int.random(in: 0..<20, using: &random) == 0 { bytes.removeFirst() }
      if !bytes.isEmpty { tokens.append(bytes) }
    }
    let end = Int32(tokens.count)
    let all = tokens + [[]]
    return GrammarVocabulary(count: all.count, endTokens: [end]) { all[Int($0)] }
  }()

  /// Objects of which any of several members must be there, or of a kind if it is: two to the third alternatives.
  private static let openAlternatives: String = {
    let parts = ["ab", "XYZ", "é"].map {
      #"{"properties":{"\#($0)":{"type":"string"}},"anyOf":[{"required":["\#($0)c"]},{"properties":{"\#($0)1":{"type":"integer"}}}]}"#
    }
    return #"{"type":"object","allOf":[\#(parts.joined(separator: ","))]}"#
  }()

  static let schemas =
    [
      #"{"type":"string"}"#, #"{"type":"string","maxLength":9}"#,
      #"{"type":"string","minLength":4,"maxLength":20}"#,
      #"{"type":"string","minLength":40}"#, #"{"pattern":"abc","type":"string"}"#,
      #"{"pattern":"^.{3,30}$","type":"string"}"#, #"{"pattern":"^[^0-9]*$","type":"string"}"#,
      #"{"pattern":"^[a-z]{1,12}$","type":"string"}"#, #"{"pattern":"^\\w+$","type":"string"}"#,
      #"{"pattern":"^[A-Z][a-z]+ ?$","type":"string"}"#, #"{"pattern":"^(?!abc).*$","type":"string"}"#,
      #"{"pattern":"^[A-Za-z ,.]{5,}$","type":"string","maxLength":40}"#,
      #"{"pattern":"^\\p{L}*$","type":"string"}"#,
      #"{"type":["string","null"],"enum":["abc","ab c",null]}"#,
      #"{"not":{"enum":["abc","ab"]},"type":"string"}"#,
      #"{"type":"array","items":{"type":"string","pattern":"a.b"},"uniqueItems":true}"#,
      #"{"type":"array","items":{"type":"object","properties":{"ab":{"pattern":"^[ab]+$","type":"string"},"abc":{}}},"uniqueItems":true}"#,
      #"{"type":"object","properties":{"ab":{}},"minProperties":4,"additionalProperties":{"type":"integer"}}"#,
      #"{"type":"object","properties":{"ab":{"type":"integer"},"abc":{}},"required":["abc"]}"#,
      #"{"type":"object","properties":{"ab":{},"abc":{},"XYZ":{},"é日":{},"":{}}}"#,
      #"{"anyOf":[{"required":["ab"],"properties":{"abc":{}}},{"required":["abcd"]}],"type":"object"}"#,
      #"{"pattern":"^.{3,700}$","type":"string"}"#, #"{"pattern":"^[a-z ]{1,1500}$","type":"string"}"#,
      #"{"type":"object","patternProperties":{"^a":{"type":"string","minLength":3}},"additionalProperties":false}"#,
      #"{"type":"object","patternProperties":{"a.*b":{"type":"integer"},"[0-9]{2,}":{"type":"boolean"}}}"#,
      #"{"type":"object","patternProperties":{"ab_(c|de|fgh)":{},"ab-([a-h]+)":{"type":"null"},"ab[a-h]+[0-9]+":{"type":"string"}}}"#,
      #"{"type":"object","patternProperties":{"a*":{"type":"integer"},"aaa*":{"maximum":20},"c":false}}"#,
      #"{"type":"object","propertyNames":{"maxLength":5},"patternProperties":{"^[a-c]{2,}$":{"const":1}}}"#,
      openAlternatives,
    ].map { schema in (schema, (try? JSONValue(parsing: schema)).map(Pattern.schema)) } + [
      ("text", .sequence([.text(excluding: ["abc"]), .literal("abc"), .regex("[a-z ]*[0-9]")])),
      ("regex", .regex(#"(?:"[a-z]*"|[a-zé]+ ?)*\n"#)),
      ("lark", .lark("start: WORD \",\" WORD\nWORD: /[a-zA-Z]{2,8}/")),
    ]

  @Test(arguments: schemas.indices)
  func `a mask has the tokens that are accepted, and near the limit those that can be completed`(_ index: Int)
    throws
  {
    let (name, pattern) = Self.schemas[index]
    let grammar = try CompiledGrammar(try #require(pattern), vocabulary: Self.vocabulary)
    try Self.compare(grammar, name, answers: 3, steps: 12, seed: UInt64(index))
  }

  /// Random answers, with masks at each step that are those of the whole walk.
  static func compare(_ grammar: CompiledGrammar, _ name: String, answers: Int, steps: Int, seed: UInt64)
    throws
  {
    var random = SeededGenerator(seed: seed)
    var builder = grammar.state().copy
    let ends = grammar.vocabulary.endTokens
    for _ in 0..<answers {
      var set = builder.start()
      for step in 0..<steps {
        let mask = builder.mask(set, remaining: 1_000_000)
        let whole = WholeWalk.mask(set, &builder)
        #expect(mask == whole, "\(name), step \(step): \(Self.differences(mask, whole))")
        // One token for the end, one for this.
        let remaining = Int.random(in: 3...40, using: &random)
        let tight = WholeWalk.mask(set, limit: Int32(remaining - 2), &builder)
        if (0..<Int32(tight.count)).contains(where: { tight.contains($0) && !ends.contains($0) }) {
          let found = builder.mask(set, remaining: remaining)
          #expect(
            found == tight, "\(name), step \(step), \(remaining) left: \(Self.differences(found, tight))")
        }
        let ids = (0..<Int32(mask.count)).filter { mask.contains($0) && !ends.contains($0) }
        // Long tokens now and then, quotes now and then.
        guard let id = ids.randomElement(using: &random) else { break }
        set = builder.step(set, token: id)
        try #require(set != Recogniser.empty)
      }
    }
  }

  private static func differences(_ a: TokenMask, _ b: TokenMask) -> [Int32] {
    Array((0..<Int32(a.count)).filter { a.contains($0) != b.contains($0) }.prefix(5))
  }

  /// A mask of a leaf is what the whole walk finds; only its largest cost may be more.
  static func expect(_ mask: LeafMask, is whole: LeafMask, _ vocabulary: GrammarVocabulary, _ words: String) {
    let count = vocabulary.count
    #expect(mask.inside.mask(count: count) == whole.inside.mask(count: count), "\(words)")
    #expect(mask.maxCost >= whole.maxCost, "\(words)")
    let (leaving, expected) = (mask.leaving, whole.leaving)
    #expect(leaving.exits == expected.exits && leaving.nodes == expected.nodes, "\(words)")
    #expect(leaving.bytes == expected.bytes && leaving.starts == expected.starts, "\(words)")
    #expect(leaving.ending.mask(count: count) == expected.ending.mask(count: count), "\(words)")
  }

  @Test func `masks of strings and keys without a few words are those of the whole walk`() throws {
    let any = try CommonLanguages.canonicalString.get()
    let words = [
      ["ab"], ["ab", "abc", "a"], ["XYZ", "é日", "ab c", "", "abcabc"], ["ab", "zz"],
      ["12", "a\"", "\n\t", "ab"],
    ]
    for words in words {
      let rest = try any.subtracting(ByteDFA.texts(words.map { JSONText.quoted($0) }))
      for dfa in [rest, try rest.keyed()] {
        let delta = try #require(AutomatonDelta(dfa))
        var found = 0
        for state in 0..<Int32(dfa.stateCount) where dfa.continues[Int(state)] {
          guard let (mask, _) = delta.mask(of: state, Self.vocabulary) else { continue }
          found += 1
          Self.expect(
            mask, is: WholeWalk.leaf(dfa, state: state, Self.vocabulary), Self.vocabulary,
            "\(words), state \(state)")
        }
        #expect(found > 1, "\(words)")
      }
    }
    #expect(AutomatonDelta(try NumberLanguage.integers.get()) == nil)
  }

  @Test func `keys without hundreds of words are found from all keys, unless too many texts differ`() throws {
    // Words with common beginnings and common endings are no tree.
    let (beginnings, endings) = (Array("abcdefgh"), ["a", "_id", "XYZ"])
    let words: [String] = (0..<600).map { "\(beginnings[$0 % 8])b\($0)\(endings[$0 % 3])" }
    let all = try CommonLanguages.key.get()
    let dfa = try #require(try all.without(beginnings: words.map { JSONText.quoted($0) }))
    let delta = try #require(AutomatonDelta(dfa))
    let (mask, isShared) = try #require(delta.mask(of: 0, Self.vocabulary))
    #expect(!isShared)
    Self.expect(mask, is: WholeWalk.leaf(dfa, state: 0, Self.vocabulary), Self.vocabulary, "600 words")
    // Every letter of a counted text leads elsewhere.
    let counted = try StringLanguage.bounded(CommonLanguages.canonicalString.get(), min: 1, max: 200)
    if let delta = AutomatonDelta(counted) { #expect(delta.mask(of: 0, Self.vocabulary) == nil) }
  }

  @Test func `states that all grammars share have the masks of the whole walk`() throws {
    var compared = 0
    for (leaf, common) in CommonLanguages.shared.enumerated() {
      for state in common.states {
        let mask = try #require(Self.vocabulary.mask(SharedState(leaf: leaf, state: state)))
        Self.expect(
          mask, is: WholeWalk.leaf(common.dfa, state: state, Self.vocabulary), Self.vocabulary,
          "language \(leaf), state \(state)")
        compared += 1
      }
    }
    #expect(compared > 10)
  }

  @Test func `strings whose characters are counted have the masks of the whole walk`() throws {
    let (string, counts) = (try CommonLanguages.freeString.get(), try CharacterCounts.free.get())
    for state in 0..<Int32(string.stateCount) where string.continues[Int(state)] {
      let reach = Self.vocabulary.reach(string, counts, state)
      for (missing, left) in [(0, 0), (0, 1), (0, 7), (0, 19), (3, 9), (6, 40)] {
        let mask = reach.mask(missing: missing, left: left, vocabulary: Self.vocabulary).mask
        let room = CharacterRoom(missing: missing, left: left, counts: counts)
        Self.expect(
          mask, is: WholeWalk.leaf(string, state: state, room: room, Self.vocabulary), Self.vocabulary,
          "state \(state), \(missing) to \(left)")
      }
    }
  }

  @Test(arguments: [
    "^.{3,30}$", "^[^0-9]*$", "^[a-z]{1,12}$", #"^\w+$"#, "^[A-Z][a-z]+ ?$", "ab.*XYZ", "^[a-z ]{1,1500}$",
  ])
  func `slices and what lies below a node have the masks of the whole walk`(_ expression: String) throws {
    let dfa = try ByteNFA.automaton(RegexParser.parse(expression), spelling: .json, anywhere: true)
      .wrapped([0x22], [0x22]).minimized()
    let reach = SliceReach(dfa)
    for state in stride(from: 0, to: Int32(dfa.stateCount), by: max(1, dfa.stateCount / 12))
    where dfa.continues[Int(state)] {
      let mask = LeafMask.make(dfa, state: state, reach: reach, vocabulary: Self.vocabulary) {
        LeafExits($0, vocabulary: Self.vocabulary)
      }
      Self.expect(
        mask, is: WholeWalk.leaf(dfa, state: state, Self.vocabulary), Self.vocabulary,
        "\(expression), state \(state)")
    }
  }
}
