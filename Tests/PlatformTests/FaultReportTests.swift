// A process that a fault ends leaves a line; each case is a process of its own.

import Testing

@testable import Platform

@Suite struct FaultReportTests {
  private func report(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

  @Test func `a failed check leaves a line, and ends the process as before`() async throws {
    #if arch(x86_64)
      let ending = ExitTest.Condition.signal(SIGILL)
    #else
      let ending = ExitTest.Condition.signal(SIGTRAP)
    #endif
    let result = try #require(
      await #expect(processExitsWith: ending, observing: [\.standardErrorContent]) {
        Signals.reportFaults(version: "1.2.3")
        let thread = try Thread(name: "adder") {
          let sum = Int.max - 1 + Int(getpid())
          print(sum)
        }
        thread.join()
      })
    let text = report(result.standardErrorContent)
    #expect(text.contains("mlxserve 1.2.3: ended by SIG"))
    #expect(text.contains("(a check in the code failed) at 0x"))
    #expect(text.contains(" in thread adder. "))
    #if canImport(Glibc)
      #expect(text.split(separator: "\n").count { $0.hasSuffix("]") } > 2, "no calls: \(text)")
    #endif
  }

  @Test func `an address that is not there is told`() async throws {
    let result = try #require(
      await #expect(processExitsWith: .signal(SIGSEGV), observing: [\.standardErrorContent]) {
        Signals.reportFaults(version: "1")
        print(UnsafePointer<UInt8>(bitPattern: 0x48)?.pointee ?? 0)
      })
    let text = report(result.standardErrorContent)
    #expect(text.contains("SIGSEGV (memory that is not there) at 0x0000000000000048 in thread "))
  }

  @Test func `a full stack leaves a line too`() async throws {
    let result = try #require(
      await #expect(processExitsWith: .signal(SIGSEGV), observing: [\.standardErrorContent]) {
        Signals.reportFaults(version: "1")
        let thread = try Thread(name: "deep", stackBytes: 128 << 10) { print(depth(1)) }
        thread.join()
      })
    #expect(report(result.standardErrorContent).contains(" in thread deep. "))
  }

  @Test func `a signal that was sent has no address`() async throws {
    let result = try #require(
      await #expect(processExitsWith: .signal(SIGABRT), observing: [\.standardErrorContent]) {
        Signals.reportFaults(version: "1")
        abort()
      })
    #expect(
      report(result.standardErrorContent).contains("mlxserve 1: ended by SIGABRT (given up) in thread "))
  }

  @Test func `a mapped file that was cut is told in its own words`() async throws {
    let result = try #require(
      await #expect(processExitsWith: .exitCode(3), observing: [\.standardErrorContent]) {
        Signals.reportFaults(version: "1")
        let folder = try TemporaryFolder()
        let file = try MappedFile(folder.file("weights", [UInt8](repeating: 1, count: 100_000)))
        truncate(folder.path + "/weights", 0)
        print(file.bytes[50_000])
      })
    #expect(report(result.standardErrorContent).contains("a model file became shorter while it was mapped"))
  }
}

/// Never returns: each call needs its own frame, because its array is used after the inner call.
@inline(never)
private func depth(_ number: Int) -> Int {
  withUnsafeTemporaryAllocation(of: Int.self, capacity: 16) { frame in
    frame.initialize(repeating: number)
    let inner = depth(number &+ 1)
    return inner &+ frame[inner & 15]
  }
}
