// Dequantization in AVX-512: any bit width through two dword permutes and variable shifts.
//
// Sixteen elements of `bits` bits start at a bit offset inside the words of their 32-element half-row unit;
// element i lies in words a = i·bits / 32 and a + 1. With the unit's words in one register, element i is
// (word[a] >> s | word[a + 1] << (32 - s)) & mask with s = i·bits mod 32; a shift by 32 gives zero.

package import KernelTypes
import _Builtin_intrinsics.intel

@inline(__always)
func iota() -> __m512i {
  _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
}

/// `out[i] = scale · q[i] + bias`, fused, for each row of `weights`. Scalar twin: `Reference.unpack`.
package func unpackAffine(_ weights: QuantizedRows, into y: Output) {
  let (bits, groups) = (weights.bits, weights.groups)
  guard bits < 8 else { return unpackBytes(weights, into: y) }
  let width = Int32(bits)
  let offsets = _mm512_mullo_epi32(iota(), _mm512_set1_epi32(width))
  let later = _mm512_add_epi32(offsets, _mm512_set1_epi32(16 * width))
  let thirtyOne = _mm512_set1_epi32(31)
  let thirtyTwo = _mm512_set1_epi32(32)
  let one = _mm512_set1_epi32(1)
  let five = _mm512_set1_epi32(5)
  let mask = _mm512_set1_epi32(1 << width - 1)
  let words = tailMask(bits)

  let lowA = _mm512_srlv_epi32(offsets, five)
  let lowB = _mm512_add_epi32(lowA, one)
  let lowShift = _mm512_and_si512(offsets, thirtyOne)
  let lowBack = _mm512_sub_epi32(thirtyTwo, lowShift)
  let highA = _mm512_srlv_epi32(later, five)
  let highB = _mm512_add_epi32(highA, one)
  let highShift = _mm512_and_si512(later, thirtyOne)
  let highBack = _mm512_sub_epi32(thirtyTwo, highShift)

  for row in 0..<weights.count {
    let (packed, out) = (weights.packed + row * weights.rowBytes, y.base + row * y.stride)
    let (scales, biases) = (groups.scales + row * groups.rowBytes, groups.biases + row * groups.rowBytes)
    var i = 0
    for group in 0..<weights.columns / groups.size {
      let scale = _mm512_set1_ps(scalar(scales, groups.format, group))
      let bias = _mm512_set1_ps(scalar(biases, groups.format, group))
      for _ in 0..<groups.size / 32 {
        // A masked load touches no byte after the unit: the tensor may end at a page border.
        let unit = _mm512_maskz_loadu_epi32(words, packed + i / 8 * bits)
        let low = _mm512_or_si512(
          _mm512_srlv_epi32(_mm512_permutexvar_epi32(lowA, unit), lowShift),
          _mm512_sllv_epi32(_mm512_permutexvar_epi32(lowB, unit), lowBack))
        let high = _mm512_or_si512(
          _mm512_srlv_epi32(_mm512_permutexvar_epi32(highA, unit), highShift),
          _mm512_sllv_epi32(_mm512_permutexvar_epi32(highB, unit), highBack))
        let first = _mm512_cvtepi32_ps(_mm512_and_si512(low, mask))
        let second = _mm512_cvtepi32_ps(_mm512_and_si512(high, mask))
        _mm512_storeu_ps(out + i, _mm512_fmadd_ps(first, scale, bias))
        _mm512_storeu_ps(out + i + 16, _mm512_fmadd_ps(second, scale, bias))
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
      let scale = _mm512_set1_ps(scalar(scales, groups.format, group))
      let bias = _mm512_set1_ps(scalar(biases, groups.format, group))
      for _ in 0..<groups.size / 16 {
        let bytes = _mm_loadu_si128((packed + i).assumingMemoryBound(to: __m128i.self))
        let q = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes))
        _mm512_storeu_ps(out + i, _mm512_fmadd_ps(q, scale, bias))
        i += 16
      }
    }
  }
}

/// Sixteen f16 or bf16 elements as float32; the mask's lanes only, zeros elsewhere.
@inline(__always)
func widen(_ source: UnsafeRawPointer, _ format: FloatFormat, _ mask: __mmask16) -> __m512 {
  let bits = _mm256_maskz_loadu_epi16(mask, source)
  if case .f16 = format { return _mm512_cvtph_ps(bits) }
  return _mm512_castsi512_ps(_mm512_sllv_epi32(_mm512_cvtepu16_epi32(bits), _mm512_set1_epi32(16)))
}

/// Widens `count` elements of f16 or bf16. Scalar twin: `Reference.widen`.
package func widenHalf(
  _ source: UnsafeRawPointer, _ format: FloatFormat, _ count: Int, into out: UnsafeMutablePointer<Float>
) {
  // A loop for each format: this is what attention to a long context waits for.
  if case .f16 = format { widenAll(source, .f16, count, out) } else { widenAll(source, .bf16, count, out) }
}

@inline(__always)
private func widenAll(
  _ source: UnsafeRawPointer, _ format: FloatFormat, _ count: Int, _ out: UnsafeMutablePointer<Float>
) {
  var i = 0
  while i + 16 <= count {
    _mm512_storeu_ps(out + i, widen(source + 2 * i, format, 0xFFFF))
    i += 16
  }
  guard i < count else { return }
  let mask = tailMask(count - i)
  _mm512_mask_storeu_ps(out + i, mask, widen(source + 2 * i, format, mask))
}
