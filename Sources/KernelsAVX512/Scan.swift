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
    // Four rows' sums with the high plane, then with the low one.
    var sums = registers(of: _mm512_setzero_si512())
    var at = 0
    while at < rows.rowBytes {
      let high = _mm512_loadu_si512(query.high + at)
      let low = _mm512_loadu_si512(query.low + at)
      for i in 0..<4 { prefetch(first + i * step + at + scanDistance) }
      for i in 0..<4 {
        let codes = _mm512_loadu_si512(first + i * step + at)
        set(&sums, i, _mm512_dpbusd_epi32(get(&sums, i), codes, high))
        set(&sums, i + 4, _mm512_dpbusd_epi32(get(&sums, i + 4), codes, low))
      }
      at += 64
    }
    let scores = products(&sums, query, rows.rowBytes)
    store(scores, rows, row, isFour: step != 0, query.scale, out)
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
    // As in `scanCodes`, of either query.
    var sums = registers(of: _mm512_setzero_si512())
    var others = sums
    var at = 0
    while at < rows.rowBytes {
      var codes = registers(of: _mm512_loadu_si512(base + at))
      for i in 1..<4 { set(&codes, i, _mm512_loadu_si512(base + i * step + at)) }
      @inline(__always)
      func add(_ query: QueryPlanes, to sums: inout IntegerRegisters) {
        let (high, low) = (_mm512_loadu_si512(query.high + at), _mm512_loadu_si512(query.low + at))
        for i in 0..<4 { set(&sums, i, _mm512_dpbusd_epi32(get(&sums, i), get(&codes, i), high)) }
        for i in 0..<4 { set(&sums, i + 4, _mm512_dpbusd_epi32(get(&sums, i + 4), get(&codes, i), low)) }
      }
      add(first, to: &sums)
      add(second, to: &others)
      at += 64
    }
    let scores = products(&sums, first, rows.rowBytes)
    store(scores, rows, row, isFour: step != 0, first.scale, out)
    store(products(&others, second, rows.rowBytes), rows, row, isFour: step != 0, second.scale, other)
    row += step != 0 ? 4 : 1
  }
}

/// `Σ (code - 128) · (128 · high + low)` of four rows, rounded once. `sums` are those of the high plane, then of the low one.
@inline(__always)
private func products(_ sums: inout IntegerRegisters, _ query: QueryPlanes, _ rowBytes: Int) -> __m128 {
  // 128 · 64 · 129 times as many columns are below 2^31: both planes fit one sum.
  if rowBytes <= 1984 {
    for i in 0..<4 { set(&sums, i, _mm512_add_epi32(get(&sums, i + 4), _mm512_slli_epi32(get(&sums, i), 7))) }
    let both = laneSums(get(&sums, 0), get(&sums, 1), get(&sums, 2), get(&sums, 3))
    let offset = (query.highSum &* 128 &+ query.lowSum) &* 128
    return _mm_cvtepi32_ps(_mm_sub_epi32(both, _mm_set1_epi32(offset)))
  }
  let highs = laneSums(get(&sums, 0), get(&sums, 1), get(&sums, 2), get(&sums, 3))
  let lows = laneSums(get(&sums, 4), get(&sums, 5), get(&sums, 6), get(&sums, 7))
  return _mm_fmadd_ps(
    _mm_cvtepi32_ps(_mm_sub_epi32(highs, _mm_set1_epi32(query.highSum &* 128))), _mm_set1_ps(128),
    _mm_cvtepi32_ps(_mm_sub_epi32(lows, _mm_set1_epi32(query.lowSum &* 128))))
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

/// Sums of the even rows and of the odd ones, sixteen bits each. Rows have an even number of bytes.
@inline(__always)
func signSums(
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
