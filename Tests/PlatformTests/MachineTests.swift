// What the machine reports.

import Testing

@testable import Platform

@Suite struct MachineTests {
  @Test func `there is a core and memory`() {
    #expect(Machine.cores >= 1)
    #expect(Machine.memoryBytes > 1 << 26)
    #expect((1 << 20..<Machine.memoryBytes).contains(Machine.peakResidentBytes))
  }

  @Test func `descriptors, threads and memory of the process are counted`() throws {
    let pipes = try (0..<8).map { _ in try WakePipe() }
    let usage = ProcessUsage.now
    #expect((16..<100_000).contains(usage.descriptors))
    #expect((1..<10_000).contains(usage.threads))
    #expect((1 << 18..<Machine.memoryBytes).contains(usage.privateBytes))
    withExtendedLifetime(pipes) {}
  }

  /// The address sanitizer brings an allocator of its own, which keeps what is freed to find who uses it then.
  static let hasOwnAllocator = dlsym(nil, "__asan_init") != nil

  @Test(.disabled(if: MachineTests.hasOwnAllocator, "the allocator is that of the address sanitizer"))
  func `large blocks return to the system when they are freed, in every thread`() throws {
    Machine.returnFreedMemory()
    let before = ProcessUsage.now.privateBytes
    let most = Monitor(0)
    let threads = try (0..<12).map { _ in
      try Thread(name: "blocks") {
        // Grown as a body is that comes in.
        var block: [UInt8] = []
        for _ in 0..<112 { block += [UInt8](repeating: 1, count: 1 << 16) }
        most.withLock { $0 += block.count }
      }
    }
    for thread in threads { thread.join() }
    #expect(most.withLock { $0 } == 84 << 20)
    // Other tests run meanwhile.
    #expect(ProcessUsage.now.privateBytes - before < 40 << 20)
  }

  @Test func `a missing pseudo file has no lines`() { #expect(PseudoFile.lines("/none/such") == []) }
}
