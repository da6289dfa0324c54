// Streaming: characters come whole, early, and add up to the complete text.

import JSON
import Support
import Testing

@testable import Tokenizers

private func fixture(_ name: String) throws -> Tokenizer {
  try Tokenizer(tokenizerJSON: TestData.bytes(TestData.fixtures + "/tokenizers/\(name).json"))
}

/// The tokens of single bytes in a byte-level vocabulary.
private func byteTokens(_ tokenizer: Tokenizer, _ bytes: [UInt8]) throws -> [Int32] {
  try bytes.map { byte in
    let spelling = String(decoding: ByteAlphabet.spellings[Int(byte)], as: UTF8.self)
    return try #require(tokenizer.id(of: spelling))
  }
}

private func fallbackTokens(_ tokenizer: Tokenizer, _ bytes: [UInt8]) throws -> [Int32] {
  try bytes.map { try #require(tokenizer.id(of: BPE.fallbackSpelling($0))) }
}

@Test func `an emoji in four byte tokens comes with the last one`() throws {
  let tokenizer = try fixture("qwen3")
  let (pieces, rest) = streamed(tokenizer, try byteTokens(tokenizer, [0x41, 0xF0, 0x9F, 0x98, 0x80, 0x42]))
  #expect(pieces == ["A", "", "", "", "😀", "B"])
  #expect(rest.isEmpty)
}

@Test func `a response that ends inside a character ends in U+FFFD`() throws {
  for name in ["qwen3", "gemma"] {
    let tokenizer = try fixture(name)
    let bytes: [UInt8] = [0xE2, 0x82]
    let ids = try name == "qwen3" ? byteTokens(tokenizer, bytes) : fallbackTokens(tokenizer, bytes)
    let (pieces, rest) = streamed(tokenizer, ids)
    #expect(pieces == ["", ""])
    // One for what could have become a character, but one per byte token.
    #expect(rest == (name == "qwen3" ? "\u{FFFD}" : "\u{FFFD}\u{FFFD}"))
    #expect(tokenizer.decode(ids, skipSpecialTokens: false) == rest)
  }
}

@Test func `bytes that never become a character are replaced and hold nothing up for long`() throws {
  let tokenizer = try fixture("qwen3")
  let (pieces, rest) = streamed(tokenizer, try byteTokens(tokenizer, [0xFF, 0xC0, 0xED, 0xA0, 0x80, 0x41]))
  #expect(pieces.joined() + rest == String(repeating: "\u{FFFD}", count: 5) + "A")
  #expect(rest.isEmpty)
  let endless = streamed(tokenizer, try byteTokens(tokenizer, [UInt8](repeating: 0xFF, count: 100)))
  #expect(endless.pieces.joined().unicodeScalars.count > 80)
}

@Test func `a run of byte tokens that is not UTF-8 is one U+FFFD per byte`() throws {
  let tokenizer = try fixture("gemma")
  let ids = try fallbackTokens(tokenizer, [0xC3, 0x41, 0xE2, 0x82, 0xAC])
  #expect(tokenizer.decode(ids, skipSpecialTokens: false) == String(repeating: "\u{FFFD}", count: 5))
  let euro = try fallbackTokens(tokenizer, [0xE2, 0x82, 0xAC])
  #expect(streamed(tokenizer, euro).pieces == ["", "", "€"])
}

@Test func `only the first text of a response loses its leading space`() throws {
  let tokenizer = try fixture("phi35")
  let start = try #require(tokenizer.id(of: "<|start|>"))
  let block = try #require(tokenizer.id(of: "▁"))
  let letter = try #require(tokenizer.id(of: "a"))
  #expect(streamed(tokenizer, [start, block, letter, block, letter]).pieces == ["", "", "a", " ", "a"])
  #expect(tokenizer.decode([block, block, letter], skipSpecialTokens: true) == " a")
}

@Test func `special tokens show or not, as asked, and unknown ids are silent`() throws {
  let tokenizer = try fixture("qwen3")
  let end = try #require(tokenizer.id(of: "<|end|>"))
  let call = try #require(tokenizer.id(of: "<call>"))
  #expect(tokenizer.isSpecial(end) && !tokenizer.isSpecial(call))
  #expect(tokenizer.decode([end, call, 1 << 20, -1, .max], skipSpecialTokens: true) == "<call>")
  #expect(tokenizer.decode([end, call], skipSpecialTokens: false) == "<|end|><call>")
  #expect(tokenizer.token(of: -1) == nil && tokenizer.bytes(of: 1 << 20) == [])
  #expect(Int(call) < tokenizer.vocabularySize && tokenizer.token(of: Int32(tokenizer.vocabularySize)) == nil)
}

@Test func `the bytes of a token are what it adds to the text`() throws {
  let qwen = try fixture("qwen3")
  #expect(qwen.bytes(of: try #require(qwen.id(of: "Ġ"))) == [0x20])
  #expect(qwen.bytes(of: try byteTokens(qwen, [0xF0])[0]) == [0xF0])
  let gemma = try fixture("gemma")
  #expect(gemma.bytes(of: try #require(gemma.id(of: "▁"))) == [0x20])
  #expect(gemma.bytes(of: try #require(gemma.id(of: "<0xF0>"))) == [0xF0])
}

@Test(arguments: VectorSet.fixtures)
func `random tokens stream to the same text as they decode to at once`(_ set: VectorSet) throws {
  let tokenizer = try set.load().tokenizer
  var random = SeededGenerator(seed: 7)
  for _ in 0..<300 {
    let ids = (0..<Int.random(in: 0...30, using: &random)).map { _ in
      Int32.random(in: 0..<Int32(tokenizer.vocabularySize), using: &random)
    }
    let (pieces, rest) = streamed(tokenizer, ids)
    let whole = tokenizer.decode(ids, skipSpecialTokens: true)
    if case .byteFallback = tokenizer.decoder.joining, whole.unicodeScalars.contains("\u{FFFD}") { continue }
    expectSame(pieces.joined() + rest, whole, "\(set.name) \(ids)")
  }
}

@Test func `UTF-8 is judged byte by byte as the Unicode Standard does`() {
  #expect(UTF8Sequence([0x41], at: 0) == .complete(1))
  #expect(UTF8Sequence([0xE2, 0x82], at: 0) == .incomplete)
  #expect(UTF8Sequence([0xE2, 0x82, 0x41], at: 0) == .invalid(2))
  #expect(UTF8Sequence([0xED, 0xA0, 0x80], at: 0) == .invalid(1))
  #expect(UTF8Sequence([0xF4, 0x90], at: 0) == .invalid(1))
  #expect(UTF8Sequence([0xC0, 0x80], at: 0) == .invalid(1))
  #expect(UTF8Sequence([0xF0, 0x9F, 0x98, 0x80], at: 0) == .complete(4))
}

@Test func `a continuation keeps the space that the start of a text loses`() throws {
  let tokenizer = try fixture("phi35")
  let ids = tokenizer.encode("day", addSpecialTokens: false)
  func text(isContinuation: Bool) -> String {
    var detokenizer = tokenizer.makeDetokenizer(skipSpecialTokens: true, isContinuation: isContinuation)
    return ids.map { detokenizer.push($0) }.joined() + detokenizer.finish()
  }
  #expect(text(isContinuation: false) == "day")
  #expect(text(isContinuation: true) == " day")
}
