// How many cores the control groups of a process leave.

import Testing

@testable import Platform

@Suite struct ControlGroupTests {
  @Test func `a quota is time in a period, and max or a negative one is no limit`() {
    #expect(ControlGroup.cores("150000 100000") == 1.5)
    #expect(ControlGroup.cores("50000 100000") == 0.5)
    #expect(ControlGroup.cores("max 100000") == nil)
    #expect(ControlGroup.cores("-1 100000") == nil)
    for line in ["", "100000", "1 2 3", "0 100000", "100000 0", "a b"] {
      #expect(ControlGroup.cores(Substring(line)) == nil, "\(line)")
    }
    #expect(ControlGroup.cores(nil) == nil)
  }

  @Test func `quotas are looked for in all enclosing groups of the controller`() {
    let folders = ControlGroup.folders(["2:cpuacct:/x", "1:cpu,cpuset:/a/b", "0::/c"], controller: "cpu")
    #expect(
      folders.map(\.path) == [
        "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu/a", "/sys/fs/cgroup/cpu/a/b", "/sys/fs/cgroup",
        "/sys/fs/cgroup/c", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/unified/c",
      ])
    #expect(folders.map(\.isSecond) == [false, false, false, true, true, true, true])
    #expect(ControlGroup.folders(["1:cpu:/../x", "nonsense", ""], controller: "cpu").isEmpty)
  }
}
