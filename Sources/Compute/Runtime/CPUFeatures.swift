// Which instruction sets this CPU and operating system offer.

import Platform

/// What this machine and its operating system can run: flags of /proc/cpuinfo or the auxiliary vector on Linux, of sysctl on
/// macOS.
package enum CPUFeatures {
  /// All levels this machine can run, lowest first.
  package static let available: [ISA] = levels(flags: flags())

  /// The highest level this machine can run.
  package static var best: ISA { available.last ?? .portable }

  /// The levels whose every flag (in the spelling of /proc/cpuinfo) is present.
  static func levels(flags: Set<String>) -> [ISA] {
    let avx2: Set = ["avx2", "fma", "f16c", "bmi2"]
    let avx512 = avx2.union(["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512_vnni"])
    let needs: [(level: ISA, flags: Set<String>)] = [
      (.avx2, avx2), (.avxvnni, avx2.union(["avx_vnni"])),
      (.avx512, avx512), (.amx, avx512.union(["amx_tile", "amx_int8"])),
      (.neon, ["asimd"]), (.dotprod, ["asimd", "asimddp"]), (.i8mm, ["asimd", "asimddp", "i8mm"]),
    ]
    return [.portable] + needs.filter { flags.isSuperset(of: $0.flags) }.map(\.level)
  }

  #if arch(x86_64)
    private static func flags() -> Set<String> {
      #if canImport(Darwin)
        return optional([
          "avx2_0": "avx2", "fma": "fma", "f16c": "f16c", "bmi2": "bmi2", "avx512f": "avx512f",
          "avx512bw": "avx512bw", "avx512cd": "avx512cd", "avx512dq": "avx512dq", "avx512vl": "avx512vl",
          "avx512vnni": "avx512_vnni",
        ])
      #else
        // The kernel lists a flag only when it also saves the registers on a context switch.
        let line = PseudoFile.lines("/proc/cpuinfo").first { $0.hasPrefix("flags") }
        let flags = Set((line ?? "").split(separator: " ").map(String.init))
        // But for tiles, for which a process asks.
        let hasTiles = flags.contains("amx_tile") && TileRegisters.request()
        return hasTiles ? flags : flags.subtracting(["amx_tile"])
      #endif
    }
  #elseif arch(arm64)
    private static func flags() -> Set<String> {
      #if canImport(Darwin)
        // Every Mac has NEON.
        return optional(["arm.FEAT_DotProd": "asimddp", "arm.FEAT_I8MM": "i8mm"]).union(["asimd"])
      #else
        return flags(auxiliaryVector: PseudoFile.bytes("/proc/self/auxv"))
      #endif
    }
  #else
    private static func flags() -> Set<String> { [] }
  #endif

  /// The flags of arm64 in what Linux tells a process at its start: pairs of words, a kind and a value.
  ///
  /// Emulators of one process answer this for the CPU that they stand for; /proc/cpuinfo has the machine's.
  static func flags(auxiliaryVector bytes: [UInt8]) -> Set<String> {
    // Hardware capabilities of Linux for arm64: kind, bit, name in /proc/cpuinfo.
    let known: [(kind: UInt64, bit: UInt64, name: String)] = [
      (16, 1, "asimd"), (16, 20, "asimddp"), (26, 13, "i8mm"),
    ]
    var flags: Set<String> = []
    for pair in stride(from: 0, to: bytes.count - bytes.count % 16, by: 16) {
      func word(_ at: Int) -> UInt64 { bytes[at..<at + 8].reversed().reduce(0) { $0 << 8 | UInt64($1) } }
      let (kind, value) = (word(pair), word(pair + 8))
      for entry in known where entry.kind == kind && value >> entry.bit & 1 == 1 { flags.insert(entry.name) }
    }
    return flags
  }

  #if canImport(Darwin)
    /// Those of `names` that the system has under `hw.optional`.
    private static func optional(_ names: [String: String]) -> Set<String> {
      Set(
        names.filter { name, _ in
          var value: Int32 = 0
          var size = MemoryLayout<Int32>.size
          return sysctlbyname("hw.optional.\(name)", &value, &size, nil, 0) == 0 && value != 0
        }.values)
    }
  #endif
}
