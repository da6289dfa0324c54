// What the process says of itself, and its surroundings.

import Testing

@testable import Platform

@Suite struct ProcessUsageTests {
  @Test func `a running process has memory, threads, descriptors and has used time`() {
    let usage = ProcessUsage.now
    #expect(usage.residentBytes > 1 << 20)
    #expect(usage.virtualBytes >= usage.residentBytes)
    #expect((1...usage.residentBytes).contains(usage.privateBytes))
    #expect(usage.threads >= 1)
    #expect(usage.descriptors >= 3)
    #expect(usage.descriptorLimit >= usage.descriptors)
    #expect(usage.cpuSeconds > 0)
  }

  @Test func `the limit of descriptors is raised as far as it may be`() {
    let before = DescriptorLimit.now
    #expect(before.soft <= before.hard && before.hard > 0)
    let raised = DescriptorLimit.raise()
    #expect(raised.hard == before.hard)
    #if os(Linux)
      #expect(raised.soft == before.hard)
    #endif
    #expect(ProcessUsage.now.descriptorLimit == raised.soft)
  }

  @Test func `private bytes are anonymous memory, in the machine or swapped out`() {
    let status: [Substring] = [
      "VmSize:\t  900 kB", "RssAnon:\t    300 kB", "RssFile:\t 500 kB", "VmSwap:\t 7 kB",
    ]
    #expect(ProcessUsage.privateBytes(in: status) == 307 << 10)
    #expect(ProcessUsage.privateBytes(in: ["RssAnon: 2 kB"]) == 2 << 10)
    #expect(ProcessUsage.privateBytes(in: ["VmRSS: 800 kB", "VmSwap: 7 kB"]) == nil)
  }

  @Test func `an open descriptor is counted`() throws {
    // Other tests open and close theirs meanwhile: many are needed to be seen.
    let before = ProcessUsage.now.descriptors
    let pipes = try (0..<100).map { _ in try WakePipe() }
    #expect(ProcessUsage.now.descriptors > before + 100)
    withExtendedLifetime(pipes) {}
  }

  @Test func `variables of the environment are read`() {
    setenv("MLXSERVE_TEST_VARIABLE", "", 1)
    #expect(Environment.value("MLXSERVE_TEST_VARIABLE") == "")
    unsetenv("MLXSERVE_TEST_VARIABLE")
    #expect(Environment.value("MLXSERVE_TEST_VARIABLE") == nil)
    let path = Environment.all.first { $0.name == "PATH" }
    #expect(path?.value.contains("/bin") == true)
  }

  @Test func `files that others may read are known`() throws {
    let folder = try TemporaryFolder()
    let path = folder.file("keys", [])
    #expect(!File.isOpenToOthers(path))
    #expect(chmod(path, 0o640) == 0)
    #expect(File.isOpenToOthers(path))
    #expect(!File.isOpenToOthers(path + ".missing"))
  }
}
