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
private func factors(
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

/// What `sixteen` leaves to multiply by: a power of two, so that it may follow the products.
@inline(__always)
private func unit(_ mode: FloatingMode) -> Float {
  mode.bits == 8 ? 256 : 1
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

/// Four rows of weights from row `o` on, of which those that are not there repeat the last: one alone would wait for its
/// chain of dependent multiply-adds.
@inline(__always)
func fourRows(
  _ weights: FloatingRows, from o: Int, _ mode: FloatingMode, _ x: UnsafePointer<Float>,
  _ y: UnsafeMutablePointer<Float>
) {
  let (rowBytes, scaleRowBytes) = (weights.rowBytes, weights.scaleRowBytes)
  let (columns, groupSize) = (weights.columns, mode.groupSize)
  let groupBytes = groupSize * mode.bits / 8
  let last = min(4, weights.count - o) - 1
  let (i1, i2) = (min(1, last), min(2, last))
  let (w0, s0) = (weights.packed + o * rowBytes, weights.scales + o * scaleRowBytes)
  let (w1, w2, w3) = (w0 + i1 * rowBytes, w0 + i2 * rowBytes, w0 + last * rowBytes)
  let (s1, s2, s3) = (s0 + i1 * scaleRowBytes, s0 + i2 * scaleRowBytes, s0 + last * scaleRowBytes)
  // The same places of the next four rows, unless that is too far.
  let ahead = rowBytes <= 2 * prefetchDistance ? 4 * rowBytes : prefetchDistance
  let zero = _mm512_setzero_ps()
  var (t0, t1, t2, t3) = (zero, zero, zero, zero)
  for group in 0..<columns / groupSize {
    let (f0, f1) = (factors(weights, s0, mode, group), factors(weights, s1, mode, group))
    let (f2, f3) = (factors(weights, s2, mode, group), factors(weights, s3, mode, group))
    let start = group * groupSize
    let at = ahead + group * groupBytes
    prefetch(w0 + at)
    prefetch(w1 + at)
    prefetch(w2 + at)
    prefetch(w3 + at)
    for i in 0..<groupSize / 16 {
      let c = start + 16 * i
      let source = load(x, c)
      t0 = _mm512_fmadd_ps(sixteen(w0, c, mode, f0), source, t0)
      t1 = _mm512_fmadd_ps(sixteen(w1, c, mode, f1), source, t1)
      t2 = _mm512_fmadd_ps(sixteen(w2, c, mode, f2), source, t2)
      t3 = _mm512_fmadd_ps(sixteen(w3, c, mode, f3), source, t3)
    }
  }
  let factor = unit(mode)
  (y[0], y[i1], y[i2], y[last]) = (sum(t0) * factor, sum(t1) * factor, sum(t2) * factor, sum(t3) * factor)
}
