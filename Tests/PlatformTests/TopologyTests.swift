// How processors, cores and nodes of memory are read from what Linux tells.

import Testing

@testable import Platform

@Suite struct TopologyTests {
  @Test func `this machine has a processor, and as many cores at most`() {
    let processors = Topology.here.nodes.joined()
    #expect(!processors.isEmpty && Set(processors).count == processors.count)
    #expect((1...processors.count).contains(Topology.here.cores))
  }

  @Test(arguments: [
    ("0", [0]), ("0-3", [0, 1, 2, 3]), ("0-1,8,10-11", [0, 1, 8, 10, 11]), ("\t2-3 ", [2, 3]),
    ("3,1", [1, 3]),
    ("", []), ("x", []), ("3-1", []), ("-1", []), ("1-", []), ("0-99999999999", []), ("1-2-3", []),
    ("0-70000", []), ("99999999999999999999", []),
  ])
  func `lists of processors are read, and what is none is not`(text: String, numbers: [Int]) {
    #expect(Topology.numbers(Substring(text)) == numbers)
  }

  /// What a machine tells in files: reads one of them.
  private func system(siblings: [Int: String], nodes: [String]?) -> (String) -> Substring? {
    var files: [String: Substring] = [:]
    for (processor, list) in siblings {
      files["/sys/devices/system/cpu/cpu\(processor)/topology/thread_siblings_list"] = Substring(list)
    }
    if let nodes {
      files["/sys/devices/system/node/online"] = "0-\(nodes.count - 1)"
      for (node, list) in nodes.enumerated() {
        files["/sys/devices/system/node/node\(node)/cpulist"] = Substring(list)
      }
    }
    return { [files] in files[$0] }
  }

  @Test func `two sockets of four cores with two threads each`() {
    let siblings = Dictionary(uniqueKeysWithValues: (0..<16).map { ($0, "\($0 % 8),\($0 % 8 + 8)") })
    let files = system(siblings: siblings, nodes: ["0-3,8-11", "4-7,12-15"])
    let whole = Topology(allowed: Array(0..<16), read: files)
    #expect(whole.nodes == [[0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7, 12, 13, 14, 15]])
    #expect(whole.cores == 8 && whole.workers == 8)
    // One socket, by taskset or a container's set.
    let one = Topology(allowed: [4, 5, 6, 7, 12, 13, 14, 15], read: files)
    #expect(one.nodes.count == 1 && one.workers == 4)
    // Second threads alone are cores too.
    #expect(Topology(allowed: [8, 9, 10, 11], read: files).workers == 4)
    // A small share: second threads count.
    #expect(Topology(allowed: [0, 1, 8, 9], read: files).workers == 4)
    #expect(Topology(allowed: [0, 1, 8, 9], read: files).cores == 2)
  }

  @Test func `cores of two kinds are one thread each`() {
    // Six cores with two threads, and eight small ones.
    var siblings = Dictionary(uniqueKeysWithValues: (0..<12).map { ($0, "\($0 & ~1)-\($0 | 1)") })
    for small in 12..<20 { siblings[small] = "\(small)" }
    let files = system(siblings: siblings, nodes: ["0-19"])
    #expect(Topology(allowed: Array(0..<20), read: files).workers == 14)
  }

  @Test func `a system that tells little is one node of cores`() {
    let files = system(siblings: [:], nodes: nil)
    let topology = Topology(allowed: [0, 1, 2, 3, 4], read: files)
    #expect(topology.nodes == [[0, 1, 2, 3, 4]] && topology.workers == 5)
    #expect(Topology(allowed: nil).cores >= 1)
    #expect(Topology(allowed: []).cores >= 1)
  }

  @Test func `nodes that leave a processor out are not believed`() {
    let files = system(siblings: [:], nodes: ["0-1", "", "1-2"])
    #expect(Topology(allowed: [0, 1, 2], read: files).nodes == [[0, 1], [2]])
    #expect(Topology(allowed: [0, 1, 2, 3], read: files).nodes == [[0, 1, 2, 3]])
  }
}
