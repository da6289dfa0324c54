// Reasoning held to their budgets, token by token.

import Grammar
import JSON
import Testing
import Tokenizers

@testable import Decoding

/// Bytes are ids 0 to 255; then `<think>` and `</think>`, if they are tokens here, and a word that ends a marker.
private func makeTokenizer(hasMarkers: Bool) throws -> Tokenizer {
  var vocabulary = JSONObject()
  var next: UInt32 = 256
  for byte in 0..<256 as Range<UInt32> {
    let isPrintable = (33...126).contains(byte) || (161...172).contains(byte) || (174...255).contains(byte)
    let value = isPrintable ? byte : next
    if !isPrintable { next += 1 }
    guard let scalar = Unicode.Scalar(value) else { continue }
    vocabulary[String(Character(scalar))] = .int(Int(byte))
  }
  vocabulary[">\u{10A}"] = 256
  vocabulary[">{"] = 257
  let markers = ["<think>", "</think>"].enumerated().map { index, name -> JSONValue in
    [
      "id": .int(258 + index), "content": .string(name), "single_word": false, "lstrip": false,
      "rstrip": false,
      "normalized": false, "special": false,
    ]
  }
  let byteLevel: JSONValue = [
    "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false,
  ]
  let file: JSONValue = [
    "version": "1.0", "added_tokens": .array(hasMarkers ? markers : []), "pre_tokenizer": byteLevel,
    "decoder": byteLevel,
    "model": ["type": "BPE", "vocab": .object(vocabulary), "merges": [[">", "\u{10A}"], [">", "{"]]],
  ]
  return try Tokenizer(tokenizerJSON: file.bytes)
}

/// What a model that wants to say `text` says under a guide that has no grammar.
private func say(
  _ text: String, budget: Int?, startsInside: Bool = false, hasMarkers: Bool = true
) throws -> String {
  let tokenizer = try makeTokenizer(hasMarkers: hasMarkers)
  var guide = Guide(
    reasoning: Guide.Reasoning(
      tokenizer: tokenizer, open: "<think>", close: "</think>", lead: "\n", separator: "\n\n", budget: budget,
      startsInside: startsInside))
  var wishes = tokenizer.encode(text, addSpecialTokens: false)[...]
  var said: [Int32] = []
  while said.count < 200 {
    if case .only(let forced) = guide.allowance(remaining: 200 - said.count) {
      said.append(forced)
    } else if let wish = wishes.popFirst() {
      said.append(wish)
    } else {
      break
    }
    guide.accept(said[said.count - 1])
  }
  return tokenizer.decode(said, skipSpecialTokens: false)
}

struct GuideTests {
  @Test func `reasoning within its budget is left alone`() throws {
    #expect(try say("<think>\nab\n</think>\n\nYes", budget: 5) == "<think>\nab\n</think>\n\nYes")
    #expect(try say("<think>\nab\n</think>\n\nYes", budget: nil) == "<think>\nab\n</think>\n\nYes")
    #expect(try say("Yes <think>", budget: 0) == "Yes <think>")
  }

  @Test func `a spent budget closes the reasoning as the template would`() throws {
    #expect(try say("<think>\nabcdef", budget: 3) == "<think>\nab\n</think>\n\ncdef")
    // A line that has just ended is not ended twice.
    #expect(try say("<think>\nab\ncd", budget: 4) == "<think>\nab\n</think>\n\ncd")
  }

  @Test func `a budget of nothing closes the reasoning at once`() throws {
    #expect(try say("<think>abc", budget: 0) == "<think>\n</think>\n\nabc")
    #expect(try say("abc", budget: 0, startsInside: true) == "\n</think>\n\nabc")
  }

  @Test func `reasoning that the prompt has opened counts from its first token`() throws {
    #expect(try say("abcdef", budget: 2, startsInside: true) == "ab\n</think>\n\ncdef")
    #expect(try say("a</think>bcdef", budget: 2, startsInside: true) == "a</think>bcdef")
  }

  @Test func `no character is cut in half`() throws {
    #expect(try say("<think>😀b", budget: 1) == "<think>😀\n</think>\n\nb")
    #expect(try say("<think>aé", budget: 1) == "<think>a\n</think>\n\né")
  }

  @Test func `markers that are ordinary text are found however they are split into tokens`() throws {
    #expect(try say("<think>\nab</think>cd", budget: 3, hasMarkers: false) == "<think>\nab</think>cd")
    // The token that ends the marker also begins the reasoning with a new line.
    #expect(try say("<think>\nabcdef", budget: 2, hasMarkers: false) == "<think>\nab\n</think>\n\ncdef")
    #expect(try say("ab</thinkcd", budget: 100, startsInside: true, hasMarkers: false) == "ab</thinkcd")
    #expect(
      try say("a</think>\nbcd", budget: 10, startsInside: true, hasMarkers: false) == "a</think>\nbcd")
  }

  @Test func `white space before reasoning does not hide it`() throws {
    #expect(try say("\n<think>abc", budget: 1) == "\n<think>a\n</think>\n\nbc")
  }

  @Test func `reasoning leaves room for the constrained answer and its end`() throws {
    let tokenizer = try makeTokenizer(hasMarkers: true)
    let vocabulary = GrammarVocabulary(tokenizer: tokenizer, endTokens: [0])
    var guide = Guide(
      reasoning: Guide.Reasoning(
        tokenizer: tokenizer, open: "<think>", close: "</think>", lead: "\n", separator: "\n\n", budget: nil,
        startsInside: true), grammar: try CompiledGrammar(.literal("ab"), vocabulary: vocabulary))
    guard case .among(let mask) = guide.allowance(remaining: 8) else {
      Issue.record("the reasoning is cut short")
      return
    }
    #expect(mask.contains(3) && !mask.contains(0))
    guide.accept(3)
    // Four tokens close the reasoning, two are the answer, one ends it.
    for token: Int32 in [10, 259, 10, 10] {
      #expect(guide.allowance(remaining: 7) == .only(token))
      guide.accept(token)
    }
    guard case .among(let answer) = guide.allowance(remaining: 3) else {
      Issue.record("the answer is free")
      return
    }
    #expect(answer.contains(97) && !answer.contains(98))
  }

  @Test func `tokens that would carry text of the answer past its grammar are known`() throws {
    let tokenizer = try makeTokenizer(hasMarkers: false)
    let reasoning = Guide.Reasoning(
      tokenizer: tokenizer, open: "<think>", close: "</think>", lead: "\n", separator: "\n\n", budget: nil,
      startsInside: true)
    #expect(reasoning.isClosedByText)
    #expect(reasoning.closesWithText(257))
    #expect(!reasoning.closesWithText(256))
    #expect(!reasoning.closesWithText(Int32(UInt8(ascii: ">"))))
    #expect(reasoning.mayBeClosing(Array("ab</think".utf8)))
    #expect(!reasoning.mayBeClosing(Array("ab</thunk".utf8)))
    #expect(reasoning.openings(after: 0) == [Int32](repeating: Int32(UInt8(ascii: "<")), count: 2))
    #expect(reasoning.openings(after: 6) == [Int32(UInt8(ascii: ">")), 256])
  }

  @Test func `a closing marker under way is not completed by a token with text of the answer`() throws {
    let tokenizer = try makeTokenizer(hasMarkers: false)
    let grammar = try CompiledGrammar(
      .literal("{}"), vocabulary: GrammarVocabulary(tokenizer: tokenizer, endTokens: [0]))
    // The second answer finds the masks made.
    for _ in 0..<2 {
      var guide = Guide(
        reasoning: Guide.Reasoning(
          tokenizer: tokenizer, open: "<think>", close: "</think>", lead: "\n", separator: "\n\n",
          budget: nil,
          startsInside: true), grammar: grammar)
      func allowed() -> [Bool] {
        guard case .among(let mask) = guide.allowance(remaining: 100) else { return [] }
        return [256, 257, 0].map(mask.contains)
      }
      #expect(allowed() == [true, true, false])
      for byte in "a</think".utf8 { guide.accept(Int32(byte)) }
      #expect(allowed() == [true, false, false])
    }
  }

  @Test func `reasoning leaves room for the shortest answer and its end`() throws {
    let tokenizer = try makeTokenizer(hasMarkers: true)
    let grammar = try CompiledGrammar(
      .literal("yes"), vocabulary: GrammarVocabulary(tokenizer: tokenizer, endTokens: [0]))
    var guide = Guide(
      reasoning: Guide.Reasoning(
        tokenizer: tokenizer, open: "<think>", close: "</think>", lead: "\n", separator: "\n\n", budget: nil,
        startsInside: true), grammar: grammar)
    var said: [Int32] = []
    while said.count < 20, said.last != 0 {
      switch guide.allowance(remaining: 20 - said.count) {
      case .any: said.append(Int32(UInt8(ascii: "x")))
      case .only(let forced): said.append(forced)
      case .among(let mask):
        let wish = Int32(UInt8(ascii: "x"))
        said.append(mask.contains(wish) ? wish : Int32(try #require(mask.first)))
      }
      guide.accept(said[said.count - 1])
    }
    let text = tokenizer.decode(said.dropLast(), skipSpecialTokens: false)
    #expect(text.hasPrefix("xxxx") && text.hasSuffix("x\n</think>\n\nyes"))
    #expect(said.last == 0 && said.count == 20)
  }
}
