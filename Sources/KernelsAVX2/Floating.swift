// Weights in the floating modes (mxfp4, mxfp8, nvfp4) in AVX2: unpacked, and multiplied with few rows of x.
//
// An E2M1 element is one of eight magnitudes and a sign: a register holds the magnitudes times the group's scale, and a
// permute by the low three bits looks them up. An E4M3 element becomes a float by moving its exponent and mantissa into
// place and multiplying by 2^120. Every weight is one product rounded once, as in the scalar twin.

import _Builtin_intrinsics.intel

/// The codes of Compute's FloatingMode.
private let mxfp8 = 1
private let nvfp4 = 2

/// What the elements of a group are looked up in or multiplied with.
@inline(__always)
private func factors(_ scales: UnsafeRawPointer, _ mode: Int, _ group: Int) -> __m256 {
  let code = _mm256_set1_epi32(Int32((scales + group).load(as: Int8.self)))
  let scale = scaleValues(code, mode == nvfp4)
  if mode == mxfp8 { return scale }
  return _mm256_mul_ps(_mm256_set_ps(6, 4, 3, 2, 1.5, 1, 0.5, 0), scale)
}

/// Eight weights from element `c` on.
@inline(__always)
private func eight(_ row: UnsafeRawPointer, _ c: Int, _ mode: Int, _ factors: __m256) -> __m256 {
  let signs = _mm256_set1_epi32(Int32.min)
  if mode == mxfp8 {
    // Sign-extended, so that the sign is in place already.
    let q = _mm256_cvtepi8_epi32(_mm_cvtsi64_si128((row + c).loadUnaligned(as: Int64.self)))
    let magnitude = _mm256_and_si256(_mm256_slli_epi32(q, 20), _mm256_set1_epi32(0x07F0_0000))
    let bits = _mm256_or_si256(_mm256_and_si256(q, signs), magnitude)
    return _mm256_mul_ps(_mm256_mul_ps(_mm256_castsi256_ps(bits), _mm256_set1_ps(0x1p120)), factors)
  }
  // Each lane's nibble in the highest bits.
  let word = _mm256_set1_epi32((row + c / 2).loadUnaligned(as: Int32.self))
  let q = _mm256_sllv_epi32(word, _mm256_set_epi32(0, 4, 8, 12, 16, 20, 24, 28))
  let magnitude = _mm256_permutevar8x32_ps(factors, _mm256_srli_epi32(q, 28))
  return _mm256_xor_ps(magnitude, _mm256_castsi256_ps(_mm256_and_si256(q, signs)))
}

/// `out[i] = scale · element[i]` for whole groups; see Compute's KernelTable.UnpackFloating.
package func unpackFloating(
  packed: UnsafeRawPointer, scales: UnsafeRawPointer, mode: Int, count: Int, out: UnsafeMutablePointer<Float>
) {
  // The mode is a constant in each specialisation: no branch per group.
  switch mode {
  case mxfp8: unpackRow(packed, scales, mxfp8, 32, count, out)
  case nvfp4: unpackRow(packed, scales, nvfp4, 16, count, out)
  default: unpackRow(packed, scales, 0, 32, count, out)
  }
}

@inline(__always)
private func unpackRow(
  _ packed: UnsafeRawPointer, _ scales: UnsafeRawPointer, _ mode: Int, _ groupSize: Int, _ count: Int,
  _ out: UnsafeMutablePointer<Float>
) {
  var c = 0
  for group in 0..<count / groupSize {
    let factors = factors(scales, mode, group)
    for _ in 0..<groupSize / 8 {
      _mm256_storeu_ps(out + c, eight(packed, c, mode, factors))
      c += 8
    }
  }
}

/// As `unpackFloating` followed by `multiplyF32`, to the bit; see Compute's KernelTable.MultiplyFloating.
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
  var (t0, t1) = (_mm256_setzero_ps(), _mm256_setzero_ps())
  var c = 0
  for group in 0..<columns / groupSize {
    let (f0, f1) = (factors(s0, mode, group), factors(s1, mode, group))
    for _ in 0..<groupSize / 8 {
      t0 = _mm256_fmadd_ps(eight(w0, c, mode, f0), load(x, c), t0)
      t1 = _mm256_fmadd_ps(eight(w1, c, mode, f1), load(x, c), t1)
      c += 8
    }
  }
  y0[0] = sum(t0)
  y1[0] = sum(t1)
}
