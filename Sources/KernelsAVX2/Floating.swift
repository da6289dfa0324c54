// Weights in the floating modes (mxfp4, mxfp8, nvfp4) in AVX2: unpacked, and multiplied with few rows of x.
//
// An E2M1 element is one of eight magnitudes and a sign: a register holds the magnitudes times the group's scale, and a
// permute by the low three bits looks them up. An E4M3 element has its fields in the places of a half-precision float
// after one shift, and is 2^8 times that one; the conversion takes subnormal numbers at full speed, a multiplication would
// not. Every weight is one product rounded once, as in the scalar twin.

import _Builtin_intrinsics.intel

/// The codes of Compute's FloatingMode.
private let mxfp8 = 1
private let nvfp4 = 2

/// What the elements of a group are looked up in or multiplied with.
@inline(__always)
private func factors(_ scales: UnsafeRawPointer, _ mode: Int, _ group: Int) -> __m256 {
  let code = UInt64((scales + group).load(as: UInt8.self))
  let scale = scaleValues(code &* 0x0101_0101_0101_0101, mode == nvfp4)
  if mode == mxfp8 { return scale }
  let magnitudes = _mm256_set_ps(6, 4, 3, 2, 1.5, 1, 0.5, 0)
  return _mm256_mul_ps(mode == nvfp4 ? magnitudes * 256 : magnitudes, scale)
}

/// What `sixteen` leaves to multiply by: a power of two, so that it may follow the products.
@inline(__always)
private func unit(_ mode: Int) -> Float { mode == mxfp8 ? 256 : 1 }

/// Sixteen weights from element `c` on; of mxfp8 2^-8 times them.
@inline(__always)
private func sixteen(_ row: UnsafeRawPointer, _ c: Int, _ mode: Int, _ factors: __m256) -> (__m256, __m256) {
  guard mode == mxfp8 else { return (eight(row, c, factors), eight(row, c + 8, factors)) }
  // The sign is extended, so that it is in place already, and in one place too many.
  let q = _mm256_cvtepi8_epi16(_mm_loadu_si128((row + c).assumingMemoryBound(to: __m128i.self)))
  let halves = _mm256_and_si256(_mm256_slli_epi16(q, 7), _mm256_set1_epi16(Int16(bitPattern: 0xBFFF)))
  return (
    _mm256_mul_ps(_mm256_cvtph_ps(halves.lowHalf), factors),
    _mm256_mul_ps(_mm256_cvtph_ps(halves.highHalf), factors)
  )
}

/// Eight weights of E2M1 elements from element `c` on.
@inline(__always)
private func eight(_ row: UnsafeRawPointer, _ c: Int, _ factors: __m256) -> __m256 {
  // Each lane's nibble in the highest bits.
  let word = _mm256_set1_epi32((row + c / 2).loadUnaligned(as: Int32.self))
  let q = _mm256_sllv_epi32(word, _mm256_set_epi32(0, 4, 8, 12, 16, 20, 24, 28))
  let magnitude = _mm256_permutevar8x32_ps(factors, _mm256_srli_epi32(q, 28))
  let sign = _mm256_and_si256(q, _mm256_set1_epi32(Int32.min))
  return _mm256_xor_ps(magnitude, _mm256_castsi256_ps(sign))
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
    for _ in 0..<groupSize / 16 {
      let (first, second) = sixteen(packed, c, mode, factors)
      _mm256_storeu_ps(out + c, _mm256_mul_ps(first, _mm256_set1_ps(unit(mode))))
      _mm256_storeu_ps(out + c + 8, _mm256_mul_ps(second, _mm256_set1_ps(unit(mode))))
      c += 16
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
      let (w, s) = (packed + o * rowBytes, scales + o * scaleRowBytes)
      let (source, target, last) = (x + r * xStride, y + r * yStride + o, min(4, weightRows - o) - 1)
      switch mode {
      case mxfp8: fourMXFP8(w, rowBytes, s, scaleRowBytes, last, source, columns, target)
      case nvfp4: fourNVFP4(w, rowBytes, s, scaleRowBytes, last, source, columns, target)
      default: fourMXFP4(w, rowBytes, s, scaleRowBytes, last, source, columns, target)
      }
      o += 4
    }
  }
}

// Functions of their own: all in one would exceed what the compiler inlines, and a weak copy of `fourRows` be left.

@inline(never)
func fourMXFP8(
  _ w: UnsafeRawPointer, _ rowBytes: Int, _ s: UnsafeRawPointer, _ scaleRowBytes: Int, _ last: Int,
  _ x: UnsafePointer<Float>, _ columns: Int, _ y: UnsafeMutablePointer<Float>
) { fourRows(w, rowBytes, s, scaleRowBytes, mxfp8, 32, last, x, columns, y) }

@inline(never)
func fourNVFP4(
  _ w: UnsafeRawPointer, _ rowBytes: Int, _ s: UnsafeRawPointer, _ scaleRowBytes: Int, _ last: Int,
  _ x: UnsafePointer<Float>, _ columns: Int, _ y: UnsafeMutablePointer<Float>
) { fourRows(w, rowBytes, s, scaleRowBytes, nvfp4, 16, last, x, columns, y) }

@inline(never)
func fourMXFP4(
  _ w: UnsafeRawPointer, _ rowBytes: Int, _ s: UnsafeRawPointer, _ scaleRowBytes: Int, _ last: Int,
  _ x: UnsafePointer<Float>, _ columns: Int, _ y: UnsafeMutablePointer<Float>
) { fourRows(w, rowBytes, s, scaleRowBytes, 0, 32, last, x, columns, y) }

/// Four rows of weights, of which row i is row min(i, `last`): one alone would wait for its chain of dependent
/// multiply-adds.
@inline(__always)
private func fourRows(
  _ w0: UnsafeRawPointer, _ rowBytes: Int, _ s0: UnsafeRawPointer, _ scaleRowBytes: Int, _ mode: Int,
  _ groupSize: Int, _ last: Int, _ x: UnsafePointer<Float>, _ columns: Int, _ y: UnsafeMutablePointer<Float>
) {
  let (i1, i2) = (min(1, last), min(2, last))
  let (w1, w2, w3) = (w0 + i1 * rowBytes, w0 + i2 * rowBytes, w0 + last * rowBytes)
  let (s1, s2, s3) = (s0 + i1 * scaleRowBytes, s0 + i2 * scaleRowBytes, s0 + last * scaleRowBytes)
  // The same places of the next four rows, unless that is too far.
  let ahead = rowBytes <= 2 * prefetchDistance ? 4 * rowBytes : prefetchDistance
  let zero = _mm256_setzero_ps()
  var (t0, t1, t2, t3) = (zero, zero, zero, zero)
  for group in 0..<columns / groupSize {
    let (f0, f1) = (factors(s0, mode, group), factors(s1, mode, group))
    let (f2, f3) = (factors(s2, mode, group), factors(s3, mode, group))
    let start = group * groupSize
    let at = ahead + (mode == mxfp8 ? start : start / 2)
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
