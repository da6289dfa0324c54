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

  @Test func `no more blocks are taken than the quota allows`() {
    var pool = BlockPool(blockCount: 8, quota: 2)
    var table: [Int32] = []
    #expect(!pool.extend(&table, to: 3))
    pool.quota = 3
    #expect(pool.extend(&table, to: 3))
    #expect(pool.freeCount == 0)
    #expect(pool.touched == 3)
  }

  @Test func `a lower quota names the free blocks that hold memory, and never goes below what is used`() {
    var pool = BlockPool(blockCount: 8)
    var table: [Int32] = []
    var other: [Int32] = []
    #expect(pool.extend(&table, to: 4))
    #expect(pool.extend(&other, to: 2))
    pool.release(&table)
    #expect(pool.touched == 6)
    // Two are in use, four hold memory, two were never touched.
    #expect(Set(pool.lowerQuota(to: 3)) == [3, 2, 1])
    #expect(pool.touched == 3)
    #expect(pool.freeCount == 1)
    // What is taken next is the one that still holds memory.
    #expect(pool.extend(&table, to: 1))
    #expect(table == [0])
    #expect(pool.lowerQuota(to: 0) == [])
    #expect(pool.quota == 3)
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

extension BlockPool {
  /// Gives up one reference to each block and empties the table.
  mutating func release(_ table: inout [Int32]) {
    release(table)
    table.removeAll()
  }
}
