// What masks cost with a real vocabulary; prints, and asserts nothing about time.

import JSON
import Support
import Testing
import Tokenizers

@testable import Grammar

@Suite struct SpeedTests {
  static let folder = TestData.shared.map { $0 + "/tokenizers/" }

  static func vocabulary(_ name: String, end: String) throws -> (Tokenizer, GrammarVocabulary) {
    let bytes = try TestData.bytes((folder ?? "") + name + "/tokenizer.json")
    let tokenizer = try Tokenizer(tokenizerJSON: bytes)
    return (
      tokenizer,
      GrammarVocabulary(tokenizer: tokenizer, endTokens: Set([tokenizer.id(of: end)].compactMap { $0 }))
    )
  }

  @Test(
    .enabled(if: folder != nil, "no ../shared/data"),
    arguments: [
      ("qwen3", "<|im_end|>"), ("gemma-4", "<eos>"), ("smollm2", "<|im_end|>"),
      ("gpt-2", "<|endoftext|>"),
    ])
  func `with a real vocabulary a mask is what each token alone is accepted as`(_ name: String, _ end: String)
    throws
  {
    let (tokenizer, vocabulary) = try Self.vocabulary(name, end: end)
    let schema =
      #"{"type":"object","properties":{"name":{"type":"string","maxLength":20},"tags":{"type":"array","items":{"type":"string","pattern":"^[a-z]+$"},"uniqueItems":true}},"required":["name"]}"#
    let grammar = try CompiledGrammar(.schema(try JSONValue(parsing: schema)), vocabulary: vocabulary)
    var builder = grammar.state().copy
    let texts = ["", #"{"na"#, #"{"name": "Jo"#]
    // Texts that must differ take most of the time.
    for text in texts + (name == "qwen3" ? [#"{"name": "Jo", "tags": ["a", "b"#] : []) {
      var set = builder.start()
      for token in tokenizer.encode(text, addSpecialTokens: false) {
        set = builder.step(set, token: token)
        #expect(set != Recogniser.empty, "\(text)")
      }
      let mask = builder.mask(set, remaining: 100_000)
      #expect(mask == WholeWalk.mask(set, &builder), "after \(text)")
    }
    try LeafMaskTests.compare(grammar, name, answers: 1, steps: 2, seed: 4)
    // A string from between two of its characters, as all grammars share it.
    let (string, place) = (try CommonLanguages.freeString.get(), GrammarLeaf.betweenCharacters)
    let shared = try #require(SharedState(string, place).flatMap { vocabulary.mask($0) })
    LeafMaskTests.expect(shared, is: WholeWalk.leaf(string, state: place, vocabulary), vocabulary, name)
  }

  @Test(.enabled(if: TestData.isMeasuring && folder != nil, "only when asked"))
  func `what masks cost`() throws {
    let (tokenizer, vocabulary) = try Self.vocabulary("qwen3", end: "<|im_end|>")
    let built = ContinuousClock.now
    _ = GrammarVocabulary(tokenizer: tokenizer, endTokens: [])
    print("vocabulary: \(Self.milliseconds(since: built)) ms, \(vocabulary.trie.count) nodes")
    var all: [Double] = []
    for (name, schema, text) in Self.samples {
      let start = ContinuousClock.now
      let grammar = try CompiledGrammar(.schema(try JSONValue(parsing: schema)), vocabulary: vocabulary)
      let compiled = Self.milliseconds(since: start)
      for visit in 1...2 {
        var times: [Double] = []
        var matcher = GrammarMatcher(grammar)
        let tokens = tokenizer.encode(text, addSpecialTokens: false)
        for token in tokens {
          let start = ContinuousClock.now
          _ = matcher.allowed(remaining: 4000)
          guard matcher.accept(token) else {
            Issue.record("\(name): \(tokenizer.token(of: token) ?? "") is not allowed")
            break
          }
          times.append(Self.milliseconds(since: start))
        }
        times.sort()
        if visit == 1 { all += times }
        print(
          "\(name) visit \(visit): compile \(compiled) ms, \(times.count) tokens, median \(times[times.count / 2]) ms, 90 % \(times[times.count * 9 / 10]) ms, max \(times.last ?? 0) ms"
        )
      }
    }
    all.sort()
    print(
      "all first visits: median \(all[all.count / 2]) ms, 99 % \(all[all.count * 99 / 100]) ms, max \(all.last ?? 0) ms"
    )
  }

  static func milliseconds(since start: ContinuousClock.Instant) -> Double {
    let (seconds, attoseconds) = (ContinuousClock.now - start).components
    return Double(seconds) * 1e3 + Double(attoseconds) * 1e-15
  }

  static let samples: [(String, String, String)] = [
    (
      "object", #"{"type":"object"}"#,
      #"{"name": "The quick brown fox", "values": [1, 2.5, null], "inner": {"a": true, "text": "jumps over\nthe lazy dog"}}"#
    ),
    (
      "person",
      #"{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":0,"maximum":150},"email":{"type":"string","format":"email"},"tags":{"type":"array","items":{"type":"string"}}},"required":["name","age","email","tags"],"additionalProperties":false}"#,
      #"{"name": "Ada Lovelace", "age": 36, "email": "ada.lovelace@example.org", "tags": ["mathematics", "engines", "poetry"]}"#
    ),
    (
      "open",
      #"{"type":"object","properties":{"name":{"type":"string","maxLength":40},"kind":{"enum":["small","large"]},"id":{"type":"string","pattern":"^[a-z]{2}-[0-9]{4}$"}},"required":["name"]}"#,
      #"{"name": "A name of some length", "kind": "large", "id": "ab-1234", "anything": {"more": ["x", 1]}}"#
    ),
    (
      "unique",
      #"{"type":"object","properties":{"tags":{"type":"array","items":{"type":"string"},"uniqueItems":true}},"required":["tags"]}"#,
      #"{"tags": ["mathematics", "engines", "poetry", "mathematical engines"]}"#
    ),
    (
      "union",
      #"{"anyOf":[{"type":"object","properties":{"type":{"const":"move"},"x":{"type":"number"},"y":{"type":"number"}},"required":["type","x","y"],"additionalProperties":false},{"type":"object","properties":{"type":{"const":"say"},"text":{"type":"string"},"loud":{"type":["boolean","null"]}},"required":["type","text","loud"],"additionalProperties":false}]}"#,
      #"{"type": "say", "text": "Hello there, how are you today?", "loud": null}"#
    ),
  ]
}
