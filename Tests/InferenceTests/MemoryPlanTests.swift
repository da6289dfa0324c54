// The memory plan: how long a context and how many KV blocks fit.

import Testing

@testable import Inference

@Suite struct MemoryPlanTests {
  private func plan(context: Int?, free: Int, sequences: Int = 4, bytes: BlockBytes = BlockBytes(whole: 100))
    throws(InferenceError) -> MemoryPlan
  {
    try MemoryPlan(
      requestedContext: context, modelContext: 1000, maxSequences: sequences, blockTokens: 32,
      bytes: bytes, freeBytes: free)
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

  @Test func `blocks that leave the window weigh less, so that a longer context fits`() throws {
    let bytes = BlockBytes(whole: 100, sliding: 80, mostWhole: 4)
    let plan = try plan(context: nil, free: 400 + 10 * 20, bytes: bytes)
    #expect(plan.maxContext == 14 * 32)
    // Address space for narrow blocks alone.
    #expect(plan.blockCount == 30)
    #expect(bytes.bytes(of: 14) == 600)
    #expect(bytes.bytes(of: .max) == nil)
    #expect(bytes.blocks(in: 350) == 3)
    // Where all layers slide, a context takes no more than its window.
    #expect(
      try self.plan(context: nil, free: 400, bytes: BlockBytes(whole: 100, sliding: 100, mostWhole: 4))
        .maxContext == 1000)
  }
}
