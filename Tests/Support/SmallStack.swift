// A thread with as little stack as the server's threads have, for tests of recursion.

import Platform
import Synchronization

private final class Outcome: Sendable {
  let error = Mutex<(any Error)?>(nil)
}

/// Runs `body` on a thread with a stack of 512 KiB, waits, and throws what it throws.
package func onSmallStack(_ body: @Sendable @escaping () throws -> Void) throws {
  let outcome = Outcome()
  let thread = try Thread(name: "small stack", stackBytes: 512 << 10) {
    do { try body() } catch { outcome.error.withLock { $0 = error } }
  }
  thread.join()
  if let error = outcome.error.withLock({ $0 }) { throw error }
}
