// What the machine reports.

import Testing

@testable import Platform

@Suite struct MachineTests {
  @Test func `there is a core and memory`() {
    #expect(Machine.cores >= 1)
    #expect(Machine.memoryBytes > 1 << 26)
    #expect((1 << 20..<Machine.memoryBytes).contains(Machine.peakResidentBytes))
  }

  @Test func `a missing pseudo file has no lines`() { #expect(PseudoFile.lines("/none/such") == []) }
}
