// Schedules of threads that a seed chooses: what only some orders show is found, and found again.

import Platform
import Support
import Testing

#if DEBUG
  struct ScheduleTests {
    /// Two threads that add one each to a number, with a look and a change of their own; what is there afterwards.
    private func sum(seed: UInt64) throws -> (sum: Int, trace: UInt64) {
      let schedule = Schedule(seed: seed)
      let number = Monitor(0)
      let add: @Sendable () -> Void = {
        let before = number.withLock { $0 }
        number.withLock { $0 = before + 1 }
      }
      #expect(try schedule.run([add, add]))
      return (number.withLock { $0 }, schedule.trace)
    }

    @Test func `some schedules lose a change that was made without a last look, always the same ones`() throws
    {
      let found = try (0..<60).map { try sum(seed: $0) }
      #expect(Set(found.map(\.sum)) == [1, 2])
      let again = try (0..<60).map { try sum(seed: $0) }
      #expect(found.map(\.sum) == again.map(\.sum) && found.map(\.trace) == again.map(\.trace))
    }

    @Test func `whoever waits goes on after an update, and by the time where nobody else can`() throws {
      for seed in 0..<30 as Range<UInt64> {
        let schedule = Schedule(seed: seed, isSlow: seed % 2 == 0)
        let (value, log) = (Monitor(0), Monitor<[String]>([]))
        let isOver = try schedule.run([
          {
            let found = value.wait { $0 > 0 ? $0 : nil }
            log.withLock { $0.append("found \(found ?? 0)") }
          },
          {
            // One that it starts belongs to the schedule too.
            let helper = try? Thread(name: "helper") { value.update { $0 = 7 } }
            helper?.detach()
            let start = Instant.now
            let never = value.wait(until: start.adding(seconds: 3_600)) { $0 == 8 ? true : nil }
            let seconds = Instant.now.seconds(since: start)
            log.withLock { $0.append("\(never == nil ? "late" : "never") after \(seconds)") }
          },
        ])
        #expect(isOver && log.withLock { $0.sorted() } == ["found 7", "late after 3600.0"])
      }
    }

    @Test func `threads that wait for each other are told`() throws {
      var stuck = 0
      for seed in 0..<40 as Range<UInt64> {
        let (a, b) = (Monitor(0), Monitor(0))
        let isOver = try Schedule(seed: seed).run([
          { a.withLock { _ in b.withLock { $0 = 1 } } }, { b.withLock { _ in a.withLock { $0 = 1 } } },
        ])
        stuck += isOver ? 0 : 1
      }
      #expect(stuck > 0 && stuck < 40)
    }
  }
#endif
