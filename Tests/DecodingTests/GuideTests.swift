// Guides: thoughts and their budgets, then text that a grammar allows.

import Testing

@testable import Decoding
@testable import Grammar

@Suite struct GuideTests {
  /// Every byte is a token; 256 opens a thought, 257 and 258 close it, 259 ends the answer.
  private static let vocabulary = GrammarVocabulary(count: 260, endTokens: [259]) {
    $0 < 256 ? [UInt8($0)] : []
  }

  private func grammar() throws -> CompiledGrammar {
    try CompiledGrammar(.literal("ab"), vocabulary: Self.vocabulary)
  }

  private func thought(budget: Int?, startsInside: Bool) -> Guide.Thought {
    Guide.Thought(open: 256, close: [257, 258], budget: budget, startsInside: startsInside)
  }

  private func ids(_ allowance: Guide.Allowance) -> [Int32]? {
    guard case .among(let mask) = allowance else { return nil }
    return (0..<260).filter { mask.contains($0) }
  }

  @Test func `without a grammar and a thought anything may come`() {
    var guide = Guide()
    #expect(guide.allowance(remaining: 5) == .any)
    guide.accept(7)
    #expect(guide.allowance(remaining: 4) == .any)
  }

  @Test func `a grammar allows its text and then the end`() throws {
    var guide = Guide(grammar: try grammar())
    #expect(ids(guide.allowance(remaining: 9)) == [97])
    guide.accept(97)
    guide.accept(98)
    #expect(ids(guide.allowance(remaining: 7)) == [259])
  }

  @Test func `a thought may open before the text and is free`() throws {
    var guide = Guide(thought: thought(budget: nil, startsInside: false), grammar: try grammar())
    #expect(ids(guide.allowance(remaining: 9)) == [97, 256])
    guide.accept(256)
    #expect(guide.allowance(remaining: 8) == .any)
    guide.accept(3)
    guide.accept(258)
    #expect(ids(guide.allowance(remaining: 6)) == [97])
  }

  @Test func `a spent budget forces the closing tokens one after the other`() throws {
    var guide = Guide(thought: thought(budget: 2, startsInside: true), grammar: try grammar())
    guide.accept(1)
    guide.accept(2)
    #expect(guide.allowance(remaining: 9) == .only(257))
    guide.accept(257)
    #expect(guide.allowance(remaining: 8) == .only(258))
    guide.accept(258)
    #expect(ids(guide.allowance(remaining: 7)) == [97])
  }

  @Test func `a thought leaves room for the answer`() throws {
    var guide = Guide(thought: thought(budget: nil, startsInside: true), grammar: try grammar())
    #expect(guide.allowance(remaining: 6) == .any)
    guide.accept(1)
    #expect(guide.allowance(remaining: 5) == .only(257))
    guide.accept(257)
    #expect(guide.allowance(remaining: 4) == .only(258))
    guide.accept(258)
    #expect(ids(guide.allowance(remaining: 3)) == [97])
  }

  @Test func `a copy goes its own way`() throws {
    var guide = Guide(grammar: try grammar())
    guide.accept(97)
    var draft = guide
    draft.accept(98)
    #expect(ids(draft.allowance(remaining: 5)) == [259])
    #expect(ids(guide.allowance(remaining: 5)) == [98])
  }
}
