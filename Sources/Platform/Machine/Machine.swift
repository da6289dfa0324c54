// What the machine offers, and how the heap gives memory back to it.

/// The machine as this process sees it.
package enum Machine {
  /// Threads that may compute at a time, at least 1: one for each core that the process may run on (`Topology.workers`), fewer
  /// where its control groups leave less time. Whole ones: a thread that is stopped in the middle of a fork holds up all others.
  package static var cores: Int {
    let allowed = Topology.here.workers
    guard let quota = ControlGroup.cores else { return allowed }
    return max(1, min(allowed, Int(quota.rounded(.down))))
  }

  /// The name that the machine has for itself; nil when it has none.
  package static var name: String? {
    var buffer = [CChar](repeating: 0, count: 256)
    guard gethostname(&buffer, buffer.count - 1) == 0 else { return nil }
    let bytes = buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }
    return bytes.isEmpty ? nil : String(decoding: bytes, as: UTF8.self)
  }

  /// Physical memory, bytes.
  package static var memoryBytes: Int {
    #if canImport(Darwin)
      var size: UInt64 = 0
      var length = MemoryLayout<UInt64>.size
      sysctlbyname("hw.memsize", &size, &length, nil, 0)
      return Int(clamping: size)
    #else
      return sysconf(Int32(_SC_PHYS_PAGES)) * sysconf(Int32(_SC_PAGESIZE))
    #endif
  }

  /// Memory that can be had without taking it from other programs, bytes; nil where the system does not say.
  package static var availableBytes: Int? {
    #if os(Linux)
      let line = PseudoFile.lines("/proc/meminfo").first { $0.hasPrefix("MemAvailable:") }
      return line?.split(separator: " ").dropFirst().first.flatMap { Int($0) }.map { $0 << 10 }
    #else
      return nil
    #endif
  }

  /// Gives memory that the heap keeps for later back to the system.
  package static func trimHeap() {
    #if canImport(Glibc)
      // Not in the C library's module; the null handle means all that is loaded.
      guard let symbol = dlsym(nil, "malloc_trim") else { return }
      _ = unsafeBitCast(symbol, to: (@convention(c) (Int) -> Int32).self)(0)
    #endif
  }

  /// Has the heap keep less for later, in every thread. Called once, at the start.
  ///
  /// By itself glibc makes large blocks mappings of their own only until the first of them is freed: from then on blocks
  /// up to that size come from the arena of the thread, of which there are eight per core, and each arena keeps twice
  /// that size. Setting the sizes ends that: after 60 bodies of 6 MiB 3 MiB stayed instead of up to 160.
  ///
  /// One arena per core is all that run at a time. What lives long lies scattered among what does not, and each page that
  /// it lies in stays: with fewer arenas these are fewer.
  package static func returnFreedMemory() {
    #if canImport(Glibc)
      guard let symbol = dlsym(nil, "mallopt") else { return }
      let set = unsafeBitCast(symbol, to: (@convention(c) (Int32, Int32) -> Int32).self)
      let (trimThreshold, mapThreshold, mostArenas): (Int32, Int32, Int32) = (-1, -3, -8)
      // Not smaller: what a step needs for each token is not to be mapped anew every time.
      _ = set(mapThreshold, 1 << 20)
      _ = set(trimThreshold, 1 << 20)
      _ = set(mostArenas, Int32(clamping: cores))
    #endif
  }

  /// Largest resident set of this process so far, bytes.
  package static var peakResidentBytes: Int {
    var usage = rusage()
    #if canImport(Darwin)
      getrusage(RUSAGE_SELF, &usage)
      return usage.ru_maxrss
    #else
      getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
      return usage.ru_maxrss * 1024
    #endif
  }
}
