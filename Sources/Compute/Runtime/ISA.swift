// The instruction-set levels that have kernels.

/// The instruction-set levels with kernels of their own: those of an architecture slowest first.
package enum ISA: String, Sendable, CaseIterable, Comparable {
  /// Swift SIMD types at the compiler's baseline: SSE2 on x86-64, NEON on arm64.
  case portable
  /// AVX2, FMA, F16C.
  case avx2
  /// AVX2 and the byte products of AVX-512 VNNI in 256 bits: AVX-VNNI.
  case avxvnni
  /// AVX-512 F, BW, DQ, VL and VNNI.
  case avx512
  /// AVX-512 with the products of whole tiles of bytes: AMX.
  case amx
  /// Every arm64: NEON with fused multiply-adds.
  case neon
  /// The dot products of ARMv8.2: SDOT.
  case dotprod
  /// The matrix products of ARMv8.6: SMMLA.
  case i8mm

  /// Those that this program holds, lowest first.
  package static var built: [ISA] {
    #if arch(x86_64)
      [.portable, .avx2, .avxvnni, .avx512, .amx]
    #elseif arch(arm64)
      [.portable, .neon, .dotprod, .i8mm]
    #else
      [.portable]
    #endif
  }

  /// In the order of the cases. A machine with a level has those below it, but for AVX-VNNI: many with AVX-512 lack it.
  package static func < (a: ISA, b: ISA) -> Bool { a.rank < b.rank }

  private var rank: Int {
    switch self {
    case .portable: 0
    case .avx2: 1
    case .avxvnni: 2
    case .avx512: 3
    case .amx: 4
    case .neon: 5
    case .dotprod: 6
    case .i8mm: 7
    }
  }
}
