// Fork and join of kernel work on Dispatch; the only file that imports it.

import Dispatch
import Synchronization

/// Runs numbered tiles on a fixed number of threads, the calling one included.
///
/// Tiles are handed out one by one, so a thread that is descheduled does not hold up the others.
/// Which thread computes a tile never changes its result.
package final class WorkerPool: Sendable {
  /// Threads that work on a fork, at least 1.
  package let threads: Int
  private let next = Atomic<Int>(0)

  package init(threads: Int) { self.threads = max(1, threads) }

  /// Calls `body(tile, worker)` once for every tile in `0 ..< tiles` and returns when all are done.
  ///
  /// `worker` is in `0 ..< threads` and is never in use twice at a time: it indexes per-thread buffers.
  /// Not reentrant: one fork at a time.
  func run(tiles: Int, _ body: (_ tile: Int, _ worker: Int) -> Void) {
    let workers = min(threads, tiles)
    guard workers > 1 else {
      for tile in 0..<max(0, tiles) { body(tile, 0) }
      return
    }
    next.store(0, ordering: .relaxed)
    withoutActuallyEscaping(body) { body in
      let shared = SharedBody(call: body)
      DispatchQueue.concurrentPerform(iterations: workers) { worker in
        while true {
          let tile = next.wrappingAdd(1, ordering: .relaxed).oldValue
          if tile >= tiles { return }
          shared.call(tile, worker)
        }
      }
    }
  }
}

/// `@unchecked Sendable`: bodies are written to be called from several threads at once, each call on its own
/// tile and its own worker's buffers, and `run` does not return before the last call has.
private struct SharedBody: @unchecked Sendable {
  let call: (_ tile: Int, _ worker: Int) -> Void
}
