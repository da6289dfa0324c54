// Monotonic time for durations and wall time for labels.

/// A point on the monotonic clock. Not related to wall time.
package struct Instant: Sendable, Comparable, Hashable {
  package let nanoseconds: Int64

  package init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }

  package static var now: Instant { Instant(nanoseconds: read(CLOCK_MONOTONIC)) }

  /// Seconds from `earlier` to this instant.
  package func seconds(since earlier: Instant) -> Double {
    (Double(nanoseconds) - Double(earlier.nanoseconds)) * 1e-9
  }

  /// The instant `seconds` later; the end of time for what lies beyond it or is not a number.
  package func adding(seconds: Double) -> Instant {
    // The largest Double below 2^63 is the bound: Int64 of anything else would trap.
    let span = seconds.isNaN ? .infinity : seconds * 1e9
    let (sum, overflow) = nanoseconds.addingReportingOverflow(
      span >= 0x1p63 ? .max : span <= -0x1p63 ? .min : Int64(span))
    return Instant(nanoseconds: overflow ? (span < 0 ? .min : .max) : sum)
  }

  package static func < (a: Instant, b: Instant) -> Bool { a.nanoseconds < b.nanoseconds }

  /// Seconds since 1970 of the wall clock.
  package static var wallSeconds: Double { Double(read(CLOCK_REALTIME)) * 1e-9 }

  /// Nanoseconds since 1970 of the wall clock.
  package static var wallNanoseconds: Int64 { read(CLOCK_REALTIME) }

  /// Seconds that local time is east of Greenwich now.
  package static var utcOffset: Int {
    var seconds = time(nil)
    var local = tm()
    localtime_r(&seconds, &local)
    return local.tm_gmtoff
  }

  private static func read(_ clock: clockid_t) -> Int64 {
    #if DEBUG
      if let now = Turns.current?.now {
        return now.nanoseconds + (clock == CLOCK_REALTIME ? 1_800_000_000_000_000_000 : 0)
      }
    #endif
    var time = timespec()
    clock_gettime(clock, &time)
    // A wall clock that is wrong by centuries is no reason to end.
    return Int64(time.tv_sec) &* 1_000_000_000 &+ Int64(time.tv_nsec)
  }
}
