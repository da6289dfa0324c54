// One set of kernels, threads and buffers for several models: their engines take turns, one step each.
//
// Two pools of threads that look out for work would fight for the same cores. With turns there are never more kernel
// threads than were configured, and a step runs as fast as it would alone. Turns are given in the order of their tickets,
// so engines that are all busy compute one step each in rotation.

import Platform

/// `@unchecked Sendable`: the context is only reached by the thread whose turn it is, and what an earlier turn wrote
/// happened before, by way of the monitor.
package final class SharedCompute: @unchecked Sendable {
  private struct Queue {
    var nextTicket = 0
    var serving = 0
  }

  private let context: ComputeContext
  private let queue = Monitor(Queue())

  package init(_ context: sending ComputeContext) { self.context = context }

  /// Waits for the turn and runs `body` in it. What `body` keeps of the context may be used in later turns only.
  /// Not reentrant.
  package func withTurn<Result, Failure: Error>(
    _ body: (ComputeContext) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    let ticket = queue.withLock { queue -> Int in
      defer { queue.nextTicket += 1 }
      return queue.nextTicket
    }
    let _: Bool? = queue.wait { $0.serving == ticket ? true : nil }
    defer { queue.update { $0.serving += 1 } }
    return try body(context)
  }
}
