// The scheduler as a pure function: literal plans, and invariants over seeded random workloads.

import Support
import Testing

@testable import Inference

@Suite struct SchedulerTests {
  private func candidates(_ pending: [Int], chunkLimit: Int = .max) -> [Scheduler.Candidate] {
    pending.map { Scheduler.Candidate(pending: $0, chunkLimit: chunkLimit) }
  }

  @Test func `a prompt longer than the budget is cut into chunks`() {
    let plan = Scheduler(rowBudget: 100).plan(candidates([250]))
    #expect(plan == [.init(index: 0, rows: 100)])
  }

  @Test func `decoding sequences come before prompts`() {
    let plan = Scheduler(rowBudget: 10).plan(candidates([50, 1, 1]))
    #expect(plan == [.init(index: 0, rows: 8), .init(index: 1, rows: 1), .init(index: 2, rows: 1)])
  }

  @Test func `the oldest prompt is served first`() {
    let plan = Scheduler(rowBudget: 10).plan(candidates([6, 6, 6]))
    #expect(plan == [.init(index: 0, rows: 6), .init(index: 1, rows: 4)])
  }

  @Test func `decoding sequences beyond the budget are still served`() {
    let plan = Scheduler(rowBudget: 2).plan(candidates([1, 1, 1, 9]))
    #expect(plan.map(\.rows) == [1, 1, 1])
  }

  @Test func `half goes to the oldest prompt and half to the shortest`() {
    let plan = Scheduler(rowBudget: 100).plan(candidates([5000, 900, 30]))
    #expect(plan == [.init(index: 0, rows: 50), .init(index: 1, rows: 20), .init(index: 2, rows: 30)])
  }

  @Test func `a prompt that a short one waits for is as urgent as that one`() {
    var running = candidates([5000, 900, 700])
    running[1].urgency = 40
    #expect(
      Scheduler(rowBudget: 100).plan(running) == [.init(index: 0, rows: 50), .init(index: 1, rows: 50)])
  }

  @Test func `beside streams a prompt gets the rows that fit into the time`() {
    var running = candidates([1, 4000])
    running[0].isStream = true
    var allowance = StepAllowance()
    allowance.cost = StepCost(fixed: 0.02, perRow: 0.001, perPair: 0)
    allowance.besideStreams = 0.1
    allowance.alone = 1
    #expect(Scheduler(rowBudget: 256).plan(running, allowance).map(\.rows) == [1, 79])
    running[1].computed = 100_000
    allowance.cost.perPair = 1e-8
    #expect(Scheduler(rowBudget: 256).plan(running, allowance).map(\.rows) == [1, 39])
    running[0].isStream = false
    #expect(Scheduler(rowBudget: 256).plan(running, allowance).map(\.rows) == [1, 255])
  }

  @Test func `a prompt that comes first has its rows before the oldest, and the step stays short`() {
    var running = candidates([4000, 12, 30])
    running[2].comesFirst = true
    var allowance = StepAllowance()
    allowance.cost = StepCost(fixed: 0.02, perRow: 0.001, perPair: 0)
    allowance.besideStreams = 0.1
    allowance.alone = 1
    let plan = Scheduler(rowBudget: 256).plan(running, allowance).map(\.rows)
    #expect(plan[2] == 30 && plan.reduce(0, +) <= 82 && plan[0] > 12, "\(plan)")
    running[2].comesFirst = false
    #expect(Scheduler(rowBudget: 256).plan(running, allowance).map(\.rows) == [214, 12, 30])
    // One that waits for another's prefill holds nobody up.
    running[2] = Scheduler.Candidate(pending: 0, comesFirst: true)
    #expect(Scheduler(rowBudget: 256).plan(running, allowance).map(\.rows) == [244, 12])
    running = candidates([4000, 900])
    running[1].comesFirst = true
    #expect(Scheduler(rowBudget: 100).plan(running).map(\.rows) == [1, 99])
  }

  @Test func `where decoding alone takes too long, prompts still get a fifth of the step`() {
    var running = candidates([1, 4000])
    running[0].isStream = true
    var allowance = StepAllowance()
    allowance.cost = StepCost(fixed: 0.396, perRow: 0.004, perPair: 0)
    allowance.besideStreams = 0.1
    #expect(Scheduler(rowBudget: 256).plan(running, allowance).map(\.rows) == [1, 25])
    allowance.cost.perRow = 10
    #expect(Scheduler(rowBudget: 256).plan(running, allowance).map(\.rows) == [1, 1])
  }

  @Test func `a chunk limit bounds one sequence and leaves the budget to others`() {
    let running = [
      Scheduler.Candidate(pending: 40, chunkLimit: 16), Scheduler.Candidate(pending: 40, chunkLimit: .max),
    ]
    #expect(Scheduler(rowBudget: 32).plan(running) == [.init(index: 0, rows: 16), .init(index: 1, rows: 16)])
  }

  @Test func `random workloads finish, in bounded steps, within the budget`() {
    var random = SeededGenerator(seed: 7)
    for _ in 0..<200 {
      let scheduler = Scheduler(rowBudget: Int.random(in: 1...64, using: &random))
      var pending = (0..<Int.random(in: 1...12, using: &random)).map { _ in
        Int.random(in: 1...300, using: &random)
      }
      var steps = 0
      while pending.contains(where: { $0 > 0 }) {
        let live = pending.indices.filter { pending[$0] > 0 }
        let plan = scheduler.plan(live.map { .init(pending: pending[$0], chunkLimit: .max) })
        let decoding = live.filter { pending[$0] == 1 }.count
        #expect(!plan.isEmpty)
        #expect(plan.reduce(0) { $0 + $1.rows } <= max(scheduler.rowBudget, decoding))
        for share in plan { pending[live[share.index]] -= share.rows }
        #expect(pending.allSatisfy { $0 >= 0 })
        steps += 1
        #expect(steps < 5000)
      }
    }
  }
}
