// Dequantization in AVX2: eight elements are `bits` bytes, spread by a permute and per-lane shifts.

package import KernelTypes
import _Builtin_intrinsics.intel

/// `out[i] = scale · q[i] + bias`, fused, for each row of `weights`. Scalar twin: `Reference.unpack`.
package func unpackAffine(_ weights: QuantizedRows, into y: Output) {
  let (bits, groups) = (weights.bits, weights.groups)
  guard bits < 8 else { return unpackBytes(weights, into: y) }
  // 32 elements are `bits` words; element 8·u + lane lies in words a = i·bits / 32 and a + 1 of them.
  let width = Int32(truncatingIfNeeded: bits)
  let lanes = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0)
  let offsets = _mm256_mullo_epi32(lanes, _mm256_set1_epi32(width))
  let mask = _mm256_set1_epi32(1 << width - 1)
  let words = tailMask(bits)
  let thirtyOne = _mm256_set1_epi32(31)
  let thirtyTwo = _mm256_set1_epi32(32)
  let five = _mm256_set1_epi32(5)
  let one = _mm256_set1_epi32(1)
  for row in 0..<weights.count {
    let (packed, out) = (weights.packed + row * weights.rowBytes, y.base + row * y.stride)
    let (scales, biases) = (groups.scales + row * groups.rowBytes, groups.biases + row * groups.rowBytes)
    var i = 0
    for group in 0..<weights.columns / groups.size {
      let scale = _mm256_set1_ps(scalar(scales, groups.format, group))
      let bias = _mm256_set1_ps(scalar(biases, groups.format, group))
      for _ in 0..<groups.size / 32 {
        // A masked load touches no byte after the unit: the tensor may end at a page border.
        let unit = _mm256_maskload_epi32((packed + i / 8 * bits).assumingMemoryBound(to: Int32.self), words)
        for eight in 0..<4 {
          let at = _mm256_add_epi32(offsets, _mm256_set1_epi32(Int32(truncatingIfNeeded: 8 * eight) * width))
          let word = _mm256_srlv_epi32(at, five)
          let shift = _mm256_and_si256(at, thirtyOne)
          let low = _mm256_srlv_epi32(_mm256_permutevar8x32_epi32(unit, word), shift)
          let high = _mm256_sllv_epi32(
            _mm256_permutevar8x32_epi32(unit, _mm256_add_epi32(word, one)), _mm256_sub_epi32(thirtyTwo, shift)
          )
          let q = _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_or_si256(low, high), mask))
          _mm256_storeu_ps(out + i + 8 * eight, _mm256_fmadd_ps(q, scale, bias))
        }
        i += 32
      }
    }
  }
}

/// Bytes need no permutes, and blocks of GGUF files have groups of 16 of them.
@inline(__always)
private func unpackBytes(_ weights: QuantizedRows, into y: Output) {
  let groups = weights.groups
  for row in 0..<weights.count {
    let (packed, out) = (weights.packed + row * weights.rowBytes, y.base + row * y.stride)
    let (scales, biases) = (groups.scales + row * groups.rowBytes, groups.biases + row * groups.rowBytes)
    var i = 0
    for group in 0..<weights.columns / groups.size {
      let scale = _mm256_set1_ps(scalar(scales, groups.format, group))
      let bias = _mm256_set1_ps(scalar(biases, groups.format, group))
      for _ in 0..<groups.size / 8 {
        let q = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((packed + i).loadUnaligned(as: Int64.self)))
        _mm256_storeu_ps(out + i, _mm256_fmadd_ps(_mm256_cvtepi32_ps(q), scale, bias))
        i += 8
      }
    }
  }
}

/// Eight f16 or bf16 elements as float32.
@inline(__always)
func widen(_ source: UnsafeRawPointer, _ format: FloatFormat) -> __m256 {
  widen(_mm_loadu_si128(source.assumingMemoryBound(to: __m128i.self)), format)
}

@inline(__always)
func widen(_ bits: __m128i, _ format: FloatFormat) -> __m256 {
  if case .f16 = format { return _mm256_cvtph_ps(bits) }
  return _mm256_castsi256_ps(_mm256_sllv_epi32(_mm256_cvtepu16_epi32(bits), _mm256_set1_epi32(16)))
}

/// Widens `count` elements of f16 or bf16. Scalar twin: `Reference.widen`.
package func widenHalf(
  _ source: UnsafeRawPointer, _ format: FloatFormat, _ count: Int, into out: UnsafeMutablePointer<Float>
) {
  var i = 0
  while i + 8 <= count {
    _mm256_storeu_ps(out + i, widen(source + 2 * i, format))
    i += 8
  }
  while i < count {
    out[i] = scalar(source, format, i)
    i += 1
  }
}
