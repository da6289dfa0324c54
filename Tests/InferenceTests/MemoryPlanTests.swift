// The memory plan: how long a context and how many KV blocks fit.

import Testing

@testable import Inference

@Suite struct MemoryPlanTests {
  private func plan(context: Int?, free: Int, sequences: Int = 4) throws(InferenceError) -> MemoryPlan {
    try MemoryPlan(
      requestedContext: context, modelContext: 1000, maxSequences: sequences, blockTokens: 32,
      bytesPerBlock: 100,
      freeBytes: free)
  }

  @Test func `with ample memory every sequence gets the model's context`() throws {
    let plan = try plan(context: nil, free: 1 << 30)
    #expect(plan.maxContext == 1000)
    #expect(plan.blockCount == 4 * 32)
  }

  @Test func `short memory shortens a context that nobody asked for`() throws {
    let plan = try plan(context: nil, free: 1050)
    #expect(plan.maxContext == 320)
    #expect(plan.blockCount == 10)
  }

  @Test func `an explicit context that does not fit is refused with what would fit`() {
    #expect(
      throws: InferenceError.memoryTooSmall(
        neededBytes: 3200, availableBytes: 1050, context: 1000, largestContext: 320)
    ) { try plan(context: 1000, free: 1050) }
  }

  @Test func `a context beyond the model's is refused`() {
    #expect(throws: InferenceError.contextTooLarge(requested: 1001, modelLimit: 1000)) {
      try plan(context: 1001, free: 1 << 30)
    }
  }

  @Test func `no memory at all is refused, not divided by`() {
    #expect(throws: InferenceError.self) { try plan(context: nil, free: -5) }
  }
}
