// The products of bytes of AVX-VNNI: VPDPBUSD in 256 bits, as processors without AVX-512 have it.

import _Builtin_intrinsics.intel

/// Adds to each dword the products of its four unsigned bytes with the signed ones.
@inline(__always)
func dot(_ sums: __m256i, _ weights: __m256i, _ x: __m256i) -> __m256i {
  _mm256_dpbusd_avx_epi32(sums, weights, x)
}
