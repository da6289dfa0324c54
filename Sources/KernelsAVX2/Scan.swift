// The scans of an index in AVX2: every row of bytes times a query of two planes, and every row of signs by tables.
//
// `VPMADDUBSW` adds two products of unsigned codes and signed planes into sixteen bits: 2 · 255 · 64 < 2^15. What the
// codes' 128 adds is known beforehand. Four rows share what is loaded of the query.

package import KernelTypes
import _Builtin_intrinsics.intel

/// `out[r] = scales[r] · query.scale · Σ (code - 128) · (128 · high + low)`. Scalar twin: `ScanKernels.reference`.
package func scanCodes(_ rows: CodeRows, _ query: QueryPlanes, _ out: UnsafeMutablePointer<Float>) {
  var row = 0
  while row + 4 <= rows.count {
    let codes = rows.base + row * rows.rowBytes
    let (high, low) = fourRows(codes, rows.rowBytes, query)
    for index in 0..<4 {
      out[row + index] = score(high[index], low[index], query, rows.scales[row + index])
    }
    row += 4
  }
  while row < rows.count {
    let codes = rows.base + row * rows.rowBytes
    var sums = Sums()
    var at = 0
    while at < rows.rowBytes {
      prefetch(codes + at + scanAhead)
      sums.add(codes + at, planes(query, at))
      sums.add(codes + at + 32, planes(query, at + 32))
      at += 64
    }
    out[row] = score(sumOfLanes(sums.high), sumOfLanes(sums.low), query, rows.scales[row])
    row += 1
  }
}

/// Bytes: the hardware's own prefetching ends with each page.
@inline(__always)
private var scanAhead: Int { 8192 }

@inline(__always)
private func score(_ high: Int32, _ low: Int32, _ query: QueryPlanes, _ scale: Float) -> Float {
  let sum = Float(high &- 128 &* query.highSum) * 128 + Float(low &- 128 &* query.lowSum)
  return sum * (scale * query.scale)
}

@inline(__always)
private func planes(_ query: QueryPlanes, _ at: Int) -> (__m256i, __m256i) {
  (loadBytes(UnsafeRawPointer(query.high + at)), loadBytes(UnsafeRawPointer(query.low + at)))
}

/// A row's products with both planes.
private struct Sums {
  var high = _mm256_setzero_si256()
  var low = _mm256_setzero_si256()

  @inline(__always)
  mutating func add(_ address: UnsafeRawPointer, _ planes: (__m256i, __m256i)) {
    let ones = _mm256_set1_epi16(1)
    let codes = loadBytes(address)
    high = _mm256_add_epi32(high, _mm256_madd_epi16(_mm256_maddubs_epi16(codes, planes.0), ones))
    low = _mm256_add_epi32(low, _mm256_madd_epi16(_mm256_maddubs_epi16(codes, planes.1), ones))
  }
}

@inline(__always)
private func fourRows(
  _ codes: UnsafeRawPointer, _ rowBytes: Int, _ query: QueryPlanes
) -> (high: SIMD4<Int32>, low: SIMD4<Int32>) {
  var (a, b, c, d) = (Sums(), Sums(), Sums(), Sums())
  var at = 0
  while at < rowBytes {
    // The four rows follow each other: a quarter of what they have is prefetched by each.
    prefetch(codes + at + scanAhead)
    prefetch(codes + rowBytes + at + scanAhead)
    prefetch(codes + 2 * rowBytes + at + scanAhead)
    prefetch(codes + 3 * rowBytes + at + scanAhead)
    for half in 0..<2 {
      let place = at + 32 * half
      let planes = planes(query, place)
      a.add(codes + place, planes)
      b.add(codes + rowBytes + place, planes)
      c.add(codes + 2 * rowBytes + place, planes)
      d.add(codes + 3 * rowBytes + place, planes)
    }
    at += 64
  }
  return (fourSums(a.high, b.high, c.high, d.high), fourSums(a.low, b.low, c.low, d.low))
}

/// The sums of the lanes of four registers.
@inline(__always)
private func fourSums(_ a: __m256i, _ b: __m256i, _ c: __m256i, _ d: __m256i) -> SIMD4<Int32> {
  let pairs = _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d))
  let lanes = unsafeBitCast(pairs, to: SIMD8<Int32>.self)
  return lanes.lowHalf &+ lanes.highHalf
}

/// Sums of the even rows and of the odd ones, sixteen bits each.
@inline(__always)
func signSums(
  _ bytes: UnsafeRawPointer, _ tables: UnsafeRawPointer, _ range: Range<Int>
) -> (even: __m256i, odd: __m256i) {
  let nibble = _mm256_set1_epi8(15)
  var all = _mm256_setzero_si256()
  var odd = all
  var at = range.lowerBound
  while at < range.upperBound {
    prefetch(bytes + 32 * at + scanAhead)
    for next in 0..<2 {
      let codes = loadBytes(bytes + 32 * (at + next))
      let table = tables + 32 * (at + next)
      let low = _mm256_shuffle_epi8(twice(table), _mm256_and_si256(codes, nibble))
      let high = _mm256_shuffle_epi8(twice(table + 16), _mm256_and_si256(_mm256_srli_epi16(codes, 4), nibble))
      let both = _mm256_add_epi8(low, high)
      all = _mm256_add_epi16(all, both)
      odd = _mm256_add_epi16(odd, _mm256_srli_epi16(both, 8))
    }
    at += 2
  }
  return (_mm256_sub_epi16(all, _mm256_slli_epi16(odd, 8)), odd)
}

@inline(__always)
private func twice(_ table: UnsafeRawPointer) -> __m256i {
  let half = table.loadUnaligned(as: SIMD2<Int64>.self)
  return __m256i(lowHalf: half, highHalf: half)
}
