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
private func rowQ4(_ weights: QuantizedRows, _ o: Int, _ format: FloatFormat, _ x: Activations, _ y: Output) {
  let w = weights.packed + o * weights.rowBytes
  let scales = weights.groups.scales + o * weights.groups.rowBytes
  let biases = weights.groups.biases + o * weights.groups.rowBytes
  let (groupSize, columns) = (weights.groups.size, weights.columns)
  let quanta = _mm512_cvtepi32_ps(iota())
  let shifts = _mm512_set_epi32(28, 24, 20, 16, 12, 8, 4, 0, 28, 24, 20, 16, 12, 8, 4, 0)
  let first = _mm512_set_epi32(1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0)
  let second = _mm512_set_epi32(3, 3, 3, 3, 3, 3, 3, 3, 2, 2, 2, 2, 2, 2, 2, 2)
  var totals = registers(of: _mm512_setzero_ps())
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
      for r in 0..<4 where r == 0 || r < x.count {
        set(&totals, r, _mm512_fmadd_ps(low, load(x.base + r * x.stride, c), get(&totals, r)))
        set(&totals, r, _mm512_fmadd_ps(high, load(x.base + r * x.stride, c + 16), get(&totals, r)))
      }
      c += 32
    }
  }
  store(&totals, o, x.count, y)
}

/// The sums of output `o` for `count` rows of x.
@inline(__always)
private func store(_ totals: inout FloatRegisters, _ o: Int, _ count: Int, _ y: Output) {
  for r in 0..<4 where r == 0 || r < count { y.base[r * y.stride + o] = sum(get(&totals, r)) }
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
private func rowQ8(_ weights: QuantizedRows, _ o: Int, _ format: FloatFormat, _ x: Activations, _ y: Output) {
  let w = weights.packed + o * weights.rowBytes
  let scales = weights.groups.scales + o * weights.groups.rowBytes
  let biases = weights.groups.biases + o * weights.groups.rowBytes
  let (groupSize, columns) = (weights.groups.size, weights.columns)
  var totals = registers(of: _mm512_setzero_ps())
  var c = 0
  for group in 0..<columns / groupSize {
    let scale = _mm512_set1_ps(scalar(scales, format, group))
    let bias = _mm512_set1_ps(scalar(biases, format, group))
    prefetchAhead(w + c, groupSize)
    for _ in 0..<groupSize / 16 {
      let bytes = _mm_loadu_si128((w + c).assumingMemoryBound(to: __m128i.self))
      let weight = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes)), scale, bias)
      for r in 0..<4 where r == 0 || r < x.count {
        set(&totals, r, _mm512_fmadd_ps(weight, load(x.base + r * x.stride, c), get(&totals, r)))
      }
      c += 16
    }
  }
  store(&totals, o, x.count, y)
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
    case (.f16, false): rowHalf(w, o, .f16, columns, x, y)
    case (_, false): rowHalf(w, o, .bf16, columns, x, y)
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
  var totals = registers(of: _mm512_setzero_ps())
  @inline(__always)
  func add(_ c: Int, _ mask: __mmask16) {
    let source = load(x, c, mask)
    for i in 0..<4 {
      set(
        &totals, i, _mm512_fmadd_ps(widen(w0 + i * rowBytes + 2 * c, format, mask), source, get(&totals, i)))
    }
  }
  var c = 0
  while c + 32 <= columns {
    // The next four rows in the order of memory: four lines for the four that are read now. Into the second-level cache,
    // as the first has too few places for what is missing (3,072 columns: 94 instead of 62 % of a read loop).
    let next = w0 + 4 * rowBytes + 8 * c
    for line in 0..<4 { prefetchFar(next + 64 * line) }
    add(c, 0xFFFF)
    add(c + 16, 0xFFFF)
    c += 32
  }
  while c < columns {
    add(c, tailMask(min(16, columns - c)))
    c += 16
  }
  (y[0], y[1], y[2], y[3]) = (
    sum(get(&totals, 0)), sum(get(&totals, 1)), sum(get(&totals, 2)), sum(get(&totals, 3))
  )
}

@inline(__always)
private func rowHalf(
  _ w: UnsafeRawPointer, _ o: Int, _ format: FloatFormat, _ columns: Int, _ x: Activations, _ y: Output
) {
  var totals = registers(of: _mm512_setzero_ps())
  var c = 0
  while c < columns {
    if c & 31 == 0 { prefetchAhead(w + 2 * c, 64) }
    let mask = tailMask(min(16, columns - c))
    let weight = widen(w + 2 * c, format, mask)
    for r in 0..<4 where r == 0 || r < x.count {
      set(&totals, r, _mm512_fmadd_ps(weight, load(x.base + r * x.stride, c, mask), get(&totals, r)))
    }
    c += 16
  }
  store(&totals, o, x.count, y)
}
