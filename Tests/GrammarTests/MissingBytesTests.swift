// Vocabularies that cannot spell every byte: what they can write of a pattern, and nothing that leads nowhere.

import JSON
import Support
import Testing

@testable import Grammar

@Suite struct MissingBytesTests {
  /// The bytes that SmolLM2-135M-Instruct has no token for.
  static let published: [UInt8] = [0x04, 0x06, 0x13, 0x14, 0x16, 0x1D, 0xF1, 0xF2]
  /// Parts of characters, letters, digits and punctuation.
  static let harsh: [UInt8] = [0x0A, 0x37, 0x62, 0x66, 0x74, 0x7E] + Array(0xA0...0xAF) + [0xC3, 0xF0]

  private static let words = Array(
    LeafMaskTests.vocabulary.trie.tokens.filter { LeafMaskTests.vocabulary.bytes(of: $0).count > 1 }.sorted()
      .prefix(500))

  /// All single bytes but some, and longer tokens, also with these bytes; a byte is its own id where it has one.
  static func vocabulary(without missing: [UInt8]) -> GrammarVocabulary {
    let texts =
      (UInt8.min...UInt8.max).map { missing.contains($0) ? [] : [$0] }
      + words.map { Array(LeafMaskTests.vocabulary.bytes(of: $0)) }
    let end = Int32(texts.count)
    return GrammarVocabulary(count: texts.count + 1, endTokens: [end]) { $0 == end ? [] : texts[Int($0)] }
  }

  static let vocabularies = [vocabulary(without: published), vocabulary(without: harsh)]
  static let whole = vocabulary(without: [])

  private func schema(_ text: String, _ vocabulary: GrammarVocabulary = vocabularies[0]) throws
    -> CompiledGrammar
  {
    try CompiledGrammar(.schema(try JSONValue(parsing: text)), vocabulary: vocabulary)
  }

  /// Whether an answer can be exactly this text, with any split into tokens of single bytes.
  private func allows(_ grammar: CompiledGrammar, _ text: String) -> Bool {
    var matcher = GrammarMatcher(grammar)
    return text.utf8.allSatisfy { matcher.accept(Int32($0)) } && matcher.canEnd
  }

  private func refusal(_ pattern: Pattern, _ vocabulary: GrammarVocabulary = vocabularies[0]) -> String? {
    do {
      _ = try CompiledGrammar(pattern, vocabulary: vocabulary)
      return nil
    } catch {
      return error.description
    }
  }

  @Test func `a vocabulary knows the bytes of text that no token has alone`() {
    #expect(Self.vocabularies[0].missingBytes == Self.published)
    #expect(Self.vocabularies[1].missingBytes == Self.harsh)
    #expect(Self.whole.missingBytes == [])
    #expect(GrammarVocabulary.nothing.missingBytes.count == 243)
    // A longer token with such a byte leads where no token goes on.
    let token = Self.words.firstIndex { LeafMaskTests.vocabulary.bytes(of: $0).contains(0x62) } ?? 0
    #expect(Self.vocabularies[1].bytes(of: Int32(256 + token)).isEmpty)
    #expect(!Self.whole.bytes(of: Int32(256 + token)).isEmpty)
  }

  @Test func `languages that no missing byte changes are shared as with every byte`() throws {
    let builder = GraphBuilder(missing: Self.published)
    for common in CommonLanguages.shared.map(\.dfa) { #expect(try builder.writable(common) === common) }
    let parts = GraphBuilder(missing: Self.harsh)
    #expect(try parts.writable(CommonLanguages.freeString.get()) !== CommonLanguages.freeString.get())
    #expect(try parts.writable(CommonLanguages.freeNumber.get()) === CommonLanguages.freeNumber.get())
  }

  @Test func `what cannot be spelled is left out`() throws {
    let choice = try CompiledGrammar(
      .choice([.literal("yes"), .literal("no"), .literal("\u{40000}")]), vocabulary: Self.vocabularies[0])
    #expect(allows(choice, "yes") && allows(choice, "no") && !allows(choice, "\u{40000}"))
    let list = try schema(#"{"enum":["a","\#(Self.plane)",1]}"#)
    #expect(allows(list, #""a""#) && allows(list, "1") && !allows(list, "\"\u{40000}\""))
    let members = try schema(
      #"{"type":"object","properties":{"a":{"type":"integer"},"X":{"type":"integer"}},"required":["a"],"additionalProperties":false}"#
        .replacing("X", with: "\u{40000}"))
    #expect(allows(members, #"{"a":1}"#) && !allows(members, "{\"a\":1,\"\u{40000}\":1}"))
    var matcher = GrammarMatcher(members)
    for byte in #"{"a":1"#.utf8 { verify(matcher.accept(Int32(byte))) }
    verify(!matcher.accept(0x2C), "no comma before a member that cannot be written")
    let text = try CompiledGrammar(.regex("[\u{40000}-\u{4FFFF}x]{2}"), vocabulary: Self.vocabularies[0])
    #expect(allows(text, "xx") && !allows(text, "x\u{40000}"))
    #expect(allows(try schema(#"{"type":"string"}"#), "\"\u{C0000}é\u{E0001}\""))
  }

  @Test(arguments: [
    (#"{"const":"a\#(plane)"}"#, "\"a\(plane)\""),
    (#"{"type":"object","properties":{"\#(plane)":{}},"required":["\#(plane)"]}"#, "\"\(plane)\":"),
    (
      #"{"type":"object","properties":{"a":{"properties":{"b":{"enum":["\#(plane)","\#(plane)c"]}},"required":["b"],"type":"object"}},"required":["a"]}"#,
      "\"\(plane)\""
    ),
    (#"{"type":"array","items":{"type":"string","pattern":"^x\#(plane)$"},"minItems":1}"#, "\"x\(plane)\""),
  ])
  func `a required text that cannot be written is named`(schema: String, text: String) throws {
    let words = JSONValue.string(text).text
    #expect(
      refusal(.schema(try JSONValue(parsing: schema)))
        == "nothing satisfies '': the model cannot write \(words): its vocabulary has no token for the byte 0xF1"
    )
  }

  private static let plane = "\u{40000}"

  @Test func `what has no text for any model is told as before`() throws {
    #expect(refusal(.schema(false)) == "nothing satisfies '': no text satisfies it")
    // The member that cannot be written is not why.
    let schema = #"{"type":"object","properties":{"\#(Self.plane)":{}, "a":false},"required":["a"]}"#
    #expect(refusal(.schema(try JSONValue(parsing: schema))) == "nothing satisfies '': no text satisfies it")
    #expect(
      refusal(.literal("yes"), .nothing)
        == #"nothing satisfies '': the model cannot write "yes": its vocabulary has no token for the byte 0x79"#
    )
    #expect(refusal(.literal("bat"), Self.vocabularies[1])?.contains("0x62") == true)
  }

  @Test func `items and lengths are counted among what can be written`() throws {
    let items =
      #"{"type":"array","items":{"enum":["a","c","\#(Self.plane)"]},"uniqueItems":true,"minItems":N}"#
    #expect(allows(try schema(items.replacing("N", with: "2")), #"["a","c"]"#))
    #expect(refusal(.schema(try JSONValue(parsing: items.replacing("N", with: "3")))) != nil)
    let long = String(repeating: "(abcdefghijk|\(Self.plane))", count: 60)
    let counted = #"{"type":"string","pattern":"^\#(long)$","maxLength":N}"#
    #expect(refusal(.schema(try JSONValue(parsing: counted.replacing("N", with: "659")))) != nil)
    let grammar = try schema(counted.replacing("N", with: "660"))
    #expect(allows(grammar, "\"" + String(repeating: "abcdefghijk", count: 60) + "\""))
    // A character of one byte more in a language of which the shortest text is as long.
    #expect(
      refusal(.schema(["type": "string", "pattern": .string("^(abcd|\(Self.plane))$"), "maxLength": 1]))
        != nil)
  }

  static let patterns: [Pattern] =
    [
      #"{"type":"string"}"#, #"{"type":"string","minLength":2,"maxLength":5}"#,
      #"{"type":"string","pattern":"^[^a]{0,80}$"}"#, #"{"type":"string","pattern":"b","maxLength":30}"#,
      #"{"type":"string","pattern":"^\\p{L}{1,70}$"}"#,
      #"{"enum":["ab","a b","abc",true,false,null,7,17,{"a":"é"},["\#(plane)"]]}"#,
      #"{"type":["integer","boolean","null"],"minimum":5,"maximum":80}"#,
      #"{"type":"object","properties":{"a":{"type":"integer"},"b":{},"\#(plane)":{},"é":{"type":"null"}}}"#,
      #"{"type":"object","patternProperties":{"^[bf]":{"type":"integer"},"^[ab]":{"type":"integer"}},"additionalProperties":false}"#,
      #"{"type":"array","items":{"enum":["a","ab","c","7",8]},"uniqueItems":true,"maxItems":3}"#,
      #"{"type":"object","minProperties":1,"additionalProperties":{"type":"boolean"}}"#,
      #"{"format":"date","type":"string"}"#,
    ].map { .schema((try? JSONValue(parsing: $0)) ?? false) } + [
      .choice([.literal("yes"), .literal("no"), .literal("\(plane)"), .literal("maybe")]),
      .regex("(?:[a-z]+ ?|\(plane)|é)*[.~!]"),
      .gbnf("root ::= \"x\" (a | b)* \"y\"\na ::= \"at\"\nb ::= \"cd\" | [é-ÿ]"),
      .sequence([.text(excluding: ["c"]), .literal("c"), .quoted(.regex("[\\n\"a\(plane)]*"))]),
    ]

  /// Follows texts with every byte there is, in a grammar from which nothing is left out, and asks what can be completed with
  /// the bytes of a vocabulary.
  private struct SlowWalk {
    private var builder: MaskBuilder
    private let bytes: [Int32]
    private var isCompletable: [Int32: Bool] = [:]
    private(set) var isCut = false

    init(_ pattern: Pattern, _ missing: [UInt8]) throws {
      let grammar = try CompiledGrammar(pattern, vocabulary: MissingBytesTests.whole)
      builder = grammar.state().copy
      bytes = (UInt8.min...UInt8.max).filter { !missing.contains($0) }.map { Int32($0) }
    }

    mutating func start() -> Int32 { builder.start() }

    func canEnd(_ set: Int32) -> Bool { builder.canEnd(set) }

    mutating func step(_ set: Int32, _ text: some Sequence<UInt8>) -> Int32 {
      var set = set
      for byte in text where set != Recogniser.empty { set = builder.step(set, token: Int32(byte)) }
      return set
    }

    /// The cheapest sets first, as they would be with every byte.
    mutating func completes(_ set: Int32) -> Bool {
      if set == Recogniser.empty { return false }
      if let known = isCompletable[set] { return known }
      var seen: Set<Int32> = [set]
      var open = [set]
      while let place = open.indices.min(by: { builder.cost(open[$0]) < builder.cost(open[$1]) }) {
        let at = open.remove(at: place)
        if builder.canEnd(at) || isCompletable[at] == true {
          isCompletable[set] = true
          return true
        }
        for byte in bytes {
          let next = builder.step(at, token: byte)
          if next != Recogniser.empty, isCompletable[next] != false, seen.insert(next).inserted {
            open.append(next)
          }
        }
        if seen.count > 3000 { isCut = true }
        guard !isCut else { return false }
      }
      for dead in seen { isCompletable[dead] = false }
      return false
    }
  }

  @Test(arguments: 0..<2, patterns.indices)
  func `a mask has the tokens after which an answer can be completed with the bytes there are`(
    vocabulary: Int, pattern: Int
  ) throws {
    let (vocabulary, pattern) = (Self.vocabularies[vocabulary], Self.patterns[pattern])
    var slow = try SlowWalk(pattern, vocabulary.missingBytes)
    let first = slow.start()
    guard slow.completes(first) else {
      #expect(refusal(pattern, vocabulary) != nil)
      return
    }
    let grammar = try CompiledGrammar(pattern, vocabulary: vocabulary)
    var random = SeededGenerator(seed: UInt64(vocabulary.missingBytes.count))
    for round in 0..<2 {
      var (matcher, set) = (GrammarMatcher(grammar), first)
      for step in 0..<8 {
        let mask = matcher.allowed(remaining: 1_000_000)
        var wrong: [Int32] = []
        for id in 0..<Int32(mask.count - 1) {
          let text = vocabulary.bytes(of: id)
          let isAllowed = !text.isEmpty && slow.completes(slow.step(set, text))
          if isAllowed != mask.contains(id) { wrong.append(id) }
        }
        #expect(wrong.isEmpty, "round \(round), step \(step): tokens \(wrong.prefix(5))")
        #expect(!slow.isCut)
        let canEnd = matcher.canEnd
        #expect(canEnd == slow.canEnd(set) && canEnd == mask.contains(Int32(mask.count - 1)))
        // What is promised near a limit can be kept.
        let tight = matcher.allowed(remaining: matcher.tokensToEnd + 1)
        #expect(!tight.isEmpty, "round \(round), step \(step)")
        let ids = (0..<Int32(mask.count - 1)).filter { mask.contains($0) }
        guard let id = ids.randomElement(using: &random) else { break }
        verify(matcher.accept(id))
        set = slow.step(set, vocabulary.bytes(of: id))
      }
    }
  }
}
