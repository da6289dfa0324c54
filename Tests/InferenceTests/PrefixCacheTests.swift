// The tree of cached prefixes: what is found, what is kept, what goes first.

import Compute
import Support
import Testing

@testable import Inference

@Suite struct PrefixCacheTests {
  private var pool = BlockPool(blockCount: 8)
  private var cache = PrefixCache(limit: 8)

  /// `count` blocks of tokens that begin with `first`.
  private func tokens(_ first: Int32, blocks: Int) -> [Int32] {
    [first] + (1..<Int32(blocks * KVCache.blockTokens)).map { $0 }
  }

  /// Computes the tokens, records them, and ends the sequence.
  private mutating func run(_ tokens: [Int32], variant: Int = 0) -> [Int32] {
    var path = PrefixCache.Path(PrefixCache.Root(ropeVariant: variant))
    var table: [Int32] = []
    cache.adopt(tokens, path: &path, table: &table, pool: &pool)
    cache.evict(untilFree: tokens.count / KVCache.blockTokens - table.count, pool: &pool)
    #expect(pool.extend(&table, to: tokens.count / KVCache.blockTokens))
    cache.record(tokens, computed: tokens.count, path: &path, table: table, pool: &pool)
    defer {
      pool.release(&table)
      cache.trim(pool: &pool)
    }
    return table
  }

  private mutating func found(_ tokens: [Int32], variant: Int = 0) -> Int {
    var path = PrefixCache.Path(PrefixCache.Root(ropeVariant: variant))
    var table: [Int32] = []
    cache.adopt(tokens, path: &path, table: &table, pool: &pool)
    pool.release(&table)
    return path.blocks
  }

  @Test mutating func `the longest known beginning is found, but never the last token`() {
    let known = tokens(1, blocks: 3)
    _ = run(known)
    #expect(found(known) == 2)
    #expect(found(known + [7]) == 3)
    #expect(found(Array(known[..<64]) + [99] + known[65...]) == 2)
    #expect(found(tokens(2, blocks: 3)) == 0)
    #expect(found(known + [7], variant: 1) == 0)
  }

  @Test mutating func `sequences with the same beginning share its blocks`() {
    let first = run(tokens(1, blocks: 2) + [Int32](repeating: 5, count: 32))
    let second = run(tokens(1, blocks: 2) + [Int32](repeating: 6, count: 32))
    #expect(first[..<2] == second[..<2])
    #expect(first[2] != second[2])
    #expect(cache.count == 4)
    #expect(pool.freeCount == 4)
  }

  /// Shares of their prompts that two conversations find which take turns, in percent: each prompt is one block longer than
  /// the last one of its conversation, and followed by a short text of its own.
  private mutating func turns(of count: Int, blocks: Int, limit: Int, titles: Bool) -> [Int] {
    pool = BlockPool(blockCount: 4 * limit)
    cache = PrefixCache(limit: limit)
    var shares: [Int] = []
    for turn in 0..<Int32(count) {
      for first in [Int32(1), 2] {
        let prompt = tokens(first, blocks: blocks + Int(turn)) + [7]
        if turn > 0 { shares.append(100 * found(prompt) / (blocks + Int(turn))) }
        _ = run(prompt)
        if titles { _ = run(tokens(100 + 2 * turn + first, blocks: 6)) }
      }
    }
    return shares
  }

  @Test mutating func `of two conversations that do not fit together, one stays as whole as it can`() {
    #expect(turns(of: 6, blocks: 10, limit: 64, titles: false) == [90, 90, 91, 91, 92, 92, 92, 92, 93, 93])
    // Recency alone gives 54, 45, 41, 33, 30, 23, 21, 14, 13, 6.
    #expect(turns(of: 6, blocks: 10, limit: 16, titles: false) == [54, 45, 50, 33, 46, 30, 42, 28, 40, 26])
  }

  @Test mutating func `texts that are never used again push no conversation out`() {
    // Recency alone gives 18, 9, 8, 0, 0, 0, 0, 0, 0, 0.
    #expect(turns(of: 6, blocks: 10, limit: 24, titles: true) == [18, 9, 58, 8, 53, 7, 50, 7, 46, 6])
  }

  @Test mutating func `what is used no more fades`() {
    pool = BlockPool(blockCount: 64)
    cache = PrefixCache(limit: 16)
    for _ in 0..<10 { _ = run(tokens(1, blocks: 12) + [7]) }
    var shares: [Int] = []
    for _ in 0..<8 {
      _ = run(tokens(2, blocks: 12) + [7])
      shares.append(found(tokens(2, blocks: 12) + [7]))
    }
    #expect(shares == [4, 4, 4, 4, 12, 12, 12, 12])
  }

  @Test mutating func `tokens that are computed again are counted, once each`() {
    cache = PrefixCache(limit: 4)
    _ = run(tokens(1, blocks: 3))
    _ = run(tokens(2, blocks: 3))
    #expect(cache.recomputedTokens == 0)
    _ = run(tokens(1, blocks: 3))
    #expect(cache.recomputedTokens == 64)
    _ = run(tokens(3, blocks: 1))
    #expect(cache.recomputedTokens == 64)
  }

  @Test mutating func `the leaf that was used longest ago goes first, and its parents after it`() {
    _ = run(tokens(1, blocks: 3))
    _ = run(tokens(2, blocks: 3))
    _ = run(tokens(3, blocks: 3))
    #expect(found(tokens(1, blocks: 3) + [0]) == 2)
    #expect(found(tokens(3, blocks: 3) + [0]) == 3)
    cache.evict(untilFree: 8, pool: &pool)
    #expect(cache.count == 0)
    #expect(pool.freeCount == 8)
  }

  /// The positions of a cached block that continue what full blocks gave.
  private mutating func partial(_ tokens: [Int32]) -> Int? {
    var path = PrefixCache.Path(PrefixCache.Root(ropeVariant: 0))
    var table: [Int32] = []
    cache.adopt(tokens, path: &path, table: &table, pool: &pool)
    pool.release(&table)
    return cache.partial(tokens, path)?.count
  }

  @Test mutating func `of a block that agrees in its beginning, the beginning is offered`() {
    let known = tokens(1, blocks: 3)
    _ = run(known)
    #expect(partial(Array(known[..<42]) + [99, 99]) == 10)
    #expect(partial(Array(known[..<35]) + [99, 99]) == nil)
    // One token is left to compute.
    #expect(partial(Array(known[..<42])) == 9)
    #expect(partial([7] + known) == nil)
  }

  @Test mutating func `the unfilled last block of a text is offered until a longer one replaces it`() {
    let text = tokens(1, blocks: 2)
    var path = PrefixCache.Path(PrefixCache.Root(ropeVariant: 0))
    var table: [Int32] = []
    #expect(pool.extend(&table, to: 2))
    cache.record(text, computed: 52, path: &path, table: table, pool: &pool)
    var sequence = SequenceMemory(path.root, promptCount: 64)
    (sequence.path, sequence.blocks, sequence.count) = (path, table, 52)
    cache.recordTail(text, of: sequence, pool: &pool)
    cache.recordTail(text, of: sequence, pool: &pool)
    pool.release(&table)
    #expect(cache.count == 2)
    #expect(partial(text) == 20)
    #expect(found(text) == 1)
    _ = run(text)
    #expect(cache.count == 2)
    #expect(found(text + [1]) == 2)
    #expect(pool.freeCount == 6)
  }

  @Test mutating func `sequences of different roots share nothing`() {
    let known = tokens(1, blocks: 2)
    _ = run(known)
    var path = PrefixCache.Path(PrefixCache.Root(ropeVariant: 0, tenant: 3))
    var table: [Int32] = []
    cache.adopt(known + [7], path: &path, table: &table, pool: &pool)
    #expect(path.blocks == 0)
    #expect(cache.partial(known + [7], path) == nil)
  }

  @Test mutating func `for the disk, parents come before children and what was used again is told once`() {
    cache = PrefixCache(limit: 8, names: BlockNames(content: [], compute: "x", version: "1", shape: []))
    let text = tokens(1, blocks: 3)
    _ = run(text)
    _ = run(tokens(2, blocks: 1))
    #expect(cache.takeNewlyHot() == nil)
    #expect(found(text) == 2)
    let hot = [cache.takeNewlyHot(), cache.takeNewlyHot(), cache.takeNewlyHot()].compactMap { $0 }
    #expect(hot.map(\.tokens) == [Array(text[..<32]), Array(text[32..<64])])
    #expect(hot.last?.parent == hot.first?.name)
    #expect(!cache.hasNewlyHot)
    let records = cache.records
    #expect(records.count == 4)
    #expect(Set(records.map(\.name)).count == 4)
    for (place, record) in records.enumerated() {
      #expect(!records[place...].dropFirst().contains { $0.name == record.parent })
    }
  }

  @Test mutating func `a text that is computed again is not kept twice`() {
    let text = tokens(1, blocks: 6)
    _ = run(text)
    // The same text, of which nothing is taken from the cache: it came out of the model, token by token.
    var path = PrefixCache.Path(PrefixCache.Root(ropeVariant: 0))
    var table: [Int32] = []
    for blocks in 1...6 {
      cache.evict(untilFree: 1, pool: &pool)
      #expect(pool.extend(&table, to: blocks))
      cache.record(text, computed: blocks * KVCache.blockTokens, path: &path, table: table, pool: &pool)
    }
    #expect(cache.count == 6)
    #expect(pool.freeCount == 2)
    pool.release(&table)
    cache.evict(untilFree: 8, pool: &pool)
    #expect(pool.freeCount == 8)
  }

  @Test mutating func `blocks of a running sequence stay`() {
    let known = tokens(1, blocks: 2)
    _ = run(known)
    var path = PrefixCache.Path(PrefixCache.Root(ropeVariant: 0))
    var table: [Int32] = []
    cache.adopt(known + [7], path: &path, table: &table, pool: &pool)
    cache.evict(untilFree: 8, pool: &pool)
    #expect(pool.freeCount == 6)
    #expect(cache.evictableCount(pool) == 0)
    pool.release(&table)
    #expect(cache.evictableCount(pool) == 2)
  }

  @Test mutating func `beyond its limit the cache gives blocks back, and a limit of none keeps nothing`() {
    cache = PrefixCache(limit: 2)
    _ = run(tokens(1, blocks: 3))
    #expect(pool.freeCount == 6)
    _ = run(tokens(2, blocks: 3))
    #expect(cache.count == 2)
    #expect(pool.freeCount == 6)
    #expect(found(tokens(2, blocks: 3) + [0]) == 2)
    cache = PrefixCache(limit: 0)
    pool = BlockPool(blockCount: 8)
    _ = run(tokens(1, blocks: 3))
    #expect(pool.freeCount == 8)
  }

  @Test mutating func `random use never loses or frees a block twice`() {
    var random = SeededGenerator(seed: 4)
    for _ in 0..<500 {
      let count = Int.random(in: 1...4, using: &random)
      // Blocks differ in their first token only, so that beginnings are often the same.
      var text = [Int32](repeating: 9, count: count * KVCache.blockTokens)
      for block in 0..<count { text[block * KVCache.blockTokens] = Int32.random(in: 0...1, using: &random) }
      _ = run(text)
      #expect(pool.freeCount + cache.count == 8)
      #expect(cache.evictableCount(pool) == cache.count)
    }
  }
}
