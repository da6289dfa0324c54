// Signals arrive as calls on a thread, and a pipe without a reader is only an error.

import Testing

@testable import Platform

@Suite(.serialized) struct SignalsTests {
  @Test(.timeLimit(.minutes(1))) func `termination signals are counted and named, and SIGHUP can mean else`()
    throws
  {
    let seen = Monitor<[[Int]]>([])
    let hangUp: @Sendable () -> Void = { seen.update { $0.append([0, Int(SIGHUP)]) } }
    try Signals.onTermination(hangUp: hangUp) { count, signal in
      seen.update { $0.append([count, Int(signal)]) }
    }
    let expected = [[1, Int(SIGTERM)], [0, Int(SIGHUP)], [2, Int(SIGINT)]]
    for (index, entry) in expected.enumerated() {
      #expect(kill(getpid(), Int32(entry[1])) == 0)
      let all = seen.wait(until: .now.adding(seconds: 20)) { $0.count > index ? $0 : nil }
      #expect(all?.last == entry)
    }
    for number in [SIGTERM, SIGINT, SIGHUP] { signal(number, SIG_DFL) }
  }

  @Test func `writing to a pipe without a reader is an error and no signal`() {
    Signals.ignorePipe()
    var ends: [Int32] = [-1, -1]
    #expect(pipe(&ends) == 0)
    close(ends[0])
    #expect(!StandardStream.write("x", to: ends[1]))
    close(ends[1])
  }

  @Test(.timeLimit(.minutes(1))) func `a wake is seen once and by a thread that waits`() throws {
    let pipe = try WakePipe()
    let thread = try Thread(name: "waker") {
      usleep(10_000)
      pipe.wake()
      pipe.wake()
    }
    pipe.wait()
    thread.join()
    #expect(pipe.drain() == [0, 0])
    #expect(pipe.drain() == [])
  }

  @Test func `more wakes than a pipe holds do not block`() throws {
    let pipe = try WakePipe()
    for _ in 0..<100_000 { pipe.wake() }
    #expect(pipe.drain().count > 1000)
  }
}
