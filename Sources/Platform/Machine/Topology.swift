// The processors that this process may run on: which of them share a core, and which memory lies near them.

/// Processors as the system numbers them, by core and by node of memory.
package struct Topology: Sendable, Equatable {
  /// Processors of one node of memory, in the order of their numbers.
  package let nodes: [[Int]]
  /// Cores that these are threads of.
  package let cores: Int

  /// What this process had at its first look.
  package static let here = Topology(allowed: allowed)

  /// - Parameters:
  ///   - allowed: the processors that may be used; nil where the system does not tell.
  ///   - read: gives the line that a file of the kernel has.
  init(allowed: [Int]?, read: (_ path: String) -> Substring? = { PseudoFile.lines($0).first }) {
    let online = max(1, Int(sysconf(Int32(_SC_NPROCESSORS_ONLN))))
    let told = allowed ?? []
    let allowed = Set(told.isEmpty ? Array(0..<online) : told)
    func list(_ path: String) -> [Int] { Self.numbers(read("/sys/devices/system/" + path) ?? "") }
    let firstOfCores = allowed.map { processor -> Int in
      let siblings = list("cpu/cpu\(processor)/topology/thread_siblings_list")
      return siblings.first { allowed.contains($0) } ?? processor
    }
    cores = Set(firstOfCores).count
    var nodes: [[Int]] = []
    var rest = allowed
    for node in list("node/online") {
      let near = list("node/node\(node)/cpulist").filter { rest.remove($0) != nil }
      if !near.isEmpty { nodes.append(near) }
    }
    // A system without nodes, or one that leaves processors out, has no far memory that it tells of.
    self.nodes = rest.isEmpty ? nodes : [allowed.sorted()]
  }

  /// Threads for work that keeps a core busy: one for each core, so that other programs and the threads of the server find
  /// place on the rest. Where there are fewer than four, the second threads of cores count too: they hide some of the time
  /// that a small machine waits for its memory.
  package var workers: Int { cores >= 4 ? cores : nodes.reduce(0) { $0 + $1.count } }

  /// The affinity mask of the process; nil where the system does not tell.
  private static var allowed: [Int]? {
    // glibc hides sched_getaffinity behind _GNU_SOURCE.
    let line = PseudoFile.lines("/proc/self/status").first { $0.hasPrefix("Cpus_allowed_list:") }
    return line.map { numbers($0.dropFirst(18)) }
  }

  /// The numbers of a list such as `0-3,8`, ascending; none of a text that is no list.
  static func numbers(_ list: Substring) -> [Int] {
    var numbers: Set<Int> = []
    for part in list.split(separator: ",") {
      let bounds = part.split(separator: "-", omittingEmptySubsequences: false)
        .map { Int(String($0.filter { !$0.isWhitespace })) ?? -1 }
      // Linux has at most 8,192 processors.
      guard bounds.count <= 2, let first = bounds.first, let last = bounds.last, first >= 0, last >= first,
        last < 1 << 16
      else { return [] }
      numbers.formUnion(first...last)
    }
    return numbers.sorted()
  }
}
