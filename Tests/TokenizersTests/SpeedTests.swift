// No text is slow: a megabyte of anything encodes in about the time that a megabyte of prose takes.

import Support
import Testing

@testable import Tokenizers

/// A megabyte each of what has been slow in some tokenizer.
private let hostileTexts: [(name: String, text: String)] = [
  ("spaces", String(repeating: " ", count: 1 << 20)),
  ("line breaks", String(repeating: "\n", count: 1 << 20)),
  ("one letter", String(repeating: "a", count: 1 << 20)),
  ("one accented letter", String(repeating: "é", count: 1 << 19)),
  ("accents apart", String(repeating: "e\u{301}", count: 350_000)),
  ("accents alone", String(repeating: "\u{301}\u{323}", count: 1 << 18)),
  ("emoji", String(repeating: "👍🏽", count: 1 << 17)),
  ("punctuation", String(repeating: "^", count: 1 << 20)),
  ("apostrophes", String(repeating: "'", count: 1 << 20)),
  ("mixed line breaks", String(repeating: "\r\n \n\t", count: 200_000)),
  ("caseless and upper case", String(repeating: "ªA", count: 350_000)),
  ("text without spaces", String(repeating: "thequeueholdsrequests", count: 50_000)),
  ("Chinese without stops", String(repeating: "服务器正在回答请求", count: 39_000)),
  ("jamo", String(repeating: "\u{1112}\u{1161}\u{11AB}", count: 116_000)),
  ("almost an added token", String(repeating: "<|en", count: 1 << 18)),
  ("added tokens", String(repeating: "<|end|> ", count: 1 << 17)),
  ("NUL", String(repeating: "\0", count: 1 << 20)),
]

@Test(
  arguments: VectorSet.fixtures.filter {
    ["qwen3", "o200k", "phi35", "gemma", "bert", "unigram"].contains($0.name)
  })
func `a megabyte of anything takes less than two seconds`(_ set: VectorSet) throws {
  let tokenizer = try set.load().tokenizer
  for (name, text) in hostileTexts {
    var ids: [Int32] = []
    let seconds = threadSeconds { ids = tokenizer.encode(text, addSpecialTokens: false) }
    #expect(seconds < 2, "\(set.name): \(name)")
    // BERT drops white space and control characters.
    #expect(set.name == "bert" || !ids.isEmpty, "\(set.name): \(name)")
  }
}

@Test(arguments: ["qwen3", "phi35", "gemma", "llama3"])
func `eight times the text takes about eight times the time`(_ name: String) throws {
  let tokenizer = try Tokenizer(tokenizerJSON: TestData.bytes(TestData.fixtures + "/tokenizers/\(name).json"))
  // No spaces and many different pairs: the queues have the most to do.
  var random = SeededGenerator(seed: 3)
  let letters = (0..<1 << 18).map { _ in UInt8.random(in: 97...122, using: &random) }
  func seconds(_ count: Int) -> Double {
    let text = String(decoding: letters[..<count], as: UTF8.self)
    return (0..<5).map { _ in
      threadSeconds { _ = tokenizer.encode(text, addSpecialTokens: false) }
    }.min() ?? 0
  }
  // Quadratic time would be 64 times; leaving the processor's caches may double it.
  #expect(seconds(1 << 18) < 30 * seconds(1 << 15), "\(name)")
}

@Test(.enabled(if: TestData.shared != nil, "needs ../shared/data"), arguments: VectorSet.real)
func `a real tokenizer loads in well under a second`(_ set: VectorSet) throws {
  let bytes = try TestData.bytes(set.tokenizer)
  let seconds = try threadSeconds { _ = try Tokenizer(tokenizerJSON: bytes) }
  #expect(seconds < 1.5, "\(set.name)")
}
