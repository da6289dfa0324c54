// Weights in the floating modes in AVX2: unpacked, and multiplied with few rows of x.
//
// An E2M1 element is one of eight magnitudes and a sign: a register holds the magnitudes times the group's scale, and a
// permute by the low three bits looks them up; a table of sixteen floats is two registers. An E4M3 element has its fields in the places of a half-precision float
// after one shift, and is 2^8 times that one; the conversion takes subnormal numbers at full speed, a multiplication would
// not. Every weight is one product rounded once, as in the scalar twin.

package import KernelTypes
import _Builtin_intrinsics.intel

/// What the elements of a group are looked up in or multiplied with. The second register is the upper half of a table.
@inline(__always)
private func factors(
  _ weights: FloatingRows, _ scales: UnsafeRawPointer, _ mode: FloatingMode, _ group: Int
) -> (__m256, __m256) {
  if mode.hasFloatScales {
    let scale = _mm256_set1_ps((scales + 4 * (group &>> weights.scaleShift)).loadUnaligned(as: Float.self))
    guard case .table = mode else { return (scale, scale) }
    let table = weights.table
    return (
      _mm256_mul_ps(table.loadUnaligned(as: __m256.self), scale),
      _mm256_mul_ps((table + 32).loadUnaligned(as: __m256.self), scale)
    )
  }
  let factors = byteFactors(scales, mode, group)
  return (factors, factors)
}

@inline(__always)
private func byteFactors(_ scales: UnsafeRawPointer, _ mode: FloatingMode, _ group: Int) -> __m256 {
  let code = UInt64((scales + group).load(as: UInt8.self))
  let scale = scaleValues(code &* 0x0101_0101_0101_0101, mode)
  let magnitudes = _mm256_set_ps(6, 4, 3, 2, 1.5, 1, 0.5, 0)
  switch mode {
  case .nvfp4: return _mm256_mul_ps(magnitudes * 256, scale)
  case .mxfp4: return _mm256_mul_ps(magnitudes, scale)
  case .mxfp8, .fp8, .table: return scale
  }
}

/// What `sixteen` leaves to multiply by: a power of two, so that it may follow the products.
@inline(__always)
private func unit(_ mode: FloatingMode) -> Float {
  mode.bits == 8 ? 256 : 1
}

/// Sixteen weights from element `c` on; of E4M3 elements 2^-8 times them.
@inline(__always)
private func sixteen(
  _ row: UnsafeRawPointer, _ c: Int, _ mode: FloatingMode, _ factors: (__m256, __m256)
) -> (__m256, __m256) {
  guard mode.bits == 8 else { return (eight(row, c, mode, factors), eight(row, c + 8, mode, factors)) }
  // The sign is extended, so that it is in place already, and in one place too many.
  let q = _mm256_cvtepi8_epi16(_mm_loadu_si128((row + c).assumingMemoryBound(to: __m128i.self)))
  let halves = _mm256_and_si256(_mm256_slli_epi16(q, 7), _mm256_set1_epi16(Int16(bitPattern: 0xBFFF)))
  return (
    _mm256_mul_ps(_mm256_cvtph_ps(halves.lowHalf), factors.0),
    _mm256_mul_ps(_mm256_cvtph_ps(halves.highHalf), factors.0)
  )
}

/// Eight weights of elements of four bits from element `c` on.
@inline(__always)
private func eight(
  _ row: UnsafeRawPointer, _ c: Int, _ mode: FloatingMode, _ factors: (__m256, __m256)
) -> __m256 {
  // Each lane's nibble in the highest bits.
  let word = _mm256_set1_epi32((row + c / 2).loadUnaligned(as: Int32.self))
  let q = _mm256_sllv_epi32(word, _mm256_set_epi32(0, 4, 8, 12, 16, 20, 24, 28))
  let index = _mm256_srli_epi32(q, 28)
  let magnitude = _mm256_permutevar8x32_ps(factors.0, index)
  if case .table = mode {
    let upper = _mm256_permutevar8x32_ps(factors.1, index)
    return _mm256_blendv_ps(magnitude, upper, _mm256_castsi256_ps(q))
  }
  let sign = _mm256_and_si256(q, _mm256_set1_epi32(Int32.min))
  return _mm256_xor_ps(magnitude, _mm256_castsi256_ps(sign))
}

/// `out[i] = scale · element[i]` for each row of `weights`. Scalar twin: `Reference.unpackFloating`.
package func unpackFloating(_ weights: FloatingRows, into y: Output) {
  for row in 0..<weights.count {
    // The mode is a constant in each specialisation: no branch per group.
    switch weights.mode {
    case .mxfp8: unpackRow(weights, row, .mxfp8, y)
    case .nvfp4: unpackRow(weights, row, .nvfp4, y)
    case .mxfp4: unpackRow(weights, row, .mxfp4, y)
    case .fp8: unpackRow(weights, row, .fp8, y)
    case .table: unpackRow(weights, row, .table, y)
    }
  }
}

@inline(__always)
private func unpackRow(_ weights: FloatingRows, _ row: Int, _ mode: FloatingMode, _ y: Output) {
  let (packed, out) = (weights.packed + row * weights.rowBytes, y.base + row * y.stride)
  let scales = weights.scales + row * weights.scaleRowBytes
  var c = 0
  for group in 0..<weights.columns / mode.groupSize {
    let factors = factors(weights, scales, mode, group)
    for _ in 0..<mode.groupSize / 16 {
      let (first, second) = sixteen(packed, c, mode, factors)
      _mm256_storeu_ps(out + c, _mm256_mul_ps(first, _mm256_set1_ps(unit(mode))))
      _mm256_storeu_ps(out + c + 8, _mm256_mul_ps(second, _mm256_set1_ps(unit(mode))))
      c += 16
    }
  }
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
  let zero = _mm256_setzero_ps()
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
      let (first, second) = (load(x, c), load(x, c + 8))
      t0 = add(sixteen(w0, c, mode, f0), first, second, t0)
      t1 = add(sixteen(w1, c, mode, f1), first, second, t1)
      t2 = add(sixteen(w2, c, mode, f2), first, second, t2)
      t3 = add(sixteen(w3, c, mode, f3), first, second, t3)
    }
  }
  let totals = sums(t0, t1, t2, t3) * unit(mode)
  for i in 0...last { y[i] = totals[i] }
}

@inline(__always)
private func add(_ w: (__m256, __m256), _ first: __m256, _ second: __m256, _ total: __m256) -> __m256 {
  _mm256_fmadd_ps(w.1, second, _mm256_fmadd_ps(w.0, first, total))
}
