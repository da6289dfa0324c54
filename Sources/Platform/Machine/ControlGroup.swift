// The control groups that this process is in: where their limits stand, and how many cores they leave.

/// The system's groups of processes, each of which bounds its members together. Empty on systems without them.
package enum ControlGroup {
  /// A folder that may hold limits: of a group, or of one that encloses it.
  struct Folder: Equatable {
    let path: String
    /// Of version 2, whose groups are the same for all controllers.
    let isSecond: Bool
  }

  /// Lines of /proc/self/cgroup, `id:controllers:path`; version 2 has no controllers.
  static var lines: [String] {
    #if os(Linux)
      PseudoFile.lines("/proc/self/cgroup").map(String.init)
    #else
      []
    #endif
  }

  /// The folders of a controller's groups, outermost first.
  static func folders(_ groups: [String], controller: String) -> [Folder] {
    var folders: [Folder] = []
    for line in groups {
      let parts = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
      guard parts.count == 3 else { continue }
      let isSecond = parts[1].isEmpty
      guard isSecond || parts[1].split(separator: ",").contains(Substring(controller)) else { continue }
      // In a container the path is often that of the host, while the mount shows the container's own group as root.
      let names = parts[2].split(separator: "/")
      guard !names.contains("..") else { continue }
      let roots = isSecond ? ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"] : ["/sys/fs/cgroup/\(controller)"]
      for root in roots {
        for depth in 0...min(names.count, 32) {
          let path = ([root] + names.prefix(depth).map(String.init)).joined(separator: "/")
          folders.append(Folder(path: path, isSecond: isSecond))
        }
      }
    }
    return folders
  }

  /// The cores whose time all groups together leave to this process; nil without a limit.
  static var cores: Double? {
    folders(lines, controller: "cpu").compactMap { folder in
      if folder.isSecond { return cores(PseudoFile.lines(folder.path + "/cpu.max").first) }
      let quota = PseudoFile.lines(folder.path + "/cpu.cfs_quota_us").first
      let period = PseudoFile.lines(folder.path + "/cpu.cfs_period_us").first
      guard let quota, let period else { return nil }
      return cores(quota + " " + period)
    }.min()
  }

  /// - Parameter line: time that may be used in a period, and the period, in microseconds; `max` or -1 is no limit.
  static func cores(_ line: Substring?) -> Double? {
    let words = (line ?? "").split(separator: " ")
    guard words.count == 2, let quota = Double(words[0]), let period = Double(words[1]), quota > 0, period > 0
    else { return nil }
    return quota / period
  }
}
