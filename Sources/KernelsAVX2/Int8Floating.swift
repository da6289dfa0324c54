// Products of int8 activations with E2M1 weights (mxfp4, nvfp4): twice an E2M1 element is an integer of at most 12.
//
// A shuffle looks up twice the element plus 12, which VPMADDUBSW takes as its unsigned side; twelve times the sum of the
// activations is taken off again, eight groups at once. For group j, of 32 elements in mxfp4 and 16 in nvfp4:
//
//   w·x = (a/2 · s) · (Σ (2e + 12)·x8 - 12 · Σ x8)
//
// The integer sum is exact. Group j belongs to float lane j mod 16 as in Int8Multiply. A row of the result is the same
// whatever rows are computed with it, so one kernel serves decode and prefill.

package import KernelTypes
import _Builtin_intrinsics.intel

/// `y[r][o] = weights[o] · x[r]` for E2M1 weights and rows of x quantized in blocks of 32, [even | odd]. Scalar twin:
/// `Reference.multiplyInt8Floating`.
package func multiplyInt8Floating(_ weights: FloatingRows, _ x: Int8Activations, into y: Output) {
  let (columns, mode) = (weights.columns, weights.mode)
  let size = groupedRowBytes(columns, mode.groupSize)
  withUnsafeTemporaryAllocation(byteCount: 2 * size, alignment: 32) { buffer in
    guard let buffer = buffer.baseAddress else { return }
    var (rows, target) = (x, y)
    rows.base = UnsafeRawPointer(buffer)
    rows.rowBytes = size
    var r = 0
    while r < x.count {
      let isPair = r + 1 < x.count
      for i in 0..<(isPair ? 2 : 1) {
        prepareGroups(x.base + (r + i) * x.rowBytes, columns, mode, buffer + i * size)
      }
      switch (mode, isPair) {
      case (.nvfp4, false): rowsNVFP4(weights, rows, target)
      case (.nvfp4, true): pairsNVFP4(weights, rows, target)
      case (_, false): rowsMXFP4(weights, rows, target)
      case (_, true): pairsMXFP4(weights, rows, target)
      }
      let done = isPair ? 2 : 1
      r += done
      target.base += done * y.stride
    }
  }
}

@inline(never)
func rowsMXFP4(_ weights: FloatingRows, _ x: Int8Activations, _ y: Output) {
  allRows(weights, x, y, .mxfp4, isPair: false)
}

@inline(never)
func rowsNVFP4(_ weights: FloatingRows, _ x: Int8Activations, _ y: Output) {
  allRows(weights, x, y, .nvfp4, isPair: false)
}

@inline(never)
func pairsMXFP4(_ weights: FloatingRows, _ x: Int8Activations, _ y: Output) {
  allRows(weights, x, y, .mxfp4, isPair: true)
}

@inline(never)
func pairsNVFP4(_ weights: FloatingRows, _ x: Int8Activations, _ y: Output) {
  allRows(weights, x, y, .nvfp4, isPair: true)
}

// MARK: Activations

@inline(__always)
private func groupedRowBytes(_ columns: Int, _ group: Int) -> Int {
  paddedColumns(columns) + 8 * paddedBlocks(columns, group)
}

/// A quantized row with its blocks side by side (`pairBlocks`), half of each group's scale (2^8 times that in nvfp4: see
/// `scaleValues`), and 12 · Σ x8 of each group.
@inline(never)
func prepareGroups(
  _ row: UnsafeRawPointer, _ columns: Int, _ mode: FloatingMode, _ out: UnsafeMutableRawPointer
) {
  let groups = paddedBlocks(columns, mode.groupSize)
  let isPaired = mode.groupSize == 16
  let padded = paddedColumns(columns)
  let scales = row + padded
  let halves = (out + padded).assumingMemoryBound(to: Float.self)
  let sums = (out + padded + 4 * groups).assumingMemoryBound(to: Int32.self)
  for j in 0..<groups {
    halves[j] = 0
    sums[j] = 0
  }
  for j in 0..<columns / 32 {
    let half = (isPaired ? 128 : 0.5) * (scales + 4 * j).loadUnaligned(as: Float.self)
    // Dwords: even elements of the first and the second sixteen, two each, then odd ones.
    let pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), loadBytes(row + 32 * j))
    let four = unsafeBitCast(_mm256_madd_epi16(pairs, _mm256_set1_epi16(12)), to: SIMD8<Int32>.self)
    let two = four.lowHalf &+ four.highHalf
    let (first, second) = (two[0] &+ two[1], two[2] &+ two[3])
    if isPaired {
      (halves[2 * j], halves[2 * j + 1]) = (half, half)
      (sums[2 * j], sums[2 * j + 1]) = (first, second)
    } else {
      halves[j] = half
      sums[j] = first &+ second
    }
  }
  pairBlocks(row, columns, 32, inQuarters: false, out)
}

// MARK: Rows of weights

@inline(__always)
private func allRows(
  _ weights: FloatingRows, _ x: Int8Activations, _ y: Output, _ mode: FloatingMode, isPair: Bool
) {
  storeRows(weights.count, y, isPair: isPair) { rowProduct(weights, $0, x, mode, isPair: isPair) }
}

/// Row `o` of the weights with the first row of x, or also with the second: eight lanes each, still to be summed.
@inline(__always)
private func rowProduct(
  _ weights: FloatingRows, _ o: Int, _ rows: Int8Activations, _ mode: FloatingMode, isPair: Bool
) -> (__m256, __m256) {
  let (columns, group, next) = (weights.columns, mode.groupSize, rows.rowBytes)
  var (w, s) = (weights.packed + o * weights.rowBytes, weights.scales + o * weights.scaleRowBytes)
  var (x, a) = (rows.base, rows.base + paddedColumns(columns))
  let c = 4 * paddedBlocks(columns, group)
  let zero = _mm256_setzero_ps()
  var (these, those) = ((zero, zero), (zero, zero))
  var left = columns / group
  while left >= 8 {
    prefetchAhead(w, 4 * group)
    prefetch(s + prefetchDistance / (4 * group) * 8)
    let (one, two) = eight(w, x, x + next, 8, mode, isPair: isPair)
    let scales = scaleValues(s.loadUnaligned(as: UInt64.self), mode)
    let sum = add(these.0, one, scales, a, c)
    (these, those) = (those, (sum, isPair ? add(these.1, two, scales, a + next, c) : zero))
    w += 4 * group
    x += 8 * group
    s += 8
    a += 32
    left -= 8
  }
  if left > 0 {
    prefetchAhead(w, 4 * group)
    let (one, two) = eight(w, x, x + next, left, mode, isPair: isPair)
    let scales = scaleValues(lastCodes(s, columns / group, left), mode)
    these.0 = add(these.0, one, scales, a, c)
    if isPair { these.1 = add(these.1, two, scales, a + next, c) }
  }
  return (_mm256_add_ps(these.0, those.0), _mm256_add_ps(these.1, those.1))
}

/// Adds eight groups to their lanes; `a` is where their halved scales are, and `c` bytes after it what the sums contain
/// too much.
@inline(__always)
private func add(_ total: __m256, _ sums: __m256i, _ scales: __m256, _ a: UnsafeRawPointer, _ c: Int)
  -> __m256
{
  let products = _mm256_cvtepi32_ps(_mm256_sub_epi32(sums, loadBytes(a + c)))
  return _mm256_fmadd_ps(products, _mm256_mul_ps(scales, load(a, 0)), total)
}

/// The last `count` (1 ... 7) of a row's bytes of scale; nothing outside the row is read. After them codes of small powers
/// of two: subnormal numbers would be slow.
@inline(__always)
private func lastCodes(_ scales: UnsafeRawPointer, _ all: Int, _ count: Int) -> UInt64 {
  var bytes: UInt64 = 0
  if all >= 8 {
    // Eight that end with them.
    bytes = (scales + count - 8).loadUnaligned(as: UInt64.self) >> UInt64(64 - 8 * count)
  } else {
    for i in 0..<count { bytes |= UInt64((scales + i).load(as: UInt8.self)) << UInt64(8 * i) }
  }
  return bytes | 0x3030_3030_3030_3030 << UInt64(8 * count)
}

/// Eight bytes of scale as floats: powers of two, the smallest of which is subnormal; in nvfp4 2^-8 times E4M3.
@inline(__always)
func scaleValues(_ codes: UInt64, _ mode: FloatingMode) -> __m256 {
  let bytes = _mm_cvtsi64_si128(Int64(bitPattern: codes))
  guard case .nvfp4 = mode else {
    let bits = _mm256_slli_epi32(_mm256_cvtepu8_epi32(bytes), 23)
    return _mm256_castsi256_ps(_mm256_max_epi32(bits, _mm256_set1_epi32(0x0040_0000)))
  }
  let words = _mm_slli_epi16(_mm_cvtepi8_epi16(bytes), 7)
  return _mm256_cvtph_ps(_mm_and_si128(words, _mm_set1_epi16(Int16(bitPattern: 0xBFFF))))
}

// MARK: Integer sums

/// Twice the E2M1 elements in the low nibbles, plus 12.
@inline(__always)
private func looked(up nibbles: __m256i) -> __m256i {
  _mm256_shuffle_epi8(
    _mm256_set_epi8(
      0, 4, 6, 8, 9, 10, 11, 12, 24, 20, 18, 16, 15, 14, 13, 12, 0, 4, 6, 8, 9, 10, 11, 12, 24, 20, 18, 16,
      15,
      14, 13, 12), nibbles)
}

/// Sums of `count` groups with a row of x, and with `other` if it is a pair; one lane each, those of zeros after them.
@inline(__always)
private func eight(
  _ w: UnsafeRawPointer, _ x: UnsafeRawPointer, _ other: UnsafeRawPointer, _ count: Int,
  _ mode: FloatingMode, isPair: Bool
) -> (__m256i, __m256i) {
  let zero = _mm256_setzero_si256()
  var (a, b, c, d) = (zero, zero, zero, zero)
  var (e, f, g, h) = (zero, zero, zero, zero)
  // Registers of 64 elements, and half of one at the end of a row.
  let isHalf = mode.groupSize == 16
  let (units, blocks) = (isHalf ? 2 : 4, isHalf ? count / 2 : count)
  for i in 0..<units {
    var (sums, others) = (zero, zero)
    if 2 * i < blocks {
      let bytes = 2 * i + 1 == blocks ? firstHalf(w + 32 * i) : loadBytes(w + 32 * i)
      let (even, odd) = (looked(up: lowNibbles(bytes)), looked(up: highNibbles(bytes)))
      sums = unitSums(even, odd, x + 64 * i)
      if isPair { others = unitSums(even, odd, other + 64 * i) }
    }
    (a, b, c, d) = (b, c, d, sums)
    (e, f, g, h) = (f, g, h, others)
  }
  return isHalf
    ? (eightOfSixteen(c, d), eightOfSixteen(g, h)) : (eightOf32(a, b, c, d), eightOf32(e, f, g, h))
}

/// Words: two pairs of products are at most 4 · 24 · 127 = 12,192.
@inline(__always)
private func unitSums(_ even: __m256i, _ odd: __m256i, _ x: UnsafeRawPointer) -> __m256i {
  _mm256_add_epi16(_mm256_maddubs_epi16(even, loadBytes(x)), _mm256_maddubs_epi16(odd, loadBytes(x + 32)))
}

/// Four registers of words, a block of 32 in each half, to the sums of eight blocks; two words fit sixteen bits.
@inline(__always)
private func eightOf32(_ a: __m256i, _ b: __m256i, _ c: __m256i, _ d: __m256i) -> __m256i {
  let one = _mm256_set1_epi16(1)
  let (first, second) = (_mm256_madd_epi16(addDwords(a, b), one), _mm256_madd_epi16(addDwords(c, d), one))
  return inOrder(
    _mm256_add_epi32(_mm256_unpacklo_epi64(first, second), _mm256_unpackhi_epi64(first, second)))
}

/// Two registers of words, two groups of 16 in each half, to the sums of eight groups.
@inline(__always)
private func eightOfSixteen(_ a: __m256i, _ b: __m256i) -> __m256i {
  // Groups 0, 1, 4, 5 | 2, 3, 6, 7.
  let sums = _mm256_madd_epi16(_mm256_hadd_epi16(a, b), _mm256_set1_epi16(1))
  return _mm256_permutevar8x32_epi32(sums, _mm256_set_epi32(7, 6, 3, 2, 5, 4, 1, 0))
}
