// Ids, decodings and streaming pieces against the reference library: own fixtures always, real tokenizers if present.

import JSON
import Support
import Testing

@testable import Tokenizers

/// Files of one tokenizer with its cases.
struct VectorSet: CustomTestStringConvertible, Sendable {
  let name: String
  let tokenizer: String
  let cases: String

  var testDescription: String { name }

  func load() throws -> (tokenizer: Tokenizer, cases: [JSONValue]) {
    let cases = try JSONValue(parsing: TestData.bytes(cases)).arrayValue ?? []
    #expect(cases.count > 40)
    return (try Tokenizer(tokenizerJSON: TestData.bytes(tokenizer)), cases)
  }

  static let fixtures = [
    "bert", "gemma", "gpt2", "llama3", "mistral", "o200k", "phi35", "qwen3", "qwen35", "roberta", "smollm2",
    "tekken",
    "unigram",
  ].map { name in
    let path = TestData.fixtures + "/tokenizers/" + name
    return VectorSet(name: name, tokenizer: path + ".json", cases: path + ".cases.json")
  }

  static let real = [
    "gemma-4", "gpt-2", "minilm-bert", "mistral-spm-v3", "mistral-tekken-240911", "o200k_base", "phi-3.5",
    "phi-4",
    "phi-4-mini", "qwen2", "qwen3", "qwen35", "smollm2", "t5-small",
  ].map { name in
    let path = (TestData.shared ?? "") + "/tokenizers/" + name
    return VectorSet(name: name, tokenizer: path + "/tokenizer.json", cases: path + "/cases.json")
  }

  static let tiny = [
    "gemma3", "gemma4", "llama3", "mistral-metaspace", "phi35", "phi4mini", "qwen3", "roberta-like",
    "smollm2",
    "tekken", "unigram",
  ].map { name in
    let path = (TestData.shared ?? "") + "/tokenizers/tiny/" + name
    return VectorSet(name: name, tokenizer: path + ".tokenizer.json", cases: path + ".expected.json")
  }
}

func ids(_ value: JSONValue?) -> [Int32]? {
  value?.arrayValue?.compactMap { $0.intValue.map { Int32($0) } }
}

/// Strings compare by bytes: `==` would take composed and decomposed text for the same.
func expectSame(_ a: String?, _ b: String?, _ what: String, sourceLocation: SourceLocation = #_sourceLocation)
{
  #expect(a.map { Array($0.utf8) } == b.map { Array($0.utf8) }, "\(what)", sourceLocation: sourceLocation)
}

private func trimmed(_ text: String) -> [UInt8] {
  func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x0A }
  return Array(text.utf8.drop(while: isSpace).reversed().drop(while: isSpace).reversed())
}

/// What streaming gives: a piece per token, then the rest.
func streamed(_ tokenizer: Tokenizer, _ ids: [Int32]) -> (pieces: [String], rest: String) {
  var detokenizer = tokenizer.makeDetokenizer(skipSpecialTokens: true)
  let pieces = ids.map { detokenizer.push($0) }
  return (pieces, detokenizer.finish())
}

@Test(arguments: VectorSet.fixtures)
func `a fixture tokenizer agrees with the reference in all its cases`(_ set: VectorSet) throws {
  let (tokenizer, cases) = try set.load()
  for example in cases {
    let text = try #require(example["text"]?.stringValue)
    let plain = try #require(ids(example["plain"]))
    let framed = ids(example["ids"]) ?? plain
    #expect(tokenizer.encode(text, addSpecialTokens: false) == plain, "\(text.debugDescription)")
    #expect(tokenizer.encode(text, addSpecialTokens: true) == framed, "\(text.debugDescription)")
    let skipped = example["skipped"]?.stringValue
    expectSame(tokenizer.decode(framed, skipSpecialTokens: true), skipped, text)
    expectSame(
      tokenizer.decode(framed, skipSpecialTokens: false), example["kept"]?.stringValue ?? skipped, text)
    let pieces = example["stream"]?.arrayValue?.map { $0.stringValue ?? "" }
    #expect(
      streamed(tokenizer, plain).pieces.map { Array($0.utf8) } == pieces?.map { Array($0.utf8) }, "\(text)")
  }
}

@Test(.enabled(if: TestData.shared != nil, "needs ../shared/data"), arguments: VectorSet.real)
func `a real tokenizer agrees with the reference in all its cases`(_ set: VectorSet) throws {
  let (tokenizer, cases) = try set.load()
  for example in cases {
    let text = try #require(example["text"]?.stringValue)
    let expected = try #require(ids(example["ids"]))
    #expect(tokenizer.encode(text, addSpecialTokens: false) == expected, "\(text.debugDescription)")
    if let decoded = example["decoded"]?.stringValue {
      expectSame(tokenizer.decode(expected, skipSpecialTokens: false), decoded, text)
    }
    let (pieces, rest) = streamed(tokenizer, expected)
    expectSame(pieces.joined() + rest, tokenizer.decode(expected, skipSpecialTokens: true), text)
  }
}

@Test(.enabled(if: TestData.shared != nil, "needs ../shared/data"), arguments: VectorSet.tiny)
func `a small pipeline agrees with the reference in ids, tokens, text and pieces`(_ set: VectorSet) throws {
  let (tokenizer, cases) = try set.load()
  for example in cases {
    let text = try #require(example["text"]?.stringValue)
    let plain = try #require(ids(example["ids_no_special"]))
    let framed = try #require(ids(example["ids"]))
    #expect(tokenizer.encode(text, addSpecialTokens: false) == plain, "\(text.debugDescription)")
    #expect(tokenizer.encode(text, addSpecialTokens: true) == framed, "\(text.debugDescription)")
    // The reference shows added tokens together with the white space that they have swallowed.
    let tokens = example["tokens_no_special"]?.arrayValue?.map { trimmed($0.stringValue ?? "") }
    #expect(plain.map { trimmed(tokenizer.token(of: $0) ?? "") } == tokens, "\(text.debugDescription)")
    expectSame(tokenizer.decode(plain, skipSpecialTokens: true), example["decode_skip"]?.stringValue, text)
    expectSame(tokenizer.decode(plain, skipSpecialTokens: false), example["decode_keep"]?.stringValue, text)
    let pieces = example["stream_skip"]?.arrayValue?.map { Array(($0.stringValue ?? "").utf8) }
    #expect(streamed(tokenizer, plain).pieces.map { Array($0.utf8) } == pieces, "\(text.debugDescription)")
  }
}

@Test(.enabled(if: TestData.shared != nil, "needs ../shared/data"))
func `the split patterns cut as the reference's regular expressions do`() throws {
  let path = (TestData.shared ?? "") + "/tokenizers/pretokenizer_splits.json"
  let patterns = try #require(try JSONValue(parsing: TestData.bytes(path)).objectValue)
  #expect(patterns.count == 6)
  for (name, entry) in patterns.entries {
    let scanner = try #require(WordScanner(pattern: entry["regex"]?.stringValue ?? ""), "\(name)")
    for example in entry["cases"]?.arrayValue ?? [] {
      let text = try #require(example["text"]?.stringValue)
      let pieces = example["pieces"]?.arrayValue?.map { Array(($0.stringValue ?? "").utf8) }
      #expect(scanner.pieces(text).map { Array($0.utf8) } == pieces, "\(name): \(text.debugDescription)")
    }
  }
}

@Test(.enabled(if: TestData.shared != nil, "needs ../shared/data"), arguments: VectorSet.real)
func `every awkward string survives encoding and decoding`(_ set: VectorSet) throws {
  // These normalise, or have no token for every character.
  guard !["minilm-bert", "t5-small", "qwen2", "qwen3", "smollm2"].contains(set.name) else { return }
  let tokenizer = try set.load().tokenizer
  let path = (TestData.shared ?? "") + "/unicode/blns/blns.json"
  let strings = try JSONValue(parsing: TestData.bytes(path)).arrayValue ?? []
  #expect(strings.count > 400)
  for string in strings {
    let text = try #require(string.stringValue)
    let ids = tokenizer.encode(text, addSpecialTokens: false)
    expectSame(tokenizer.decode(ids, skipSpecialTokens: false), text, "\(set.name): \(text)")
  }
}

extension WordScanner {
  func pieces(_ text: String) -> [String] {
    let bytes = Array(text.utf8)
    var ranges: [Range<Int>] = []
    split(bytes, 0..<bytes.count, into: &ranges)
    return ranges.map { String(decoding: bytes[$0], as: UTF8.self) }
  }
}

private let demo = TestData.fixtures + "/models/demo"

@Test(.enabled(if: (try? TestData.bytes(demo + "/expected.json")) != nil, "needs Fixtures/models/demo"))
func `the demo model's prompts encode to the recorded ids`() throws {
  let tokenizer = try Tokenizer(tokenizerJSON: TestData.bytes(demo + "/tokenizer.json"))
  let cases = try JSONValue(parsing: TestData.bytes(demo + "/expected.json"))["cases"]?.arrayValue ?? []
  #expect(!cases.isEmpty)
  for example in cases {
    let text = try #require(example["prompt_text"]?.stringValue)
    let expected = try #require(ids(example["prompt_ids"]))
    #expect(tokenizer.encode(text, addSpecialTokens: false) == expected, "\(text)")
    expectSame(tokenizer.decode(expected, skipSpecialTokens: false), text, text)
  }
}
