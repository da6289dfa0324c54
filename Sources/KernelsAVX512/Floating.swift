// Products of few rows of x with weights in the floating modes (mxfp4, mxfp8, nvfp4) in AVX-512.
//
// The sixteen values that an E2M1 weight of a group can have are one register; a permute by the low four bits looks them
// up. An E4M3 element becomes a float by moving its exponent and mantissa into place and multiplying by 2^120.

import _Builtin_intrinsics.intel

/// The codes of Compute's FloatingMode.
private let mxfp8 = 1
private let nvfp4 = 2

/// The scale of a group: E4M3 in nvfp4, else a power of two, the smallest of which is subnormal.
@inline(__always)
private func groupScale(_ scales: UnsafeRawPointer, _ mode: Int, _ group: Int) -> Float {
  let byte = UInt32((scales + group).load(as: UInt8.self))
  guard mode == nvfp4 else { return Float(bitPattern: max(byte << 23, 0x0040_0000)) }
  return Float(bitPattern: (byte & 0x80) << 24 | (byte & 0x7F) << 20) * 0x1p120
}

/// What the elements of a group are looked up in or multiplied with.
@inline(__always)
private func factors(_ scales: UnsafeRawPointer, _ mode: Int, _ group: Int) -> __m512 {
  let scale = _mm512_set1_ps(groupScale(scales, mode, group))
  if mode == mxfp8 { return scale }
  let elements = _mm512_set_ps(-6, -4, -3, -2, -1.5, -1, -0.5, -0.0, 6, 4, 3, 2, 1.5, 1, 0.5, 0)
  return _mm512_mul_ps(elements, scale)
}

/// Sixteen weights from element `c` on.
@inline(__always)
private func sixteen(_ row: UnsafeRawPointer, _ c: Int, _ mode: Int, _ factors: __m512) -> __m512 {
  if mode == mxfp8 {
    // Sign-extended, so that the sign is in place already.
    let q = _mm512_cvtepi8_epi32(_mm_loadu_si128((row + c).assumingMemoryBound(to: __m128i.self)))
    let magnitude = _mm512_and_si512(
      _mm512_sllv_epi32(q, _mm512_set1_epi32(20)), _mm512_set1_epi32(0x07F0_0000))
    let bits = _mm512_or_si512(_mm512_and_si512(q, _mm512_set1_epi32(Int32.min)), magnitude)
    return _mm512_mul_ps(_mm512_mul_ps(_mm512_castsi512_ps(bits), _mm512_set1_ps(0x1p120)), factors)
  }
  let words = _mm512_castsi128_si512(_mm_cvtsi64_si128((row + c / 2).loadUnaligned(as: Int64.self)))
  let spread = _mm512_permutexvar_epi32(
    _mm512_set_epi32(1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0), words)
  let shifts = _mm512_set_epi32(28, 24, 20, 16, 12, 8, 4, 0, 28, 24, 20, 16, 12, 8, 4, 0)
  return _mm512_permutexvar_ps(_mm512_srlv_epi32(spread, shifts), factors)
}

/// As Compute's KernelTable.UnpackFloating followed by `multiplyF32`, to the bit; see KernelTable.MultiplyFloating.
package func multiplyFloating(
  packed: UnsafeRawPointer, rowBytes: Int, scales: UnsafeRawPointer, scaleRowBytes: Int, mode: Int,
  weightRows: Int, x: UnsafePointer<Float>, xStride: Int, xRows: Int, columns: Int,
  y: UnsafeMutablePointer<Float>, yStride: Int
) {
  for r in 0..<xRows {
    var o = 0
    while o < weightRows {
      // An odd last row is computed twice.
      let second = min(o + 1, weightRows - 1)
      let (w0, w1) = (packed + o * rowBytes, packed + second * rowBytes)
      let (s0, s1) = (scales + o * scaleRowBytes, scales + second * scaleRowBytes)
      let (source, target) = (x + r * xStride, y + r * yStride)
      // The mode is a constant in each specialisation: no branch per group.
      switch mode {
      case mxfp8: twoRows(w0, w1, s0, s1, mxfp8, 32, source, columns, target + o, target + second)
      case nvfp4: twoRows(w0, w1, s0, s1, nvfp4, 16, source, columns, target + o, target + second)
      default: twoRows(w0, w1, s0, s1, 0, 32, source, columns, target + o, target + second)
      }
      o += 2
    }
  }
}

/// Two rows of weights: one alone would wait for its chain of dependent multiply-adds.
@inline(__always)
private func twoRows(
  _ w0: UnsafeRawPointer, _ w1: UnsafeRawPointer, _ s0: UnsafeRawPointer, _ s1: UnsafeRawPointer, _ mode: Int,
  _ groupSize: Int, _ x: UnsafePointer<Float>, _ columns: Int, _ y0: UnsafeMutablePointer<Float>,
  _ y1: UnsafeMutablePointer<Float>
) {
  var (t0, t1) = (_mm512_setzero_ps(), _mm512_setzero_ps())
  var c = 0
  for group in 0..<columns / groupSize {
    let (f0, f1) = (factors(s0, mode, group), factors(s1, mode, group))
    for _ in 0..<groupSize / 16 {
      t0 = _mm512_fmadd_ps(sixteen(w0, c, mode, f0), load(x, c), t0)
      t1 = _mm512_fmadd_ps(sixteen(w1, c, mode, f1), load(x, c), t1)
      c += 16
    }
  }
  y0[0] = sum(t0)
  y1[0] = sum(t1)
}
