// Threads with names and stacks.

import Testing

@testable import Platform

@Suite struct ThreadTests {
  @Test func `join waits for the body`() throws {
    let result = Monitor(0)
    let thread = try Thread(name: "worker") {
      usleep(10_000)
      result.update { $0 = 42 }
    }
    thread.join()
    #expect(result.withLock { $0 } == 42)
  }

  @Test(.timeLimit(.minutes(1))) func `a detached thread runs to its end`() throws {
    let result = Monitor(false)
    try Thread(name: "worker") { result.update { $0 = true } }.detach()
    #expect(result.wait(until: .now.adding(seconds: 20)) { $0 ? true : nil } == true)
  }

  @Test func `the stack is as large as asked`() throws {
    /// Uses about 100 bytes per level.
    func descend(_ depth: Int) -> Int { depth == 0 ? 0 : 1 + descend(depth - 1) }
    let depth = Monitor(0)
    let thread = try Thread(name: "deep", stackBytes: 16 << 20) {
      let reached = descend(20_000)
      depth.update { $0 = reached }
    }
    thread.join()
    #expect(depth.withLock { $0 } == 20_000)
  }

  @Test func `a stack size that is no whole page is rounded up`() throws {
    try Thread(name: "odd", stackBytes: (512 << 10) + 1) {}.join()
  }

  #if os(Linux)
    @Test func `the name is shown, cut to 15 bytes`() throws {
      let name = Monitor<[Substring]>([])
      let thread = try Thread(name: "a-very-long-thread-name") {
        let lines = PseudoFile.lines("/proc/thread-self/comm")
        name.update { $0 = lines }
      }
      thread.join()
      #expect(name.withLock { $0 } == ["a-very-long-thr"])
    }
  #endif
}
