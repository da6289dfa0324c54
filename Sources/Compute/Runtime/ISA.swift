// The instruction-set levels that have kernels.

/// The instruction-set levels with kernels of their own: those of an architecture lowest first.
package enum ISA: String, Sendable, CaseIterable, Comparable {
  /// Swift SIMD types at the compiler's baseline: SSE2 on x86-64, NEON on arm64.
  case portable
  /// AVX2, FMA, F16C.
  case avx2
  /// AVX-512 F, BW, DQ, VL and VNNI.
  case avx512
  /// Every arm64: NEON with fused multiply-adds.
  case neon
  /// The dot products of ARMv8.2: SDOT.
  case dotprod
  /// The matrix products of ARMv8.6: SMMLA.
  case i8mm

  /// In the order of the cases: a machine with a level has all of its architecture below it.
  package static func < (a: ISA, b: ISA) -> Bool { a.rank < b.rank }

  private var rank: Int {
    switch self {
    case .portable: 0
    case .avx2: 1
    case .avx512: 2
    case .neon: 3
    case .dotprod: 4
    case .i8mm: 5
    }
  }
}
