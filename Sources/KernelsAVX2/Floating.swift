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
func factors(
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

/// `total` and sixteen weights from element `c` on times theirs of x.
@inline(__always)
func added(
  _ row: UnsafeRawPointer, _ c: Int, _ mode: FloatingMode, _ factors: (__m256, __m256),
  _ x: UnsafePointer<Float>, to total: __m256
) -> __m256 {
  let w = sixteen(row, c, mode, factors)
  return _mm256_fmadd_ps(w.1, load(x, c + 8), _mm256_fmadd_ps(w.0, load(x, c), total))
}

/// The sums of rows 0 ... last, times `factor`.
@inline(__always)
func store(
  _ totals: inout FloatRegisters, times factor: Float, upTo last: Int, _ y: UnsafeMutablePointer<Float>
) {
  let all = sums(get(&totals, 0), get(&totals, 1), get(&totals, 2), get(&totals, 3)) * factor
  for i in 0...last { y[i] = all[i] }
}
