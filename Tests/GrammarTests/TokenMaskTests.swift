// Sets of token ids.

import Testing

@testable import Grammar

@Suite struct TokenMaskTests {
  @Test func `ids beyond the vocabulary are never in a mask`() {
    var mask = TokenMask(count: 65)
    mask.insert(-1)
    mask.insert(64)
    mask.insert(65)
    #expect(!mask.contains(-1) && mask.contains(64) && !mask.contains(65))
    #expect(!mask.isEmpty)
  }

  @Test func `a tree has tokens in the order of their bytes, however many they share`() {
    let texts: [[UInt8]] = ["12345678b", "12345678", "1234567", "12345678ab", "12345678a"].map {
      Array($0.utf8)
    }
    let all = texts + [[0x31, 0], [0x31], [], [0x31, 0, 0], Array("12345678b".utf8)]
    let starts = all.reduce(into: [Int32(0)]) { $0.append($0[$0.count - 1] + Int32($1.count)) }
    let tree = TokenTrie(ids: Array(0..<Int32(all.count)), bytes: all.flatMap { $0 }, starts: starts)
    #expect(tree.tokens == [6, 5, 8, 2, 1, 4, 3, 0, 9])
    for node in 0..<tree.count {
      for token in tree.tokens[tree.tokens(at: node)] { #expect(tree.text(to: node) == all[Int(token)]) }
    }
  }

  @Test func `a union holds the ids of both`() {
    var first = TokenMask(count: 200)
    var second = TokenMask(count: 200)
    first.insert(3)
    second.insert(199)
    first.formUnion(second)
    #expect(first.contains(3) && first.contains(199) && !first.contains(4))
  }

  @Test func `a vocabulary keeps the mask that it was last asked to narrow`() {
    let vocabulary = GrammarVocabulary(count: 100, endTokens: [7, 200]) { [UInt8($0)] }
    #expect((0..<100).filter { !vocabulary.continuing.contains($0) } == [7])
    var asked = 0
    func leftOut(_ key: [UInt8], _ id: Int32) -> [Int32] {
      let mask = vocabulary.continuing(key: key) {
        asked += 1
        return $0 == id
      }
      return (0..<100).filter { !mask.contains($0) }
    }
    #expect(leftOut([1], 9) == [7, 9])
    #expect(asked == 99)
    #expect(leftOut([1], 9) == [7, 9])
    #expect(asked == 99)
    #expect(leftOut([2], 11) == [7, 11])
    #expect(asked == 198)
  }
}
