// Products of few rows with packed weights in AVX-512: weights go from memory to fused multiply-adds through
// registers only. This is what decode runs; it has to keep up with memory, about 7 G weights/s per core.
//
// Each weight is rounded exactly as `unpackAffine` does and each element adds its products in the same order as
// `multiplyF32`, so decode and prefill agree to the bit.

package import KernelTypes
import _Builtin_intrinsics.intel

/// The most rows of x the fused kernels take.
package let fusedRowLimit = 4

/// 4-bit weights, at most `fusedRowLimit` rows of x. Scalar twin: `Reference.unpack`, then `Reference.multiply`.
package func multiplyQ4(_ weights: QuantizedRows, _ x: Activations, into y: Output) {
  for o in 0..<weights.count {
    // The format is a constant in each specialisation: no branch per group.
    switch weights.groups.format {
    case .f32: rowQ4(weights, o, .f32, x, y)
    case .f16: rowQ4(weights, o, .f16, x, y)
    case .bf16: rowQ4(weights, o, .bf16, x, y)
    }
  }
}

/// Row `o` of the weights, whose scales are of `format`.
@inline(__always)
private func rowQ4(
  _ weights: QuantizedRows, _ o: Int, _ format: FloatFormat, _ activations: Activations, _ output: Output
) {
  let w = weights.packed + o * weights.rowBytes
  let scales = weights.groups.scales + o * weights.groups.rowBytes
  let biases = weights.groups.biases + o * weights.groups.rowBytes
  let (x, xStride, xRows) = (activations.base, activations.stride, activations.count)
  let (y, yStride) = (output.base + o, output.stride)
  let (groupSize, columns) = (weights.groups.size, weights.columns)
  let quanta = _mm512_cvtepi32_ps(iota())
  let shifts = _mm512_set_epi32(28, 24, 20, 16, 12, 8, 4, 0, 28, 24, 20, 16, 12, 8, 4, 0)
  let first = _mm512_set_epi32(1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0)
  let second = _mm512_set_epi32(3, 3, 3, 3, 3, 3, 3, 3, 2, 2, 2, 2, 2, 2, 2, 2)
  var t0 = _mm512_setzero_ps()
  var (t1, t2, t3) = (t0, t0, t0)
  let (x1, x2, x3) = (x + xStride, x + 2 * xStride, x + 3 * xStride)
  var c = 0
  for group in 0..<columns / groupSize {
    // All sixteen values a weight of this group can have; a permute by the low four bits looks them up.
    let scale = _mm512_set1_ps(scalar(scales, format, group))
    let bias = _mm512_set1_ps(scalar(biases, format, group))
    let table = _mm512_fmadd_ps(quanta, scale, bias)
    prefetchAhead(w + c / 2, 64)
    for _ in 0..<groupSize / 32 {
      let unit = _mm512_castsi128_si512(
        _mm_loadu_si128((w + c / 2).assumingMemoryBound(to: __m128i.self)))
      let low = _mm512_permutexvar_ps(_mm512_srlv_epi32(_mm512_permutexvar_epi32(first, unit), shifts), table)
      let high = _mm512_permutexvar_ps(
        _mm512_srlv_epi32(_mm512_permutexvar_epi32(second, unit), shifts), table)
      t0 = _mm512_fmadd_ps(low, load(x, c), t0)
      t0 = _mm512_fmadd_ps(high, load(x, c + 16), t0)
      if xRows > 1 {
        t1 = _mm512_fmadd_ps(low, load(x1, c), t1)
        t1 = _mm512_fmadd_ps(high, load(x1, c + 16), t1)
      }
      if xRows > 2 {
        t2 = _mm512_fmadd_ps(low, load(x2, c), t2)
        t2 = _mm512_fmadd_ps(high, load(x2, c + 16), t2)
      }
      if xRows > 3 {
        t3 = _mm512_fmadd_ps(low, load(x3, c), t3)
        t3 = _mm512_fmadd_ps(high, load(x3, c + 16), t3)
      }
      c += 32
    }
  }
  y[0] = sum(t0)
  if xRows > 1 { y[yStride] = sum(t1) }
  if xRows > 2 { y[2 * yStride] = sum(t2) }
  if xRows > 3 { y[3 * yStride] = sum(t3) }
}

/// 8-bit weights, at most `fusedRowLimit` rows of x. Scalar twin: `Reference.unpack`, then `Reference.multiply`.
package func multiplyQ8(_ weights: QuantizedRows, _ x: Activations, into y: Output) {
  for o in 0..<weights.count {
    switch weights.groups.format {
    case .f32: rowQ8(weights, o, .f32, x, y)
    case .f16: rowQ8(weights, o, .f16, x, y)
    case .bf16: rowQ8(weights, o, .bf16, x, y)
    }
  }
}

/// Row `o` of the weights, whose scales are of `format`.
@inline(__always)
private func rowQ8(
  _ weights: QuantizedRows, _ o: Int, _ format: FloatFormat, _ activations: Activations, _ output: Output
) {
  let w = weights.packed + o * weights.rowBytes
  let scales = weights.groups.scales + o * weights.groups.rowBytes
  let biases = weights.groups.biases + o * weights.groups.rowBytes
  let (x, xStride, xRows) = (activations.base, activations.stride, activations.count)
  let (y, yStride) = (output.base + o, output.stride)
  let (groupSize, columns) = (weights.groups.size, weights.columns)
  var t0 = _mm512_setzero_ps()
  var (t1, t2, t3) = (t0, t0, t0)
  let (x1, x2, x3) = (x + xStride, x + 2 * xStride, x + 3 * xStride)
  var c = 0
  for group in 0..<columns / groupSize {
    let scale = _mm512_set1_ps(scalar(scales, format, group))
    let bias = _mm512_set1_ps(scalar(biases, format, group))
    prefetchAhead(w + c, groupSize)
    for _ in 0..<groupSize / 16 {
      let bytes = _mm_loadu_si128((w + c).assumingMemoryBound(to: __m128i.self))
      let weight = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes)), scale, bias)
      t0 = _mm512_fmadd_ps(weight, load(x, c), t0)
      if xRows > 1 { t1 = _mm512_fmadd_ps(weight, load(x1, c), t1) }
      if xRows > 2 { t2 = _mm512_fmadd_ps(weight, load(x2, c), t2) }
      if xRows > 3 { t3 = _mm512_fmadd_ps(weight, load(x3, c), t3) }
      c += 16
    }
  }
  y[0] = sum(t0)
  if xRows > 1 { y[yStride] = sum(t1) }
  if xRows > 2 { y[2 * yStride] = sum(t2) }
  if xRows > 3 { y[3 * yStride] = sum(t3) }
}

/// f16 and bf16 weights, at most `fusedRowLimit` rows of x. Scalar twin: `Reference.widen`, then `Reference.multiply`.
package func multiplyHalf(_ weights: FloatRows, _ x: Activations, into y: Output) {
  let (rowBytes, columns) = (weights.rowBytes, weights.columns)
  var o = 0
  while o < weights.count {
    let w = weights.base + o * rowBytes
    switch (weights.format, x.count == 1 && o + 4 <= weights.count) {
    case (.f16, true): fourF16(w, rowBytes, x.base, columns, y.base + o)
    case (_, true): fourBF16(w, rowBytes, x.base, columns, y.base + o)
    case (.f16, false): rowHalf(w, .f16, columns, x, y.base + o, y.stride)
    case (_, false): rowHalf(w, .bf16, columns, x, y.base + o, y.stride)
    }
    o += x.count == 1 && o + 4 <= weights.count ? 4 : 1
  }
}

@inline(never)
func fourF16(
  _ w: UnsafeRawPointer, _ rowBytes: Int, _ x: UnsafePointer<Float>, _ columns: Int,
  _ y: UnsafeMutablePointer<Float>
) { fourHalf(w, rowBytes, .f16, x, columns, y) }

@inline(never)
func fourBF16(
  _ w: UnsafeRawPointer, _ rowBytes: Int, _ x: UnsafePointer<Float>, _ columns: Int,
  _ y: UnsafeMutablePointer<Float>
) { fourHalf(w, rowBytes, .bf16, x, columns, y) }

/// Four rows of weights with one row of x: one alone would wait for its chain of additions.
@inline(__always)
private func fourHalf(
  _ w0: UnsafeRawPointer, _ rowBytes: Int, _ format: FloatFormat, _ x: UnsafePointer<Float>, _ columns: Int,
  _ y: UnsafeMutablePointer<Float>
) {
  let (w1, w2, w3) = (w0 + rowBytes, w0 + 2 * rowBytes, w0 + 3 * rowBytes)
  let zero = _mm512_setzero_ps()
  var (t0, t1, t2, t3) = (zero, zero, zero, zero)
  @inline(__always)
  func add(_ c: Int, _ mask: __mmask16) {
    let source = load(x, c, mask)
    t0 = _mm512_fmadd_ps(widen(w0 + 2 * c, format, mask), source, t0)
    t1 = _mm512_fmadd_ps(widen(w1 + 2 * c, format, mask), source, t1)
    t2 = _mm512_fmadd_ps(widen(w2 + 2 * c, format, mask), source, t2)
    t3 = _mm512_fmadd_ps(widen(w3 + 2 * c, format, mask), source, t3)
  }
  var c = 0
  while c + 32 <= columns {
    // The next four rows in the order of memory: four lines for the four that are read now. Into the second-level cache,
    // as the first has too few places for what is missing (3,072 columns: 94 instead of 62 % of a read loop).
    let next = w0 + 4 * rowBytes + 8 * c
    prefetchFar(next)
    prefetchFar(next + 64)
    prefetchFar(next + 128)
    prefetchFar(next + 192)
    add(c, 0xFFFF)
    add(c + 16, 0xFFFF)
    c += 32
  }
  while c < columns {
    add(c, tailMask(min(16, columns - c)))
    c += 16
  }
  (y[0], y[1], y[2], y[3]) = (sum(t0), sum(t1), sum(t2), sum(t3))
}

@inline(__always)
private func rowHalf(
  _ w: UnsafeRawPointer, _ format: FloatFormat, _ columns: Int, _ activations: Activations,
  _ y: UnsafeMutablePointer<Float>, _ yStride: Int
) {
  let (x, xStride, xRows) = (activations.base, activations.stride, activations.count)
  var t0 = _mm512_setzero_ps()
  var (t1, t2, t3) = (t0, t0, t0)
  let (x1, x2, x3) = (x + xStride, x + 2 * xStride, x + 3 * xStride)
  var c = 0
  while c < columns {
    if c & 31 == 0 { prefetchAhead(w + 2 * c, 64) }
    let mask = tailMask(min(16, columns - c))
    let weight = widen(w + 2 * c, format, mask)
    t0 = _mm512_fmadd_ps(weight, load(x, c, mask), t0)
    if xRows > 1 { t1 = _mm512_fmadd_ps(weight, load(x1, c, mask), t1) }
    if xRows > 2 { t2 = _mm512_fmadd_ps(weight, load(x2, c, mask), t2) }
    if xRows > 3 { t3 = _mm512_fmadd_ps(weight, load(x3, c, mask), t3) }
    c += 16
  }
  y[0] = sum(t0)
  if xRows > 1 { y[yStride] = sum(t1) }
  if xRows > 2 { y[2 * yStride] = sum(t2) }
  if xRows > 3 { y[3 * yStride] = sum(t3) }
}
