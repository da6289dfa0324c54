// The scan of an index in AVX2: every row of bytes times a query of two planes.
//
// `VPMADDUBSW` adds two products into sixteen bits: with the code's sign moved to the plane they fit, 2 · 127 · 127 < 2^15.

package import KernelTypes
import _Builtin_intrinsics.intel

/// `out[r] = scales[r] · query.scale · Σ (code - 128) · (128 · high + low)`. Scalar twin: `ScanKernels.reference`.
package func scanCodes(_ rows: CodeRows, _ query: QueryPlanes, _ out: UnsafeMutablePointer<Float>) {
  let flip = _mm256_set1_epi8(-128)
  let ones = _mm256_set1_epi16(1)
  for row in 0..<rows.count {
    let codes = rows.base + row * rows.rowBytes
    var high = _mm256_setzero_si256()
    var low = high
    var at = 0
    while at < rows.rowBytes {
      prefetch(codes + at + 8192)
      let signed = _mm256_xor_si256(load32(codes + at), flip)
      let size = _mm256_abs_epi8(signed)
      let h = _mm256_sign_epi8(load32(UnsafeRawPointer(query.high + at)), signed)
      let l = _mm256_sign_epi8(load32(UnsafeRawPointer(query.low + at)), signed)
      high = _mm256_add_epi32(high, _mm256_madd_epi16(_mm256_maddubs_epi16(size, h), ones))
      low = _mm256_add_epi32(low, _mm256_madd_epi16(_mm256_maddubs_epi16(size, l), ones))
      at += 32
    }
    let sum = Float(sumOfLanes(high)) * 128 + Float(sumOfLanes(low))
    out[row] = sum * (rows.scales[row] * query.scale)
  }
}

@inline(__always)
private func load32(_ address: UnsafeRawPointer) -> __m256i {
  _mm256_loadu_si256(address.assumingMemoryBound(to: __m256i.self))
}
