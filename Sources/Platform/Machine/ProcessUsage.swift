// What this process holds of the system: descriptors, threads, memory, time.

/// One reading of what the system counts for this process; 0 where it does not tell.
package struct ProcessUsage: Sendable, Equatable {
  /// Open descriptors, without the one that counts them.
  package var descriptors = 0
  /// Most descriptors that may be open.
  package var descriptorLimit = 0
  package var threads = 0
  /// Memory that no file stands behind, in the machine or swapped out: what a leak grows. Resident files, such as
  /// mapped weights, come and go with the needs of others and say nothing. All resident memory where the system does not
  /// tell them apart.
  package var privateBytes = 0
  /// Memory in the machine, that of files included.
  package var residentBytes = 0
  /// Address space.
  package var virtualBytes = 0
  /// Of all threads, in user code and in the kernel.
  package var cpuSeconds = 0.0

  package static var now: ProcessUsage {
    var usage = ProcessUsage()
    usage.descriptorLimit = DescriptorLimit.now.soft
    usage.cpuSeconds = cpuSecondsNow
    #if canImport(Darwin)
      usage.descriptors = countDescriptors("/dev/fd")
      // iOS has no libproc.
      #if os(macOS)
        var task = proc_taskinfo()
        let size = Int32(MemoryLayout<proc_taskinfo>.size)
        guard proc_pidinfo(getpid(), PROC_PIDTASKINFO, 0, &task, size) == size else { return usage }
        usage.threads = Int(task.pti_threadnum)
        usage.residentBytes = Int(clamping: task.pti_resident_size)
        usage.privateBytes = usage.residentBytes
        usage.virtualBytes = Int(clamping: task.pti_virtual_size)
      #endif
    #else
      usage.descriptors = countDescriptors("/proc/self/fd")
      let status = PseudoFile.lines("/proc/self/status")
      usage.threads = number("Threads:", in: status)
      usage.residentBytes = number("VmRSS:", in: status) << 10
      usage.virtualBytes = number("VmSize:", in: status) << 10
      usage.privateBytes = privateBytes(in: status) ?? usage.residentBytes
    #endif
    return usage
  }

  /// `privateBytes` alone, read at less cost; nil where the system does not tell them from mapped files.
  package static var privateBytes: Int? {
    #if os(Linux)
      return privateBytes(in: PseudoFile.lines("/proc/self/status"))
    #else
      return nil
    #endif
  }

  /// - Parameter status: lines of /proc/self/status; a kernel before 4.5 has no `RssAnon`.
  static func privateBytes(in status: [Substring]) -> Int? {
    guard status.contains(where: { $0.hasPrefix("RssAnon:") }) else { return nil }
    return (number("RssAnon:", in: status) + number("VmSwap:", in: status)) << 10
  }

  private static func countDescriptors(_ folder: String) -> Int {
    max(0, ((try? File.names(in: folder)) ?? []).count - 1)
  }

  /// `cpuSeconds` alone, read at less cost.
  package static var cpuSecondsNow: Double {
    var usage = rusage()
    #if canImport(Glibc)
      getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
    #else
      getrusage(RUSAGE_SELF, &usage)
    #endif
    func seconds(_ time: timeval) -> Double { Double(time.tv_sec) + Double(time.tv_usec) * 1e-6 }
    return seconds(usage.ru_utime) + seconds(usage.ru_stime)
  }

  /// The number after a label of /proc/self/status; 0 without such a line.
  private static func number(_ label: String, in lines: [Substring]) -> Int {
    guard let line = lines.first(where: { $0.hasPrefix(label) }) else { return 0 }
    let digits = line.utf8.dropFirst(label.utf8.count).drop { $0 == 0x20 || $0 == 0x09 }
    return Int(Substring(digits.prefix { (0x30...0x39).contains($0) })) ?? 0
  }
}
