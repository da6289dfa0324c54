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

  @Test func `a missing pseudo file has no lines`() { #expect(PseudoFile.lines("/none/such") == []) }
}
