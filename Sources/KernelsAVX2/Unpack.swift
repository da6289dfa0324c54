// Dequantization in AVX2: eight elements are `bits` bytes, spread by a permute and per-lane shifts.

import _Builtin_intrinsics.intel

/// One bf16, f16 or f32 element of a scale array; formats as in Compute's FloatFormat.
@inline(__always)
func scalar(_ base: UnsafeRawPointer, _ format: Int, _ index: Int) -> Float {
  switch format {
  case 0: return base.loadUnaligned(fromByteOffset: 4 * index, as: Float.self)
  case 1:
    let bits = base.loadUnaligned(fromByteOffset: 2 * index, as: UInt16.self)
    return _mm_cvtph_ps(_mm_cvtsi32_si128(Int32(bits)))[0]
  default:
    let bits = base.loadUnaligned(fromByteOffset: 2 * index, as: UInt16.self)
    return Float(bitPattern: UInt32(bits) << 16)
  }
}

/// `out[i] = scale · q[i] + bias`, fused, for `count` elements from a group border on; `count` is a multiple of 32.
package func unpackAffine(
  packed: UnsafeRawPointer, scales: UnsafeRawPointer, biases: UnsafeRawPointer, scaleFormat: Int,
  bits: Int, groupSize: Int, count: Int, out: UnsafeMutablePointer<Float>
) {
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
  var i = 0
  for group in 0..<count / groupSize {
    let scale = _mm256_set1_ps(scalar(scales, scaleFormat, group))
    let bias = _mm256_set1_ps(scalar(biases, scaleFormat, group))
    for _ in 0..<groupSize / 32 {
      // A masked load touches no byte behind the unit: the tensor may end at a page border.
      let unit = _mm256_maskload_epi32((packed + i / 8 * bits).assumingMemoryBound(to: Int32.self), words)
      for eight in 0..<4 {
        let at = _mm256_add_epi32(offsets, _mm256_set1_epi32(Int32(truncatingIfNeeded: 8 * eight) * width))
        let word = _mm256_srlv_epi32(at, five)
        let shift = _mm256_and_si256(at, thirtyOne)
        let low = _mm256_srlv_epi32(_mm256_permutevar8x32_epi32(unit, word), shift)
        let high = _mm256_sllv_epi32(
          _mm256_permutevar8x32_epi32(unit, _mm256_add_epi32(word, one)), _mm256_sub_epi32(thirtyTwo, shift))
        let q = _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_or_si256(low, high), mask))
        _mm256_storeu_ps(out + i + 8 * eight, _mm256_fmadd_ps(q, scale, bias))
      }
      i += 32
    }
  }
}

/// Eight f16 or bf16 elements as float32.
@inline(__always)
func widen(_ source: UnsafeRawPointer, _ format: Int) -> __m256 {
  widen(_mm_loadu_si128(source.assumingMemoryBound(to: __m128i.self)), format)
}

@inline(__always)
func widen(_ bits: __m128i, _ format: Int) -> __m256 {
  if format == 1 { return _mm256_cvtph_ps(bits) }
  return _mm256_castsi256_ps(_mm256_sllv_epi32(_mm256_cvtepu16_epi32(bits), _mm256_set1_epi32(16)))
}

/// Widens `count` f16 (format 1) or bf16 (format 2) elements.
package func widenHalf(source: UnsafeRawPointer, format: Int, count: Int, out: UnsafeMutablePointer<Float>) {
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

/// Rounds `count` elements to f16, to nearest, ties to even.
package func narrowHalf(source: UnsafePointer<Float>, count: Int, out: UnsafeMutablePointer<UInt16>) {
  var i = 0
  while i + 8 <= count {
    UnsafeMutableRawPointer(out + i).storeBytes(of: halves(load(source, i)), as: SIMD2<Int64>.self)
    i += 8
  }
  while i < count {
    out[i] = UInt16(truncatingIfNeeded: halves(_mm256_set1_ps(source[i]))[0])
    i += 1
  }
}

/// The conversion of VCVTPS2PH, whose intrinsic is a macro and cannot be imported.
@inline(__always)
func halves(_ values: __m256) -> SIMD2<Int64> {
  let bits = _mm256_castps_si256(values)
  let sign = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(0x8000))
  let magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(0x7FFF_FFFF))
  // Normal halves: rebias the exponent by 112 and round away 13 bits, ties to even.
  let odd = _mm256_and_si256(_mm256_srli_epi32(magnitude, 13), _mm256_set1_epi32(1))
  let rebiased = _mm256_add_epi32(magnitude, _mm256_set1_epi32(0xFFF - (112 << 23)))
  let normal = _mm256_srli_epi32(_mm256_add_epi32(rebiased, odd), 13)
  // Subnormal halves: adding 0.5 leaves the rounded multiple of 2^-24 in the low bits.
  let half = _mm256_set1_ps(0.5)
  let shifted = _mm256_castps_si256(_mm256_add_ps(_mm256_castsi256_ps(magnitude), half))
  let subnormal = _mm256_sub_epi32(shifted, _mm256_castps_si256(half))
  let isSmall = _mm256_cmpgt_epi32(_mm256_set1_epi32(113 << 23), magnitude)
  var result = _mm256_blendv_epi8(normal, subnormal, isSmall)
  // 65,520 and more round to infinity; NaN stays a quiet NaN.
  let isLarge = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x477F_EFFF))
  result = _mm256_blendv_epi8(result, _mm256_set1_epi32(0x7C00), isLarge)
  let isNaN = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x7F80_0000))
  result = _mm256_or_si256(_mm256_blendv_epi8(result, _mm256_set1_epi32(0x7E00), isNaN), sign)
  let packed = _mm256_packus_epi32(result, result)
  return SIMD2(packed[0], packed[2])
}

/// Widens `count` int8 elements.
package func widenInt8(source: UnsafePointer<Int8>, count: Int, out: UnsafeMutablePointer<Float>) {
  var i = 0
  while i + 8 <= count {
    let eight = UnsafeRawPointer(source + i).loadUnaligned(as: Int64.self)
    _mm256_storeu_ps(out + i, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_cvtsi64_si128(eight))))
    i += 8
  }
  while i < count {
    out[i] = Float(source[i])
    i += 1
  }
}
