// Masks of strings against what each token alone does, with a vocabulary of many plain tokens.

import JSON
import Support
import Testing

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
    var random = SeededGenerator(seed: UInt64(index))
    for _ in 0..<3 {
      var matcher = GrammarMatcher(grammar)
      for step in 0..<12 {
        let mask = matcher.allowed(remaining: 1_000_000)
        let limit = Int.random(in: 3...40, using: &random)
        let tight = matcher.allowed(remaining: limit)
        var wrong: [Int32] = []
        var late: [Int32] = []
        var inTime = 0
        for id in 0..<Int32(mask.count) {
          var copy = matcher
          let isAccepted = copy.accept(id)
          if isAccepted != mask.contains(id) { wrong.append(id) }
          guard isAccepted else { continue }
          // One token for the end, one for this.
          let fits = copy.tokensToEnd <= limit - 2
          inTime += fits ? 1 : 0
          if fits != tight.contains(id), !grammar.vocabulary.endTokens.contains(id) { late.append(id) }
        }
        #expect(wrong.isEmpty, "\(name), step \(step): tokens \(wrong.prefix(5))")
        #expect(
          late.isEmpty || inTime == 0, "\(name), step \(step), limit \(limit): tokens \(late.prefix(5))")
        let ids = (0..<Int32(mask.count)).filter {
          mask.contains($0) && !grammar.vocabulary.endTokens.contains($0)
        }
        // Long tokens now and then, quotes now and then.
        guard let id = ids.randomElement(using: &random), matcher.accept(id) else { break }
      }
    }
  }

  private static func tokens(_ set: TokenSet) -> TokenMask {
    var mask = TokenMask(count: vocabulary.count)
    set.add(to: &mask)
    return mask
  }

  @Test func `masks of strings and keys without a few words are what a walk over all tokens finds`() throws {
    let any = try CommonLanguages.canonicalString.get()
    let words = [
      ["ab"], ["ab", "abc", "a"], ["XYZ", "é日", "ab c", "", "abcabc"], ["ab", "zz"],
      ["12", "a\"", "\n\t", "ab"],
    ]
    var known: [[Int32]: LeafMask] = [:]
    var shared = 0
    for words in words {
      let rest = try any.subtracting(ByteDFA.texts(words.map { JSONText.quoted($0) }))
      for dfa in [rest, try rest.keyed()] {
        let kin = try #require(KindredStates(dfa))
        var found = 0
        for state in 0..<Int32(dfa.stateCount) where dfa.continues[Int(state)] {
          let signature = try #require(kin.signature(at: state))
          guard let mask = kin.mask(of: state, Self.vocabulary) else { continue }
          found += 1
          let slow = LeafMask.make(dfa, state: state, reach: nil, plain: nil, vocabulary: Self.vocabulary) {
            LeafExits($0, vocabulary: Self.vocabulary)
          }
          #expect(Self.tokens(mask.inside) == Self.tokens(slow.inside), "\(words), state \(state)")
          #expect(mask.dearest >= slow.dearest)
          let (leaving, expected) = (mask.leaving, slow.leaving)
          #expect(leaving.exits == expected.exits && leaving.nodes == expected.nodes)
          #expect(leaving.bytes == expected.bytes && leaving.starts == expected.starts)
          #expect(Self.tokens(leaving.ending) == Self.tokens(expected.ending))
          if let other = known.updateValue(mask, forKey: signature) {
            shared += 1
            #expect(Self.tokens(other.inside) == Self.tokens(mask.inside) && other.dearest == mask.dearest)
            #expect(other.leaving.exits == leaving.exits)
          }
        }
        #expect(found > 1, "\(words)")
      }
    }
    #expect(shared > 0)
    #expect(KindredStates(try NumberLanguage.integers.get()) == nil)
  }

  @Test func `keys without hundreds of words are found from all keys, unless too many texts differ`() throws {
    // Words with common beginnings and common endings are no tree.
    let (beginnings, endings) = (Array("abcdefgh"), ["a", "_id", "XYZ"])
    let words: [String] = (0..<600).map { "\(beginnings[$0 % 8])b\($0)\(endings[$0 % 3])" }
    let all = try CommonLanguages.key.get()
    let dfa = try #require(try all.without(beginnings: words.map { JSONText.quoted($0) }))
    let kin = try #require(KindredStates(dfa))
    let mask = try #require(kin.mask(of: 0, Self.vocabulary))
    let slow = LeafMask.make(dfa, state: 0, reach: nil, plain: nil, vocabulary: Self.vocabulary) {
      LeafExits($0, vocabulary: Self.vocabulary)
    }
    #expect(Self.tokens(mask.inside) == Self.tokens(slow.inside))
    #expect(mask.leaving.exits == slow.leaving.exits && mask.dearest >= slow.dearest)
    // Every letter of a counted text leads elsewhere.
    let counted = try StringLanguage.bounded(CommonLanguages.canonicalString.get(), min: 1, max: 200)
    if let kin = KindredStates(counted) { #expect(kin.mask(of: 0, Self.vocabulary) == nil) }
  }
}
