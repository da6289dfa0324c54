// Products of few rows of x with weights in the floating modes in AVX-512.
//
// The sixteen values that a weight of four bits can have in a group are one register; a permute by the low four bits looks
// them up. An E4M3 element has its fields in the places of a half-precision float after one shift, and is 2^8 times that one.

import KernelTypes
import _Builtin_intrinsics.intel

/// The scale of a group: E4M3 in nvfp4, else a power of two, the smallest of which is subnormal.
@inline(__always)
private func groupScale(_ scales: UnsafeRawPointer, _ mode: FloatingMode, _ group: Int) -> Float {
  let byte = UInt32((scales + group).load(as: UInt8.self))
  guard case .nvfp4 = mode else { return Float(bitPattern: max(byte << 23, 0x0040_0000)) }
  return Float(bitPattern: (byte & 0x80) << 24 | (byte & 0x7F) << 20) * 0x1p120
}

/// What the elements of a group are looked up in or multiplied with.
@inline(__always)
func factors(
  _ weights: FloatingRows, _ scales: UnsafeRawPointer, _ mode: FloatingMode, _ group: Int
) -> __m512 {
  if mode.hasFloatScales {
    let scale = _mm512_set1_ps((scales + 4 * (group &>> weights.scaleShift)).loadUnaligned(as: Float.self))
    guard case .table = mode else { return scale }
    return _mm512_mul_ps(weights.table.loadUnaligned(as: __m512.self), scale)
  }
  let scale = _mm512_set1_ps(groupScale(scales, mode, group))
  if case .mxfp8 = mode { return scale }
  let elements = _mm512_set_ps(-6, -4, -3, -2, -1.5, -1, -0.5, -0.0, 6, 4, 3, 2, 1.5, 1, 0.5, 0)
  return _mm512_mul_ps(elements, scale)
}

/// Sixteen weights from element `c` on; of E4M3 elements 2^-8 times them.
@inline(__always)
private func sixteen(_ row: UnsafeRawPointer, _ c: Int, _ mode: FloatingMode, _ factors: __m512) -> __m512 {
  if mode.bits == 8 {
    // The sign is extended, so that it is in place already, and in one place too many.
    let q = _mm256_cvtepi8_epi16(_mm_loadu_si128((row + c).assumingMemoryBound(to: __m128i.self)))
    let halves = _mm256_and_si256(_mm256_slli_epi16(q, 7), _mm256_set1_epi16(Int16(bitPattern: 0xBFFF)))
    return _mm512_mul_ps(_mm512_cvtph_ps(halves), factors)
  }
  let words = _mm512_castsi128_si512(_mm_cvtsi64_si128((row + c / 2).loadUnaligned(as: Int64.self)))
  let spread = _mm512_permutexvar_epi32(
    _mm512_set_epi32(1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0), words)
  let shifts = _mm512_set_epi32(28, 24, 20, 16, 12, 8, 4, 0, 28, 24, 20, 16, 12, 8, 4, 0)
  return _mm512_permutexvar_ps(_mm512_srlv_epi32(spread, shifts), factors)
}

/// `total` and sixteen weights from element `c` on times theirs of x.
@inline(__always)
func added(
  _ row: UnsafeRawPointer, _ c: Int, _ mode: FloatingMode, _ factors: __m512, _ x: UnsafePointer<Float>,
  to total: __m512
) -> __m512 { _mm512_fmadd_ps(sixteen(row, c, mode, factors), load(x, c), total) }

/// The sums of rows 0 ... last, times `factor`; those after them are the last one's.
@inline(__always)
func store(
  _ totals: inout FloatRegisters, times factor: Float, upTo last: Int, _ y: UnsafeMutablePointer<Float>
) {
  (y[0], y[min(1, last)], y[min(2, last)], y[last]) = (
    sum(get(&totals, 0)) * factor, sum(get(&totals, 1)) * factor, sum(get(&totals, 2)) * factor,
    sum(get(&totals, 3)) * factor
  )
}
