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

  #if canImport(Glibc)
    @Test func `a thread that has ended leaves little of its stack behind`() throws {
      guard dlsym(nil, "__asan_init") == nil else { return }
      func descend(_ depth: Int) -> Int { depth == 0 ? 0 : 1 + descend(depth - 1) }
      let found = Monitor((place: UInt(0), depth: 0))
      try Thread(name: "deep", stackBytes: 512 << 10) {
        var mark: UInt8 = 0
        let place = withUnsafeMutablePointer(to: &mark) { UInt(bitPattern: $0) }
        let depth = descend(600)
        found.update { $0 = (place, depth) }
      }.join()
      let page = UInt(getpagesize())
      // From the third page below: the thread ended on those above.
      let start = (found.withLock { $0.place } & ~(page - 1)) - 12 * page
      var states = [UInt8](repeating: 0, count: 10)
      // The C library keeps the stack for the next thread, unless it has enough of them.
      guard found.withLock({ $0.depth }) == 600,
        mincore(UnsafeMutableRawPointer(bitPattern: start), Int(10 * page), &states) == 0
      else { return }
      #expect(states.allSatisfy { $0 & 1 == 0 }, "\(states)")
    }
  #endif

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
