// Products of int8 activations with E2M1 weights (mxfp4, nvfp4) for many rows of x, by panels of sixteen outputs.
//
// Twice an E2M1 element plus 12 is a byte without a sign, which a shuffle looks up for each nibble of a panel (Int8Panel draws
// it). Twelve times the sum of the activations is taken off again where a group's integers begin:
//
//   w·x = (s · a/2) · (Σ (2e + 12)·x8 - 12 · Σ x8)
//
// These are the float operations of AVX2's Int8Floating, which takes few rows of x.

package import KernelTypes
import _Builtin_intrinsics.intel

/// Rows of x that are prepared together: 128 rows of 2,880 columns are 92 KB beside a panel of 23.
private let passRows = 128

/// `y[r][o] = weights[o] · x[r]` for E2M1 weights and at least four rows of x quantized in blocks of 32, [even | odd]. Scalar
/// twin: `Reference.multiplyInt8Floating`.
package func multiplyInt8FloatingPanels(_ weights: FloatingRows, _ x: Int8Activations, into y: Output) {
  let mode = weights.mode
  let groups = paddedBlocks(weights.columns, mode.groupSize)
  let panelBytes = Panel.width * ((weights.rowBytes + 63) & ~63)
  let factorBytes = 4 * Panel.width * groups
  let bytes = panelBytes + factorBytes + passBytes(weights.columns, mode, rows: x.count)
  withUnsafeTemporaryAllocation(byteCount: bytes, alignment: 64) { buffer in
    guard let panel = buffer.baseAddress else { return }
    let factors = panel + panelBytes
    forEachPass(over: x, weights.columns, mode, room: factors + factorBytes) { first, pass, rows in
      var pass = pass
      (pass.panel, pass.factors) = (UnsafeRawPointer(panel), UnsafeRawPointer(factors))
      var output = Output(base: y.base + first * y.stride, stride: y.stride)
      for o in stride(from: 0, to: weights.count, by: Panel.width) {
        let part = weights.rows(o..<min(o + Panel.width, weights.count))
        makePanel(part, panel, factors)
        // The next panel's rows are prefetched in between, its few scales at once.
        let ahead = min(Panel.width, weights.count - o - part.count)
        pass.next = part.packed + part.count * part.rowBytes
        pass.last = pass.next + ahead * part.rowBytes
        pass.share = ahead * part.rowBytes / (pass.groups * passCount(rows.count)) + 1
        for line in 0..<(ahead * part.scaleRowBytes + 63) / 64 {
          prefetch(part.scales + part.count * part.scaleRowBytes + 64 * line)
        }
        multiply(pass, rows, mode, outputs: part.count, into: output)
        output.base += Panel.width
      }
    }
  }
}

/// Bytes that `forEachPass` needs.
@inline(__always)
func passBytes(_ columns: Int, _ mode: FloatingMode, rows: Int) -> Int {
  8 * paddedBlocks(columns, mode.groupSize) * min(rows, passRows) + totalBytes()
}

/// Calls `body` with some rows of x, which are prepared, and the number of the first.
///
/// - Parameter room: `passBytes`, 64-byte aligned.
@inline(__always)
func forEachPass(
  over x: Int8Activations, _ columns: Int, _ mode: FloatingMode, room: UnsafeMutableRawPointer,
  _ body: (_ first: Int, _ pass: E2M1Pass, _ rows: Int8Activations) -> Void
) {
  let groups = paddedBlocks(columns, mode.groupSize)
  var first = 0
  while first < x.count {
    // The last pass keeps four rows at least.
    let left = x.count - first
    let count = left > passRows && left < passRows + 4 ? passRows - 4 : min(left, passRows)
    let rows = Int8Activations(base: x.base + first * x.rowBytes, rowBytes: x.rowBytes, count: count)
    for r in 0..<count { prepareGroups(rows.base + r * x.rowBytes, columns, mode, room + 8 * groups * r) }
    let totals = room + 8 * groups * min(x.count, passRows)
    body(
      first,
      (
        panel: rows.base, gap: 0, factors: rows.base, groups: columns / mode.groupSize, x: rows.base,
        stride: x.rowBytes, prepared: UnsafeRawPointer(room), halves: 4 * groups,
        totals: totals.assumingMemoryBound(to: Float.self), next: rows.base, last: rows.base, share: 0,
        isFar: false
      ), rows)
    first += count
  }
}

// MARK: Activations

/// For each group of a quantized row, the bits of a float that its integer sum is added to (`widener`), less 12 · Σ x8; after
/// them half of each group's scale (2^8 times that in nvfp4: see `scales`).
@inline(never)
func prepareGroups(
  _ row: UnsafeRawPointer, _ columns: Int, _ mode: FloatingMode, _ out: UnsafeMutableRawPointer
) {
  let isPaired = mode.groupSize == 16
  let groups = paddedBlocks(columns, mode.groupSize)
  let signs = _mm512_set1_epi32(Int32(bitPattern: 0x8080_8080))
  // Bytes of x8 + 128 are summed.
  let start = _mm512_set1_epi64(Int64(widener[0].bitPattern) + Int64(12 * 128 * mode.groupSize))
  let halvesSwapped = _mm512_set_epi64(5, 4, 7, 6, 1, 0, 3, 2)
  let pairsSwapped = _mm512_set_epi64(6, 7, 4, 5, 2, 3, 0, 1)
  let mask: __mmask8 = isPaired ? 0b0011_0011 : 0b0001_0001
  var target = out
  // Two blocks at a time: stores reach a few groups further, where the next or the scales are written.
  for at in stride(from: 0, to: columns, by: 64) {
    let bytes = _mm512_xor_si512(_mm512_loadu_si512(row + at), signs)
    // Even elements 0 to 7 and 8 to 15 of the first sixteen, odd ones likewise, and those of the second block.
    var sums = _mm512_sad_epu8(bytes, _mm512_setzero_si512())
    sums = _mm512_add_epi64(sums, _mm512_permutexvar_epi64(halvesSwapped, sums))
    if !isPaired { sums = _mm512_add_epi64(sums, _mm512_permutexvar_epi64(pairsSwapped, sums)) }
    let starts = _mm512_sub_epi64(start, _mm512_mul_epu32(sums, _mm512_set1_epi64(12)))
    let packed = _mm256_maskz_compress_epi32(mask, _mm512_cvtepi64_epi32(starts))
    _mm_storeu_si128(target.assumingMemoryBound(to: __m128i.self), packed.lowHalf)
    target += isPaired ? 16 : 8
  }
  let (scales, halves) = (row + paddedColumns(columns), out + 4 * groups)
  let twice = _mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0)
  let factor = _mm512_set1_ps(isPaired ? 128 : 0.5)
  for j in stride(from: 0, to: groups, by: 16) {
    var a = load(scales, isPaired ? j / 2 : j, isPaired ? 0xFF : 0xFFFF)
    if isPaired {
      a = _mm512_castsi512_ps(_mm512_permutexvar_epi32(twice, _mm512_castps_si512(a)))
    }
    _mm512_storeu_ps(halves + 4 * j, _mm512_mul_ps(a, factor))
  }
}

// MARK: Panels

/// The panel of at most sixteen rows' elements, and `factors[16 · group + output]`; float scales are of four groups each.
@inline(never)
func makePanel(
  _ weights: FloatingRows, _ panel: UnsafeMutableRawPointer, _ factors: UnsafeMutableRawPointer
) {
  let (packed, rows) = (weights.packed, weights.count)
  let groups = weights.columns / weights.mode.groupSize
  _ = interleave(
    packed, rowBytes: weights.rowBytes, rows: rows, into: panel, prefetching: packed, upTo: packed, 0)
  for first in stride(from: 0, to: groups, by: 16) {
    let mask = tailMask(min(16, groups - first))
    transpose(
      { o in
        let row = weights.scales + min(o, rows - 1) * weights.scaleRowBytes
        if weights.mode.hasFloatScales {
          let fours = load(row, first / 4, tailMask((min(16, groups - first) + 3) / 4))
          let each = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0)
          return _mm512_castps_si512(_mm512_permutexvar_ps(each, fours))
        }
        let codes = row + first
        return _mm512_castps_si512(scales(_mm_maskz_loadu_epi8(mask, codes), weights.mode))
      },
      into: { d, words in _mm512_storeu_si512(factors + 64 * (first + d), words) })
  }
}

/// Bytes of scale as floats: powers of two, the smallest of which is subnormal; in nvfp4 2^-8 times E4M3.
@inline(__always)
func scales(_ codes: __m128i, _ mode: FloatingMode) -> __m512 {
  guard case .nvfp4 = mode else {
    let bits = _mm512_slli_epi32(_mm512_cvtepu8_epi32(codes), 23)
    return _mm512_castsi512_ps(_mm512_max_epi32(bits, _mm512_set1_epi32(0x0040_0000)))
  }
  let words = _mm256_slli_epi16(_mm256_cvtepi8_epi16(codes), 7)
  return _mm512_cvtph_ps(_mm256_and_si256(words, _mm256_set1_epi16(Int16(bitPattern: 0xBFFF))))
}

// MARK: Products

/// Some rows of x by a panel, in which `gap` bytes are between each four groups and the next. `prepared` is what
/// `prepareGroups` made of the first row, `halves` bytes after which its scales are. The memory from `next` to `last` is
/// prefetched, `share` bytes with each group, `isFar` into the second-level cache.
typealias E2M1Pass = (
  panel: UnsafeRawPointer, gap: Int, factors: UnsafeRawPointer, groups: Int, x: UnsafeRawPointer, stride: Int,
  prepared: UnsafeRawPointer, halves: Int, totals: UnsafeMutablePointer<Float>, next: UnsafeRawPointer,
  last: UnsafeRawPointer, share: Int, isFar: Bool
)

/// A panel by at least 4 rows of x, eight or four at a time: into the first `outputs` (1 ... 16) columns of y.
@inline(__always)
func multiply(
  _ first: E2M1Pass, _ x: Int8Activations, _ mode: FloatingMode, outputs: Int, into y: Output
) {
  let mask = tailMask(outputs)
  var p = first
  // Slots are written by their first group; those without one are zero.
  for slot in min(p.groups, 16)..<slots(p.groups) {
    for i in 0..<8 { _mm512_storeu_ps(p.totals + 256 * i + 16 * slot, _mm512_setzero_ps()) }
  }
  var r = 0
  while r < x.count {
    // The last rows may overlap those before them.
    let isEight = x.count >= 8 && x.count - r > 4
    r = min(r, x.count - (isEight ? 8 : 4))
    p.x = first.x + r * p.stride
    p.prepared = first.prepared + 2 * r * p.halves
    p.last = min(first.last, p.next + p.groups * p.share)
    switch (mode, isEight) {
    case (.nvfp4, true): eightRowsNVFP4(p)
    case (.nvfp4, false): fourRowsNVFP4(p)
    case (_, true): eightRowsMXFP4(p)
    case (_, false): fourRowsMXFP4(p)
    }
    p.next = max(p.next, p.last)
    let rows = isEight ? 8 : 4
    for i in 0..<rows {
      _mm512_mask_storeu_ps(y.base + (r + i) * y.stride, mask, sumOfSlots(p.totals + 256 * i, p.groups))
    }
    r += rows
  }
}

@inline(never)
func eightRowsMXFP4(_ p: E2M1Pass) { pass(p, rows: 8, group: 32) }

@inline(never)
func fourRowsMXFP4(_ p: E2M1Pass) { pass(p, rows: 4, group: 32) }

@inline(never)
func eightRowsNVFP4(_ p: E2M1Pass) { pass(p, rows: 8, group: 16) }

@inline(never)
func fourRowsNVFP4(_ p: E2M1Pass) { pass(p, rows: 4, group: 16) }

@inline(__always)
private func pass(_ p: E2M1Pass, rows: Int, group: Int) {
  // A slot's first group finds nothing to add to.
  let first = min(16, p.groups)
  for j in 0..<first { step(p, j, rows: rows, group: group, isFirst: true) }
  for j in first..<p.groups { step(p, j, rows: rows, group: group, isFirst: false) }
}

/// Twice the E2M1 elements in the low nibbles of all bytes, plus 12.
@inline(__always)
func looked(up nibbles: __m512i) -> __m512i {
  let table = _mm_set_epi8(0, 4, 6, 8, 9, 10, 11, 12, 24, 20, 18, 16, 15, 14, 13, 12)
  return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), nibbles)
}

/// Group `j` of the panel by `rows` rows of x.
@inline(__always)
private func step(_ p: E2M1Pass, _ j: Int, rows: Int, group: Int, isFirst: Bool) {
  prefetchShare(p.next, upTo: p.last, p.share, j, isFar: p.isFar)
  let words = group / 8
  let weights = p.panel + 64 * words * j + (j >> 2) * p.gap
  // Of a block's two groups of 16, each has half of the even elements and half of the odd ones.
  let x = p.x + (group == 16 ? 32 * (j >> 1) + 8 * (j & 1) : 32 * j)
  let starts = p.prepared + 4 * j
  let nibbles = _mm512_set1_epi32(0x0F0F_0F0F)
  @inline(__always)
  func start(_ i: Int) -> __m512i {
    _mm512_set1_epi32((starts + 2 * i * p.halves).loadUnaligned(as: Int32.self))
  }
  var sums = registers(of: _mm512_setzero_si512())
  for i in 0..<rows { set(&sums, i, start(i)) }
  for d in 0..<words {
    let bytes = _mm512_loadu_si512(weights + 64 * d)
    /// Adds weights times four activations of row `i`, `at` bytes from the first of the group, to a sum.
    @inline(__always)
    func add(to sum: Int, _ weights: __m512i, row i: Int, at: Int) {
      let four = (x + i * p.stride + at + 4 * d).loadUnaligned(as: Int32.self)
      set(&sums, sum, _mm512_dpbusd_epi32(get(&sums, sum), weights, _mm512_set1_epi32(four)))
    }
    let even = looked(up: _mm512_and_si512(bytes, nibbles))
    let odd = looked(up: _mm512_and_si512(_mm512_srli_epi32(bytes, 4), nibbles))
    for i in 0..<rows { add(to: i, even, row: i, at: 0) }
    // Four sums alone would wait for their own last product.
    for i in 0..<rows { add(to: rows == 8 ? i : i + 4, odd, row: i, at: 16) }
  }
  let factor = load(p.factors, 16 * j)
  let total = p.totals + 16 * (j & 15)
  @inline(__always)
  func fold(_ products: __m512i, _ i: Int) {
    let half = (starts + 2 * i * p.halves + p.halves).loadUnaligned(as: Float.self)
    let before = isFirst ? _mm512_setzero_ps() : load(total, 256 * i)
    _mm512_storeu_ps(
      total + 256 * i, _mm512_fmadd_ps(widened(products), _mm512_mul_ps(factor, _mm512_set1_ps(half)), before)
    )
  }
  for i in 0..<rows {
    fold(rows == 8 ? get(&sums, i) : _mm512_add_epi32(get(&sums, i), get(&sums, i + 4)), i)
  }
}
