// Activations as int8 for the VNNI kernels: blocks of 32 or 64 elements with a scale each.
//
// One quantized row, 64-byte aligned:
//
//   int8 x8[columns, padded with zeros to 64]  |  float a[blocks, padded to 16]  |  float c[blocks, padded to 16]
//
// with x ≈ a · x8 in each block and c = a · Σ x8. The bias term of affine weights needs the sum of what the
// integer product sees: with the sum of the exact x the error grows 2.7 times.
// Beside 4-bit weights the elements of a block stand as [even | odd], the order in which nibbles unpack.

package import KernelTypes
import _Builtin_intrinsics.intel

/// Bytes of one quantized row.
package func int8RowBytes(_ columns: Int, _ block: Int) -> Int {
  paddedColumns(columns) + 8 * paddedBlocks(columns, block)
}

/// Quantizes one row of `columns` floats, whole blocks; see the head of this file for `out`. Scalar twin:
/// `Reference.quantizeInt8`.
package func quantizeInt8(
  _ x: UnsafePointer<Float>, _ columns: Int, _ block: Int, _ order: Int8Order,
  into out: UnsafeMutableRawPointer
) {
  let padded = paddedColumns(columns)
  let blocks = paddedBlocks(columns, block)
  let scales = (out + padded).assumingMemoryBound(to: Float.self)
  let sums = scales + blocks
  let used = columns / block
  for j in used..<blocks {
    scales[j] = 0
    sums[j] = 0
  }
  if columns < padded { _mm512_storeu_si512(out + padded - 64, _mm512_setzero_si512()) }

  for j in 0..<used {
    let source = x + j * block
    var largest = _mm512_setzero_ps()
    for i in 0..<block / 16 { largest = _mm512_max_ps(largest, _mm512_abs_ps(load(source, 16 * i))) }
    let top = maximum(largest)
    let inverse = _mm512_set1_ps(top > 0 ? 127 / top : 0)
    var total = _mm512_setzero_si512()
    for i in 0..<block / 16 {
      let q = _mm512_cvtps_epi32(_mm512_mul_ps(load(source, 16 * i), inverse))
      total = _mm512_add_epi32(total, q)
      _mm_storeu_si128(
        (out + j * block + 16 * i).assumingMemoryBound(to: __m128i.self), _mm512_cvtsepi32_epi8(q))
    }
    let scale = top / 127
    scales[j] = scale
    sums[j] = scale * Float(sum(total))
    if case .evenOdd = order { separate(out + j * block, block) }
  }
}

/// Moves the even elements of a block to its front, the odd ones after them.
@inline(__always)
private func separate(_ block: UnsafeMutableRawPointer, _ count: Int) {
  if count == 32 {
    let words = _mm256_loadu_si256(block.assumingMemoryBound(to: __m256i.self))
    let odd = _mm256_srlv_epi32(words, _mm256_set1_epi32(8))
    _mm_storeu_si128(block.assumingMemoryBound(to: __m128i.self), _mm256_cvtepi16_epi8(words))
    _mm_storeu_si128((block + 16).assumingMemoryBound(to: __m128i.self), _mm256_cvtepi16_epi8(odd))
    return
  }
  let words = _mm512_loadu_si512(block)
  let odd = _mm512_srlv_epi32(words, _mm512_set1_epi32(8))
  _mm256_storeu_si256(block.assumingMemoryBound(to: __m256i.self), _mm512_cvtepi16_epi8(words))
  _mm256_storeu_si256((block + 32).assumingMemoryBound(to: __m256i.self), _mm512_cvtepi16_epi8(odd))
}

@inline(__always)
func maximum(_ v: __m512) -> Float {
  let eight = _mm256_max_ps(v.lowHalf, v.highHalf)
  let four = _mm_max_ps(eight.lowHalf, eight.highHalf)
  let two = max(four[0], four[2])
  return max(two, max(four[1], four[3]))
}

@inline(__always)
private func sum(_ v: __m512i) -> Int32 {
  let lanes = unsafeBitCast(v, to: SIMD16<Int32>.self)
  let eight = lanes.lowHalf &+ lanes.highHalf
  let four = eight.lowHalf &+ eight.highHalf
  let two = four.lowHalf &+ four.highHalf
  return two[0] &+ two[1]
}
