// One set of kernels, threads and buffers for several models: their engines take turns, one step each.
//
// Two pools of threads that look out for work would fight for the same cores. With turns there are never more kernel
// threads than were configured, and a step runs as fast as it would alone. Turns are given in the order of their tickets,
// so engines that are all busy compute one step each in rotation.

package import Platform

/// `@unchecked Sendable`: the context is only reached by the thread whose turn it is, and what an earlier turn wrote
/// happened before, by way of the monitor.
package final class SharedCompute: @unchecked Sendable {
  private struct Queue {
    var nextTicket = 0
    var serving = 0
    /// When a turn ended last that somebody waited for.
    var lastForeground: Instant?
    /// Seconds that the background has had and the others have not had since.
    var debt = 0.0
    /// Seconds of the background's turn that others have had.
    var lent = 0.0
  }

  /// Others are at work when one of their turns ended within these seconds, or waits.
  private static let recent = 0.05

  private let context: ComputeContext
  private let queue = Monitor(Queue())

  package init(_ context: sending ComputeContext) { self.context = context }

  /// Whether work that nobody waits for may ask for a turn: while others are at work, it gets no more time than they do.
  package func allowsBackground(at now: Instant) -> Bool {
    queue.withLock { queue in
      guard queue.debt > 0 else { return true }
      let isQuiet =
        queue.serving == queue.nextTicket && !Self.isRecent(queue.lastForeground, now, Self.recent)
      // What was had in quiet times is nobody's loss.
      if isQuiet { queue.debt = 0 }
      return isQuiet
    }
  }

  /// Whether somebody waits while another has the turn.
  package var hasWaiting: Bool { queue.withLock { $0.nextTicket - $0.serving > 1 } }

  /// Whether somebody has waited for a turn within some seconds.
  package func isWanted(at now: Instant, within seconds: Double) -> Bool {
    queue.withLock { Self.isRecent($0.lastForeground, now, seconds) }
  }

  private static func isRecent(_ time: Instant?, _ now: Instant, _ seconds: Double) -> Bool {
    time.map { now.seconds(since: $0) < seconds } ?? false
  }

  /// Waits for the turn and runs `body` in it. What `body` keeps of the context may be used in later turns only.
  /// Not reentrant.
  ///
  /// - Parameter isBackground: whether nobody waits for what is computed.
  package func withTurn<Result, Failure: Error>(
    isBackground: Bool = false, _ body: (ComputeContext) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    let ticket = queue.withLock { queue -> Int in
      defer { queue.nextTicket += 1 }
      return queue.nextTicket
    }
    let _: Bool? = queue.wait { $0.serving == ticket ? true : nil }
    let begin = Instant.now
    defer {
      let now = Instant.now
      queue.update { queue in
        queue.serving += 1
        let seconds = now.seconds(since: begin)
        if isBackground {
          queue.debt += seconds - queue.lent
          queue.lent = 0
        } else {
          queue.debt = max(0, queue.debt - seconds)
          queue.lastForeground = now
        }
      }
    }
    return try body(context)
  }

  /// Runs `body` for somebody who waits, in a pause of the turn that the caller has for the background.
  package func inPause<Result, Failure: Error>(
    _ body: () throws(Failure) -> Result
  ) throws(Failure) -> Result {
    let begin = Instant.now
    defer {
      let now = Instant.now
      queue.withLock { queue in
        queue.lent += now.seconds(since: begin)
        queue.debt = max(0, queue.debt - now.seconds(since: begin))
        queue.lastForeground = now
      }
    }
    return try body()
  }
}
