// What this process holds of the system: descriptors, threads, memory of its own.

package struct ProcessUsage: Sendable, Equatable {
  /// Open descriptors, without the one that counts them.
  package var descriptors: Int
  package var threads: Int
  /// Memory that no file stands behind, in the machine or swapped out: what a leak grows. Resident files, such as
  /// mapped weights, come and go with the needs of others and say nothing.
  package var privateBytes: Int

  package static var now: ProcessUsage {
    #if canImport(Darwin)
      var task = proc_taskinfo()
      let size = Int32(MemoryLayout<proc_taskinfo>.size)
      let isFilled = proc_pidinfo(getpid(), PROC_PIDTASKINFO, 0, &task, size) == size
      return ProcessUsage(
        descriptors: countDescriptors("/dev/fd"), threads: isFilled ? Int(task.pti_threadnum) : 0,
        privateBytes: isFilled ? Int(clamping: task.pti_resident_size) : 0)
    #else
      let status = PseudoFile.lines("/proc/self/status")
      let kilobytes = number("RssAnon:", in: status) + number("VmSwap:", in: status)
      return ProcessUsage(
        descriptors: countDescriptors("/proc/self/fd"), threads: number("Threads:", in: status),
        privateBytes: kilobytes << 10)
    #endif
  }

  private static func countDescriptors(_ folder: String) -> Int {
    max(0, ((try? File.names(in: folder)) ?? []).count - 1)
  }

  /// The number behind a label of /proc/self/status; 0 without such a line.
  private static func number(_ label: String, in lines: [Substring]) -> Int {
    guard let line = lines.first(where: { $0.hasPrefix(label) }) else { return 0 }
    let digits = line.utf8.dropFirst(label.utf8.count).drop { $0 == 0x20 || $0 == 0x09 }
    return Int(Substring(digits.prefix { (0x30...0x39).contains($0) })) ?? 0
  }
}
