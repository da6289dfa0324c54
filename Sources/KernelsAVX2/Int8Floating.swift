// Products of int8 activations with E2M1 weights (mxfp4, nvfp4): twice an E2M1 element is a small integer.
//
// A shuffle looks up the signed integers of 32 weights. VPMADDUBSW wants one unsigned side, so x takes the weights' signs
// and the weights their magnitudes: pairs are at most 3,048. The eight lanes of a block's sums are scaled apart, since in
// nvfp4 they belong to two groups: nibbles unpack as [even | odd], so lanes 0, 1, 4, 5 are the first sixteen weights.
// A row of the result is the same whatever rows are computed with it, so one kernel serves decode and prefill.

import _Builtin_intrinsics.intel

/// `y[r · yStride + o]` for rows of x quantized in blocks of 32, [even | odd]; see Compute's Int8Kernels.MultiplyFloating.
package func multiplyInt8Floating(
  packed: UnsafeRawPointer, rowBytes: Int, scales: UnsafeRawPointer, scaleRowBytes: Int, isNVFP4: Bool,
  weightRows: Int, x: UnsafeRawPointer, xStride: Int, xRows: Int, columns: Int,
  y: UnsafeMutablePointer<Float>,
  yStride: Int
) {
  let count = columns / (isNVFP4 ? 16 : 32)
  withUnsafeTemporaryAllocation(byteCount: 8 * count, alignment: 32) { buffer in
    guard let s0 = buffer.baseAddress?.assumingMemoryBound(to: Float.self) else { return }
    let s1 = s0 + count
    var o = 0
    while o < weightRows {
      // An odd last row is computed twice, and so is the last of two or three rows of x.
      let second = min(o + 1, weightRows - 1)
      let (w0, w1) = (packed + o * rowBytes, packed + second * rowBytes)
      widenScales(scales + o * scaleRowBytes, isNVFP4, count, s0)
      widenScales(scales + second * scaleRowBytes, isNVFP4, count, s1)
      var r = 0
      while r < xRows {
        let (last, source, target) = (min(4, xRows - r) - 1, x + r * xStride, y + r * yStride)
        // Whether it is nvfp4 is a constant in each specialisation.
        switch (isNVFP4, last) {
        case (false, 0): twoByOne(w0, w1, s0, s1, false, source, columns, target + o, target + second)
        case (true, 0): twoByOne(w0, w1, s0, s1, true, source, columns, target + o, target + second)
        case (false, _):
          oneByFour(w0, s0, false, source, xStride, last, columns, target + o, yStride)
          oneByFour(w1, s1, false, source, xStride, last, columns, target + second, yStride)
        default:
          oneByFour(w0, s0, true, source, xStride, last, columns, target + o, yStride)
          oneByFour(w1, s1, true, source, xStride, last, columns, target + second, yStride)
        }
        r += 4
      }
      o += 2
    }
  }
}

/// A row's scales as floats.
@inline(__always)
private func widenScales(
  _ scales: UnsafeRawPointer, _ isNVFP4: Bool, _ count: Int, _ out: UnsafeMutablePointer<Float>
) {
  var i = 0
  while i + 8 <= count {
    let eight = _mm_cvtsi64_si128((scales + i).loadUnaligned(as: Int64.self))
    _mm256_storeu_ps(out + i, scaleValues(_mm256_cvtepu8_epi32(eight), isNVFP4))
    i += 8
  }
  while i < count {
    let code = _mm256_set1_epi32(Int32((scales + i).load(as: UInt8.self)))
    out[i] = scaleValues(code, isNVFP4)[0]
    i += 1
  }
}

/// Bytes of scale as floats: E4M3 in nvfp4, else powers of two, the smallest of which is subnormal.
@inline(__always)
func scaleValues(_ codes: __m256i, _ isNVFP4: Bool) -> __m256 {
  guard isNVFP4 else {
    return _mm256_castsi256_ps(
      _mm256_max_epi32(_mm256_slli_epi32(codes, 23), _mm256_set1_epi32(0x0040_0000)))
  }
  let magnitude = _mm256_and_si256(_mm256_slli_epi32(codes, 20), _mm256_set1_epi32(0x07F0_0000))
  let sign = _mm256_and_si256(_mm256_slli_epi32(codes, 24), _mm256_set1_epi32(Int32.min))
  return _mm256_mul_ps(_mm256_castsi256_ps(_mm256_or_si256(magnitude, sign)), _mm256_set1_ps(0x1p120))
}

/// Twice the values of 32 weights.
@inline(__always)
private func doubled(_ weights: UnsafeRawPointer) -> __m256i {
  let packed = _mm_loadu_si128(weights.assumingMemoryBound(to: __m128i.self))
  let both = _mm256_srlv_epi64(_mm256_broadcastsi128_si256(packed), _mm256_set_epi64x(4, 4, 0, 0))
  let values = _mm256_set_epi8(
    -12, -8, -6, -4, -3, -2, -1, 0, 12, 8, 6, 4, 3, 2, 1, 0, -12, -8, -6, -4, -3, -2, -1, 0, 12, 8, 6, 4, 3,
    2, 1, 0)
  return _mm256_shuffle_epi8(values, _mm256_and_si256(both, _mm256_set1_epi8(15)))
}

/// The scales of block `j`'s lanes.
@inline(__always)
private func laneScales(_ scales: UnsafePointer<Float>, _ isNVFP4: Bool, _ j: Int) -> __m256 {
  guard isNVFP4 else { return _mm256_set1_ps(scales[j]) }
  let pair = UnsafeRawPointer(scales + 2 * j).loadUnaligned(as: Double.self)
  return _mm256_permutevar_ps(
    _mm256_castpd_ps(_mm256_set1_pd(pair)), _mm256_set_epi32(1, 1, 0, 0, 1, 1, 0, 0))
}

/// Adds a block's products to a row's lanes; `half` is half the scale of x's block.
@inline(__always)
private func add(
  _ w: __m256i, _ magnitudes: __m256i, _ scales: __m256, _ x: __m256i, _ half: __m256, _ total: __m256
) -> __m256 {
  let pairs = _mm256_maddubs_epi16(magnitudes, _mm256_sign_epi8(x, w))
  let sums = _mm256_cvtepi32_ps(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
  return _mm256_fmadd_ps(sums, _mm256_mul_ps(scales, half), total)
}

@inline(__always)
private func halfScale(_ row: UnsafeRawPointer, _ at: Int) -> __m256 {
  _mm256_set1_ps(0.5 * (row + at).loadUnaligned(as: Float.self))
}

@inline(__always)
private func twoByOne(
  _ w0: UnsafeRawPointer, _ w1: UnsafeRawPointer, _ s0: UnsafePointer<Float>, _ s1: UnsafePointer<Float>,
  _ isNVFP4: Bool, _ x: UnsafeRawPointer, _ columns: Int, _ y0: UnsafeMutablePointer<Float>,
  _ y1: UnsafeMutablePointer<Float>
) {
  let a = paddedColumns(columns)
  var (t0, t1) = (_mm256_setzero_ps(), _mm256_setzero_ps())
  for j in 0..<columns / 32 {
    let (block, half) = (loadBytes(x + 32 * j), halfScale(x, a + 4 * j))
    let (p, q) = (doubled(w0 + 16 * j), doubled(w1 + 16 * j))
    t0 = add(p, _mm256_abs_epi8(p), laneScales(s0, isNVFP4, j), block, half, t0)
    t1 = add(q, _mm256_abs_epi8(q), laneScales(s1, isNVFP4, j), block, half, t1)
  }
  y0[0] = sum(t0)
  y1[0] = sum(t1)
}

/// Row i of four is row min(i, `last`).
@inline(__always)
private func oneByFour(
  _ w: UnsafeRawPointer, _ scales: UnsafePointer<Float>, _ isNVFP4: Bool, _ x0: UnsafeRawPointer,
  _ xStride: Int, _ last: Int, _ columns: Int, _ y: UnsafeMutablePointer<Float>, _ yStride: Int
) {
  let a = paddedColumns(columns)
  let (x1, x2, x3) = (x0 + min(1, last) * xStride, x0 + min(2, last) * xStride, x0 + min(3, last) * xStride)
  let zero = _mm256_setzero_ps()
  var (t0, t1, t2, t3) = (zero, zero, zero, zero)
  for j in 0..<columns / 32 {
    let weights = doubled(w + 16 * j)
    let magnitudes = _mm256_abs_epi8(weights)
    let factors = laneScales(scales, isNVFP4, j)
    let (at, scale) = (32 * j, a + 4 * j)
    t0 = add(weights, magnitudes, factors, loadBytes(x0 + at), halfScale(x0, scale), t0)
    t1 = add(weights, magnitudes, factors, loadBytes(x1 + at), halfScale(x1, scale), t1)
    t2 = add(weights, magnitudes, factors, loadBytes(x2 + at), halfScale(x2, scale), t2)
    t3 = add(weights, magnitudes, factors, loadBytes(x3 + at), halfScale(x3, scale), t3)
  }
  y[0] = sum(t0)
  if last > 0 { y[yStride] = sum(t1) }
  if last > 1 { y[2 * yStride] = sum(t2) }
  if last > 2 { y[3 * yStride] = sum(t3) }
}
