// The block pool: no block is held twice, none is lost.

import Support
import Testing

@testable import Inference

@Suite struct BlockPoolTests {
  @Test func `a table grows by what is missing and keeps its blocks`() {
    var pool = BlockPool(blockCount: 4)
    var table: [Int32] = []
    #expect(pool.extend(&table, to: 2))
    #expect(table == [0, 1])
    #expect(pool.extend(&table, to: 2))
    #expect(pool.extend(&table, to: 3))
    #expect(table == [0, 1, 2])
    #expect(pool.freeCount == 1)
  }

  @Test func `a request for more than is free takes nothing`() {
    var pool = BlockPool(blockCount: 2)
    var table: [Int32] = []
    #expect(!pool.extend(&table, to: 3))
    #expect(table.isEmpty)
    #expect(pool.freeCount == 2)
  }

  @Test func `a shared block is free only when its last holder lets go`() {
    var pool = BlockPool(blockCount: 2)
    var first: [Int32] = []
    #expect(pool.extend(&first, to: 1))
    var second = first
    pool.retain(second)
    pool.release(&first)
    #expect(pool.freeCount == 1)
    pool.release(&second)
    #expect(pool.freeCount == 2)
  }

  @Test func `random holders never share a block and give all of them back`() {
    var random = SeededGenerator(seed: 3)
    var pool = BlockPool(blockCount: 64)
    var tables = [[Int32]](repeating: [], count: 10)
    for _ in 0..<20_000 {
      let at = Int.random(in: 0..<tables.count, using: &random)
      if Bool.random(using: &random) {
        pool.release(&tables[at])
      } else {
        _ = pool.extend(&tables[at], to: tables[at].count + Int.random(in: 0...9, using: &random))
      }
      let held = tables.flatMap { $0 }
      #expect(Set(held).count == held.count)
      #expect(held.count + pool.freeCount == 64)
    }
    for at in tables.indices { pool.release(&tables[at]) }
    #expect(pool.freeCount == 64)
  }
}
