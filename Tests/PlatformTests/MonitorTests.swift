// The one lock of the project.

import Testing

@testable import Platform

@Suite struct MonitorTests {
  @Test(.timeLimit(.minutes(1))) func `updates of many threads are all counted`() throws {
    let monitor = Monitor(0)
    let threads = try (0..<4).map { _ in
      try Thread(name: "adder") { for _ in 0..<5000 { monitor.update { $0 += 1 } } }
    }
    for thread in threads { thread.join() }
    #expect(monitor.withLock { $0 } == 20_000)
  }

  @Test(.timeLimit(.minutes(1))) func `a waiter wakes when its condition holds`() throws {
    let monitor = Monitor(0)
    let thread = try Thread(name: "counter") {
      for _ in 0..<10 {
        usleep(1000)
        monitor.update { $0 += 1 }
      }
    }
    #expect(monitor.wait { $0 >= 10 ? $0 : nil } == 10)
    thread.join()
  }

  @Test func `waiting ends at the deadline`() {
    let monitor = Monitor(false)
    let start = Instant.now
    let result: Bool? = monitor.wait(until: start.adding(seconds: 0.05)) { $0 ? true : nil }
    #expect(result == nil)
    #expect((0.05..<5).contains(Instant.now.seconds(since: start)))
  }

  @Test func `a passed deadline still looks once`() {
    #expect(Monitor(5).wait(until: Instant(nanoseconds: -1)) { $0 } == 5)
    #expect(Monitor(5).wait(until: Instant(nanoseconds: -1)) { $0 > 5 ? $0 : nil } == nil)
  }

  @Test func `errors leave the lock free`() {
    struct Failure: Error {}
    let monitor = Monitor(1)
    #expect(throws: Failure.self) { try monitor.withLock { _ throws in throw Failure() } }
    #expect(throws: Failure.self) { try monitor.update { _ throws in throw Failure() } }
    #expect(monitor.withLock { $0 } == 1)
  }
}
