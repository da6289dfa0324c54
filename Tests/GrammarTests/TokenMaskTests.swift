// Sets of token ids.

import Grammar
import Testing

@Suite struct TokenMaskTests {
  @Test func `ids beyond the vocabulary are never in a mask`() {
    var mask = TokenMask(count: 65)
    mask.insert(-1)
    mask.insert(64)
    mask.insert(65)
    #expect(!mask.contains(-1) && mask.contains(64) && !mask.contains(65))
    #expect(!mask.isEmpty)
  }

  @Test func `a union holds the ids of both`() {
    var first = TokenMask(count: 200)
    var second = TokenMask(count: 200)
    first.insert(3)
    second.insert(199)
    first.formUnion(second)
    #expect(first.contains(3) && first.contains(199) && !first.contains(4))
  }
}
