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
  let bits = _mm_loadu_si128(source.assumingMemoryBound(to: __m128i.self))
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
  // The mode of the control register is "to nearest"; arithmetic gets the same rounding from the same bits.
  var i = 0
  while i + 8 <= count {
    let x = unsafeBitCast(load(source, i), to: SIMD8<UInt32>.self)
    UnsafeMutableRawPointer(out + i).storeBytes(of: halves(x), as: SIMD8<UInt16>.self)
    i += 8
  }
  while i < count {
    out[i] = halves(SIMD8(repeating: source[i].bitPattern))[0]
    i += 1
  }
}

/// The conversion of VCVTPS2PH, whose intrinsic is a macro and cannot be imported.
@inline(__always)
func halves(_ bits: SIMD8<UInt32>) -> SIMD8<UInt16> {
  let sign = (bits &>> 16) & 0x8000
  let magnitude = bits & 0x7FFF_FFFF
  // Normal halves: rebias the exponent by 112 and round away 13 bits, ties to even.
  let normal = (magnitude &- (112 << 23) &+ 0xFFF &+ ((magnitude &>> 13) & 1)) &>> 13
  // Subnormal halves: adding 0.5 leaves the rounded multiple of 2^-24 in the low bits.
  let shifted = unsafeBitCast(magnitude, to: SIMD8<Float>.self) + SIMD8(repeating: 0.5)
  let subnormal = unsafeBitCast(shifted, to: SIMD8<UInt32>.self) &- SIMD8(repeating: Float(0.5).bitPattern)
  var result = normal.replacing(with: subnormal, where: magnitude .< (113 << 23))
  // 65,520 and more round to infinity; NaN stays a quiet NaN.
  result.replace(with: 0x7C00, where: magnitude .>= 0x477F_F000)
  result.replace(with: 0x7E00, where: magnitude .> 0x7F80_0000)
  return SIMD8<UInt16>(truncatingIfNeeded: result | sign)
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
