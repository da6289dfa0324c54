// Processor time of the current thread, for tests of speed that must not depend on what else is running.

import Platform

/// Seconds of processor time that the calling thread has used so far.
package func threadSeconds() -> Double {
  var time = timespec()
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
  return Double(time.tv_sec) + Double(time.tv_nsec) * 1e-9
}

/// Seconds of processor time that `body` takes on this thread.
package func threadSeconds(of body: () throws -> Void) rethrows -> Double {
  let start = threadSeconds()
  try body()
  return threadSeconds() - start
}
