// Which instruction sets this CPU and operating system offer.

import Platform

/// The instruction-set levels with kernels of their own, lowest first.
package enum ISA: String, Sendable, CaseIterable, Comparable {
  /// Swift SIMD types at the compiler's baseline: SSE2 on x86-64, NEON on arm64.
  case portable
  /// AVX2, FMA, F16C.
  case avx2
  /// AVX-512 F, BW, DQ, VL and VNNI.
  case avx512

  /// In the order of the cases: a machine with a level has all below it.
  package static func < (a: ISA, b: ISA) -> Bool { a.rank < b.rank }

  private var rank: Int {
    switch self {
    case .portable: 0
    case .avx2: 1
    case .avx512: 2
    }
  }
}

/// What this machine and its operating system can run: flags of /proc/cpuinfo on Linux, of sysctl on macOS.
package enum CPUFeatures {
  /// All levels this machine can run, lowest first.
  package static let available: [ISA] = levels(flags: flags())

  /// The highest level this machine can run.
  package static var best: ISA { available.last ?? .portable }

  /// The levels whose every flag (in the spelling of /proc/cpuinfo) is present.
  static func levels(flags: Set<String>) -> [ISA] {
    var levels: [ISA] = [.portable]
    guard flags.isSuperset(of: ["avx2", "fma", "f16c", "bmi2"]) else { return levels }
    levels.append(.avx2)
    let wide: Set = ["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512_vnni"]
    if flags.isSuperset(of: wide) { levels.append(.avx512) }
    return levels
  }

  private static func flags() -> Set<String> {
    #if !arch(x86_64)
      return []
    #elseif canImport(Darwin)
      let names = [
        "avx2_0": "avx2", "fma": "fma", "f16c": "f16c", "bmi2": "bmi2", "avx512f": "avx512f",
        "avx512bw": "avx512bw", "avx512cd": "avx512cd", "avx512dq": "avx512dq", "avx512vl": "avx512vl",
        "avx512vnni": "avx512_vnni",
      ]
      return Set(
        names.filter { name, _ in
          var value: Int32 = 0
          var size = MemoryLayout<Int32>.size
          return sysctlbyname("hw.optional.\(name)", &value, &size, nil, 0) == 0 && value != 0
        }.values)
    #else
      // The kernel lists a flag only when it also saves the registers on a context switch.
      let line = PseudoFile.lines("/proc/cpuinfo").first { $0.hasPrefix("flags") }
      return Set((line ?? "").split(separator: " ").map(String.init))
    #endif
  }
}
