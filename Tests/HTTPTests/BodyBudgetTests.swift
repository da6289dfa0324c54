// The memory of request bodies, and what it does when cached prefixes hold the rest.

import Platform
import Testing

@testable import HTTP

@Suite struct BodyBudgetTests {
  @Test func `a body counts as often as it is held, and gives all of it back`() {
    let ledger = MemoryLedger(limit: 1000)
    let budget = BodyBudget(bytes: 300, ledger: ledger)
    #expect(budget.reserve(200))
    #expect(ledger.bytes(of: .requestBodies) == 800)
    // Of the budget itself only the bytes that came.
    #expect(!budget.reserve(101) && !budget.reserve(.max))
    #expect(ledger.bytes(of: .requestBodies) == 800)
    budget.release(200)
    #expect(ledger.bytes(of: .requestBodies) == 0)
    #expect(budget.reserve(250))
  }

  @Test func `what is short is asked for`() {
    let ledger = MemoryLedger(limit: 1000)
    ledger.add(900, to: .prefixCache)
    let budget = BodyBudget(bytes: 300, ledger: ledger)
    #expect(!budget.reserve(100))
    #expect(ledger.bytes(of: .requestBodies) == 0)
    ledger.onShortage { [weak ledger] bytes in ledger?.release(bytes, from: .prefixCache) }
    #expect(budget.reserve(100))
    #expect(ledger.bytes(of: .prefixCache) == 500)
    // A body that is refused for its own bound pushes nothing out.
    #expect(!budget.reserve(201))
    #expect(ledger.bytes(of: .prefixCache) == 500)
  }
}
