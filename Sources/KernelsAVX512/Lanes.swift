// Loads of sixteen floats, whole or as many as there are, and their sum.

import _Builtin_intrinsics.intel

/// Sixteen floats.
typealias Floats = __m512
/// 64 bytes of integers.
typealias Integers = __m512i

@inline(__always)
func load(_ base: UnsafeRawPointer, _ column: Int) -> __m512 { _mm512_loadu_ps(base + column * 4) }

@inline(__always)
func load(_ base: UnsafeRawPointer, _ column: Int, _ mask: __mmask16) -> __m512 {
  _mm512_maskz_loadu_ps(mask, base + column * 4)
}

/// The lanes of the first `count` (0...16) elements.
@inline(__always)
func tailMask(_ count: Int) -> __mmask16 { __mmask16(truncatingIfNeeded: (1 << count) - 1) }

/// The sum of all lanes, always in the same tree.
@inline(__always)
func sum(_ v: __m512) -> Float {
  let eight = v.lowHalf + v.highHalf
  let four = eight.lowHalf + eight.highHalf
  let two = four.lowHalf + four.highHalf
  return two[0] + two[1]
}
