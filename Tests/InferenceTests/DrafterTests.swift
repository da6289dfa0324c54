// Drafts from a sequence's own text.

import Testing

@testable import Inference

@Suite struct DrafterTests {
  @Test func `what followed the last three tokens before is drafted`() {
    var drafter = Drafter(reference: [])
    #expect(drafter.draft(after: [1, 2, 3, 4, 5, 9, 1, 2, 3], most: 4) == [4, 5, 9, 1])
    #expect(drafter.draft(after: [1, 2, 3, 4, 5, 9, 1, 2, 3, 4], most: 2) == [5, 9])
  }

  @Test func `the latest occurrence counts`() {
    var drafter = Drafter(reference: [])
    #expect(drafter.draft(after: [1, 2, 3, 4, 1, 2, 3, 5, 1, 2, 3], most: 1) == [5])
  }

  @Test func `nothing is drafted without a repetition`() {
    var drafter = Drafter(reference: [])
    #expect(drafter.draft(after: [], most: 15).isEmpty)
    #expect(drafter.draft(after: [1, 2], most: 15).isEmpty)
    #expect(drafter.draft(after: [1, 2, 3, 4, 5, 6], most: 15).isEmpty)
    #expect(drafter.draft(after: [1, 2, 3, 4, 5, 6, 1, 2, 3], most: 0).isEmpty)
  }

  @Test func `a reference is drafted from, but not beyond its end`() {
    var drafter = Drafter(reference: [7, 8, 9, 10, 11])
    #expect(drafter.draft(after: [1, 7, 8, 9], most: 15) == [10, 11])
    #expect(drafter.draft(after: [1, 7, 8, 9, 10, 11], most: 15).isEmpty)
  }

  @Test func `a text that repeats itself up to its end is expected to go on`() {
    var drafter = Drafter(reference: [])
    #expect(drafter.draft(after: [7, 5, 1, 2, 3, 1, 2, 3], most: 7) == [1, 2, 3, 1, 2, 3, 1])
    #expect(drafter.draft(after: [7, 5, 1, 2, 3, 1, 2, 3, 8, 8, 8, 8], most: 3) == [8, 8, 8])
  }

  @Test func `drafts are scored by what came, computed or not`() {
    var drafter = Drafter(reference: Array(0..<100))
    let begin = drafter.reliability
    #expect(drafter.draft(after: [1, 2, 3], most: 0).isEmpty)
    #expect(drafter.draft(after: [1, 2, 3, 4], most: 15).count == 15)
    let once = drafter.reliability
    #expect(once > begin)
    _ = drafter.draft(after: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14], most: 15)
    #expect(drafter.reliability > once)
    // Only the first that differs counts: nothing was drafted after it.
    let many = drafter.reliability
    _ = drafter.draft(after: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0, 16, 17, 18], most: 15)
    #expect(drafter.reliability < many)
    #expect(drafter.reliability > 0.7)
  }

  @Test func `drafted tokens are added while they raise the tokens per second`() {
    let cost = StepCost(fixed: 0.009, perRow: 0.006)
    var one = DraftBudget(cost, rows: 1)
    #expect(one.add(most: 15, reliability: 0.3) == 0)
    #expect(one.tokens == 1)
    #expect(one.add(most: 15, reliability: 0.9) == 4)
    var sure = DraftBudget(cost, rows: 1)
    #expect(sure.add(most: 15, reliability: 1) == 15)
    #expect(sure.tokens == 16)
    // Where a step is arithmetic, a drafted token must be almost sure; where it is memory, almost none is too bold.
    var crowd = DraftBudget(cost, rows: 32)
    #expect(crowd.add(most: 15, reliability: 0.9) == 0)
    var memory = DraftBudget(StepCost(fixed: 0.015, perRow: 0.0001), rows: 1)
    #expect(memory.add(most: 15, reliability: 0.7) == 10)
    // Before the first step nothing is known of costs.
    var unknown = DraftBudget(StepCost(), rows: 1)
    #expect(unknown.add(most: 15, reliability: 1) == 0)
  }
}
