// The scan of an index in AVX-512 VNNI: every row of bytes times a query of two planes.
//
// `VPDPBUSD` multiplies the unsigned codes with the signed planes. Four rows run together, so that their sums over lanes
// share the shuffles; reading the rows is what takes the time, so they are prefetched across the borders of pages.

package import KernelTypes
import _Builtin_intrinsics.intel

/// `out[r] = scales[r] · query.scale · Σ (code - 128) · (128 · high + low)`. Scalar twin: `ScanKernels.reference`.
package func scanCodes(_ rows: CodeRows, _ query: QueryPlanes, _ out: UnsafeMutablePointer<Float>) {
  var row = 0
  while row < rows.count {
    let first = rows.base + row * rows.rowBytes
    // The last rows of a scan are one block with rows that are counted twice.
    let step = rows.count - row >= 4 ? rows.rowBytes : 0
    var h0 = _mm512_setzero_si512()
    var (h1, h2, h3) = (h0, h0, h0)
    var (l0, l1, l2, l3) = (h0, h0, h0, h0)
    var at = 0
    while at < rows.rowBytes {
      let high = _mm512_loadu_si512(query.high + at)
      let low = _mm512_loadu_si512(query.low + at)
      let ahead = first + at + scanDistance
      prefetch(ahead)
      prefetch(ahead + step)
      prefetch(ahead + 2 * step)
      prefetch(ahead + 3 * step)
      let a = _mm512_loadu_si512(first + at)
      let b = _mm512_loadu_si512(first + step + at)
      let c = _mm512_loadu_si512(first + 2 * step + at)
      let d = _mm512_loadu_si512(first + 3 * step + at)
      h0 = _mm512_dpbusd_epi32(h0, a, high)
      l0 = _mm512_dpbusd_epi32(l0, a, low)
      h1 = _mm512_dpbusd_epi32(h1, b, high)
      l1 = _mm512_dpbusd_epi32(l1, b, low)
      h2 = _mm512_dpbusd_epi32(h2, c, high)
      l2 = _mm512_dpbusd_epi32(l2, c, low)
      h3 = _mm512_dpbusd_epi32(h3, d, high)
      l3 = _mm512_dpbusd_epi32(l3, d, low)
      at += 64
    }
    let high = _mm_sub_epi32(laneSums(h0, h1, h2, h3), _mm_set1_epi32(query.highSum &* 128))
    let low = _mm_sub_epi32(laneSums(l0, l1, l2, l3), _mm_set1_epi32(query.lowSum &* 128))
    let sums = _mm_fmadd_ps(_mm_cvtepi32_ps(high), _mm_set1_ps(128), _mm_cvtepi32_ps(low))
    if step != 0 {
      let scales = _mm_mul_ps(_mm_loadu_ps(rows.scales + row), _mm_set1_ps(query.scale))
      _mm_storeu_ps(out + row, _mm_mul_ps(sums, scales))
      row += 4
    } else {
      out[row] = _mm_cvtss_f32(sums) * (rows.scales[row] * query.scale)
      row += 1
    }
  }
}

/// How far ahead rows are prefetched, bytes: two pages.
@inline(__always)
private var scanDistance: Int { 8192 }

/// The sums over the lanes of four registers.
@inline(__always)
private func laneSums(_ a: __m512i, _ b: __m512i, _ c: __m512i, _ d: __m512i) -> __m128i {
  let ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b))
  let cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d))
  let all = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd))
  let words = unsafeBitCast(all, to: SIMD16<Int32>.self)
  let half = words.lowHalf &+ words.highHalf
  return unsafeBitCast(half.lowHalf &+ half.highHalf, to: __m128i.self)
}
