// VPDPBUSD by instructions of AVX2, so that the kernels of AVX-VNNI run where tests run: to the bit, at a fifth of the speed.

import _Builtin_intrinsics.intel

/// Adds to each dword the products of its four unsigned bytes with the signed ones.
@inline(__always)
func dot(_ sums: __m256i, _ weights: __m256i, _ x: __m256i) -> __m256i {
  let low = _mm256_set1_epi16(0x00FF)
  // Even and odd bytes as words: sums of their pairs fit 32 bits exactly.
  let even = _mm256_madd_epi16(
    _mm256_and_si256(weights, low), _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8))
  let odd = _mm256_madd_epi16(_mm256_srli_epi16(weights, 8), _mm256_srai_epi16(x, 8))
  return _mm256_add_epi32(sums, _mm256_add_epi32(even, odd))
}
