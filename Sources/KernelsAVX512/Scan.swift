// The scans of an index in AVX-512 VNNI: every row of bytes times a query of two planes, and every row of signs by tables.
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
    let sums = products((h0, h1, h2, h3), (l0, l1, l2, l3), query, rows.rowBytes)
    store(sums, rows, row, isFour: step != 0, query.scale, out)
    row += step != 0 ? 4 : 1
  }
}

/// As `scanCodes` for two queries, to the bit: rows that are in the cache of a core are loaded once for both.
package func scanCodesTwice(
  _ rows: CodeRows, _ first: QueryPlanes, _ second: QueryPlanes, _ out: UnsafeMutablePointer<Float>,
  _ other: UnsafeMutablePointer<Float>
) {
  var row = 0
  while row < rows.count {
    let base = rows.base + row * rows.rowBytes
    let step = rows.count - row >= 4 ? rows.rowBytes : 0
    let zero = _mm512_setzero_si512()
    var (h0, h1, h2, h3, l0, l1, l2, l3) = (zero, zero, zero, zero, zero, zero, zero, zero)
    var (i0, i1, i2, i3, m0, m1, m2, m3) = (zero, zero, zero, zero, zero, zero, zero, zero)
    var at = 0
    while at < rows.rowBytes {
      let a = _mm512_loadu_si512(base + at)
      let b = _mm512_loadu_si512(base + step + at)
      let c = _mm512_loadu_si512(base + 2 * step + at)
      let d = _mm512_loadu_si512(base + 3 * step + at)
      let (high, low) = (_mm512_loadu_si512(first.high + at), _mm512_loadu_si512(first.low + at))
      h0 = _mm512_dpbusd_epi32(h0, a, high)
      h1 = _mm512_dpbusd_epi32(h1, b, high)
      h2 = _mm512_dpbusd_epi32(h2, c, high)
      h3 = _mm512_dpbusd_epi32(h3, d, high)
      l0 = _mm512_dpbusd_epi32(l0, a, low)
      l1 = _mm512_dpbusd_epi32(l1, b, low)
      l2 = _mm512_dpbusd_epi32(l2, c, low)
      l3 = _mm512_dpbusd_epi32(l3, d, low)
      let (high2, low2) = (_mm512_loadu_si512(second.high + at), _mm512_loadu_si512(second.low + at))
      i0 = _mm512_dpbusd_epi32(i0, a, high2)
      i1 = _mm512_dpbusd_epi32(i1, b, high2)
      i2 = _mm512_dpbusd_epi32(i2, c, high2)
      i3 = _mm512_dpbusd_epi32(i3, d, high2)
      m0 = _mm512_dpbusd_epi32(m0, a, low2)
      m1 = _mm512_dpbusd_epi32(m1, b, low2)
      m2 = _mm512_dpbusd_epi32(m2, c, low2)
      m3 = _mm512_dpbusd_epi32(m3, d, low2)
      at += 64
    }
    let sums = products((h0, h1, h2, h3), (l0, l1, l2, l3), first, rows.rowBytes)
    let others = products((i0, i1, i2, i3), (m0, m1, m2, m3), second, rows.rowBytes)
    store(sums, rows, row, isFour: step != 0, first.scale, out)
    store(others, rows, row, isFour: step != 0, second.scale, other)
    row += step != 0 ? 4 : 1
  }
}

private typealias FourSums = (__m512i, __m512i, __m512i, __m512i)

/// `Σ (code - 128) · (128 · high + low)` of four rows, rounded once.
@inline(__always)
private func products(_ high: FourSums, _ low: FourSums, _ query: QueryPlanes, _ rowBytes: Int) -> __m128 {
  // 128 · 64 · 129 times as many columns are below 2^31: both planes fit one sum.
  if rowBytes <= 1984 {
    @inline(__always)
    func both(_ high: __m512i, _ low: __m512i) -> __m512i {
      _mm512_add_epi32(low, _mm512_slli_epi32(high, 7))
    }
    let sums = laneSums(both(high.0, low.0), both(high.1, low.1), both(high.2, low.2), both(high.3, low.3))
    let offset = (query.highSum &* 128 &+ query.lowSum) &* 128
    return _mm_cvtepi32_ps(_mm_sub_epi32(sums, _mm_set1_epi32(offset)))
  }
  let highs = _mm_sub_epi32(
    laneSums(high.0, high.1, high.2, high.3), _mm_set1_epi32(query.highSum &* 128))
  let lows = _mm_sub_epi32(laneSums(low.0, low.1, low.2, low.3), _mm_set1_epi32(query.lowSum &* 128))
  return _mm_fmadd_ps(_mm_cvtepi32_ps(highs), _mm_set1_ps(128), _mm_cvtepi32_ps(lows))
}

/// The scores of four rows from `row` on, or of the first of them.
@inline(__always)
private func store(
  _ sums: __m128, _ rows: CodeRows, _ row: Int, isFour: Bool, _ scale: Float,
  _ out: UnsafeMutablePointer<Float>
) {
  if isFour {
    let scales = _mm_mul_ps(_mm_loadu_ps(rows.scales + row), _mm_set1_ps(scale))
    _mm_storeu_ps(out + row, _mm_mul_ps(sums, scales))
  } else {
    out[row] = _mm_cvtss_f32(sums) * (rows.scales[row] * scale)
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

/// `out[r] = Σ tables[p][0][low half of byte p] + tables[p][1][high half]`: a shuffle looks up two bytes of 32 rows at once.
/// Scalar twin: `ScanKernels.reference`.
package func scanSigns(
  _ rows: SignRows, _ tables: UnsafePointer<UInt8>, _ out: UnsafeMutablePointer<Int32>
) {
  let tables = UnsafeRawPointer(tables)
  for block in 0..<rows.blocks {
    let bytes = rows.base + 32 * block * rows.rowBytes
    let target = UnsafeMutableRawPointer(out + 32 * block)
    var at = 0
    while at < rows.rowBytes {
      // 128 sums of at most 254 fit sixteen bits.
      let sums = signSums(bytes, tables, at..<min(at + 128, rows.rowBytes))
      // Rows 0 to 7 and 16 to 23, then 8 to 15 and 24 to 31.
      let first = _mm256_unpacklo_epi16(sums.even, sums.odd)
      let second = _mm256_unpackhi_epi16(sums.even, sums.odd)
      store(first.lowHalf, target, isFirst: at == 0)
      store(second.lowHalf, target + 32, isFirst: at == 0)
      store(first.highHalf, target + 64, isFirst: at == 0)
      store(second.highHalf, target + 96, isFirst: at == 0)
      at += 128
    }
  }
}

@inline(__always)
private func store(_ sums: __m128i, _ out: UnsafeMutableRawPointer, isFirst: Bool) {
  let wide = unsafeBitCast(_mm256_cvtepu16_epi32(sums), to: SIMD8<Int32>.self)
  let known = isFirst ? SIMD8<Int32>.zero : UnsafeRawPointer(out).loadUnaligned(as: SIMD8<Int32>.self)
  out.storeBytes(of: known &+ wide, as: SIMD8<Int32>.self)
}

/// Sums of the even rows and of the odd ones, sixteen bits each. Rows have an even number of bytes.
@inline(__always)
private func signSums(
  _ bytes: UnsafeRawPointer, _ tables: UnsafeRawPointer, _ range: Range<Int>
) -> (even: __m256i, odd: __m256i) {
  let nibble = _mm512_set1_epi8(15)
  // The tables of low halves of two bytes, each twice, and those of high halves.
  let lowTables = _mm512_set_epi64(5, 4, 5, 4, 1, 0, 1, 0)
  let highTables = _mm512_set_epi64(7, 6, 7, 6, 3, 2, 3, 2)
  var all = _mm512_setzero_si512()
  var odd = all
  var at = range.lowerBound
  while at < range.upperBound {
    prefetch(bytes + 32 * at + scanDistance)
    let codes = _mm512_loadu_si512(bytes + 32 * at)
    let table = _mm512_loadu_si512(tables + 32 * at)
    let low = _mm512_shuffle_epi8(
      _mm512_permutexvar_epi64(lowTables, table), _mm512_and_si512(codes, nibble))
    let high = _mm512_shuffle_epi8(
      _mm512_permutexvar_epi64(highTables, table), _mm512_and_si512(_mm512_srli_epi16(codes, 4), nibble))
    let both = _mm512_add_epi8(low, high)
    all = _mm512_add_epi16(all, both)
    odd = _mm512_add_epi16(odd, _mm512_srli_epi16(both, 8))
    at += 2
  }
  let odds = folded(odd)
  return (unsafeBitCast(folded(all) &- odds &<< 8, to: __m256i.self), unsafeBitCast(odds, to: __m256i.self))
}

/// The sum of both halves.
@inline(__always)
private func folded(_ sums: __m512i) -> SIMD16<UInt16> {
  let words = unsafeBitCast(sums, to: SIMD32<UInt16>.self)
  return words.lowHalf &+ words.highHalf
}
