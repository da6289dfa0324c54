// Products of E4M3 weights (mxfp8, fp8) as integers of sixteen bits with activations of twelve, in panels of sixteen outputs.
//
// A block of 32 inputs has one scale on either side: its products are summed as integers and scaled once. An element has a
// sign, four bits e and three bits m:
//
//   e > 0:  (8 + m) · 2^(e - 10)  =  2^-6 · ((8 + m) << 11 >> (15 - e))
//
// What is below 2^-6 is dropped, where the largest element under a scale is between 224 and 448: those with e < 4 lose up to
// three bits, those with e = 0 all. No sum overflows: 32 · 2,047 · (15 << 11) < 2^31.
//
// A quantized row of x, 64-byte aligned:
//
//   int16 x16[columns], of each four elements the even ones first  |  float a[blocks, padded to 16],  x ≈ 2^6 · a · x16
//
// Kept panels are those of FloatingPanels. A word of one has an element of an even column, and one of the odd column after it.

package import KernelTypes
import _Builtin_intrinsics.intel

/// Bytes of one quantized row.
package func wideRowBytes(_ columns: Int) -> Int { 2 * columns + 4 * paddedBlocks(columns, 32) }

/// Quantizes one row of `columns` floats, a multiple of 32; see the head of this file for `out`. Scalar twin:
/// `Reference.quantizeWide`.
package func quantizeWide(_ x: UnsafePointer<Float>, _ columns: Int, into out: UnsafeMutableRawPointer) {
  let scales = (out + 2 * columns).assumingMemoryBound(to: Float.self)
  // Of each four elements 0, 2, 1, 3.
  let order = _mm256_set_epi8(
    15, 14, 11, 10, 13, 12, 9, 8, 7, 6, 3, 2, 5, 4, 1, 0, 15, 14, 11, 10, 13, 12, 9, 8, 7, 6, 3, 2, 5, 4, 1, 0
  )
  for j in 0..<columns / 32 {
    let (first, second) = (load(x, 32 * j), load(x, 32 * j + 16))
    let top = maximum(_mm512_max_ps(_mm512_abs_ps(first), _mm512_abs_ps(second)))
    let inverse = _mm512_set1_ps(top > 0 ? 2047 / top : 0)
    @inline(__always)
    func store(_ values: __m512, _ at: Int) {
      let q = _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(_mm512_mul_ps(values, inverse)))
      _mm256_storeu_si256(
        (out + 64 * j + at).assumingMemoryBound(to: __m256i.self), _mm256_shuffle_epi8(q, order))
    }
    store(first, 0)
    store(second, 32)
    scales[j] = top / 2047 * 0x1p-6
  }
}

/// `y[r][o] = weights[o] · x[r]` by panels that are made for this product alone. Scalar twin: `Reference.multiplyWide`.
package func multiplyWide(_ weights: FloatingRows, _ x: Int8Activations, into y: Output) {
  let panelBytes = Panel.width * ((weights.rowBytes + 63) & ~63)
  forEachPass(over: x, weights.columns, besides: panelBytes) { first, pass, room, count in
    var pass = pass
    var output = Output(base: y.base + first * y.stride, stride: y.stride)
    for o in stride(from: 0, to: weights.count, by: Panel.width) {
      let part = weights.rows(o..<min(o + Panel.width, weights.count))
      makePanel(part, room, pass.factors)
      pass.panel = UnsafeRawPointer(room)
      // The next panel's rows are prefetched in between, its few scales at once.
      let ahead = min(Panel.width, weights.count - o - part.count)
      pass.next = part.packed + part.count * part.rowBytes
      pass.last = pass.next + ahead * part.rowBytes
      for line in 0..<(ahead * part.scaleRowBytes + 63) / 64 {
        prefetch(part.scales + part.count * part.scaleRowBytes + 64 * line)
      }
      multiply(pass, rows: count, outputs: part.count, into: output)
      output.base += Panel.width
    }
  }
}

/// As `multiplyWide`, to the bit, by panels that are kept.
package func multiplyWidePanels(_ weights: FloatingPanelRows, _ x: Int8Activations, into y: Output) {
  let panelBytes = floatingPanelBytes(weights.mode, weights.columns)
  forEachPass(over: x, weights.columns, besides: 0) { first, pass, _, count in
    var pass = pass
    var output = Output(base: y.base + first * y.stride, stride: y.stride)
    var panel = weights.base
    for o in stride(from: 0, to: weights.count, by: Panel.width) {
      for j in 0..<pass.groups {
        _mm512_storeu_ps(pass.factors + 64 * j, sixteenScales(panel, j, weights.mode))
      }
      (pass.panel, pass.gap) = (panel + scaleBytes, scaleBytes)
      pass.next = panel + panelBytes
      let ahead = o + Panel.width < weights.count ? panelBytes : min(panelBytes, weights.aheadBytes)
      pass.last = pass.next + ahead
      multiply(pass, rows: count, outputs: min(Panel.width, weights.count - o), into: output)
      panel += panelBytes
      output.base += Panel.width
    }
  }
}

/// Calls `body` with some rows of x at a time: the number of the first, a pass without a panel, `bytes` of room, 64-byte aligned,
/// and how many rows they are.
@inline(__always)
private func forEachPass(
  over x: Int8Activations, _ columns: Int, besides bytes: Int,
  _ body: (_ first: Int, _ pass: WidePass, _ room: UnsafeMutableRawPointer, _ rows: Int) -> Void
) {
  let groups = columns / 32
  // `makePanel` writes the factors of sixteen groups at a time.
  let factorBytes = 64 * paddedBlocks(columns, 32)
  let integerBytes = x.count >= rowsForIntegers ? 2 * Panel.width * columns : 0
  let all = totalBytes() + factorBytes + integerBytes + bytes
  withUnsafeTemporaryAllocation(byteCount: all, alignment: 64) { buffer in
    guard let totals = buffer.baseAddress else { return }
    let factors = totals + totalBytes()
    let most = max(rowsForIntegers, bytesPerPass / (2 * columns) & ~7)
    var first = 0
    while first < x.count {
      // The last pass keeps eight rows at least, if there are as many.
      let left = x.count - first
      let count = left > most && left < most + 8 ? most - 8 : min(left, most)
      let pass: WidePass = (
        panel: UnsafeRawPointer(totals), gap: 0, factors: factors, integers: factors + factorBytes,
        keepsIntegers: count >= rowsForIntegers, groups: groups,
        x: x.base + first * x.rowBytes, stride: x.rowBytes, scales: 2 * columns,
        totals: totals.assumingMemoryBound(to: Float.self), next: x.base, last: x.base, share: 0,
        isFar: count < 32
      )
      body(first, pass, factors + factorBytes + integerBytes, count)
      first += count
    }
  }
}

/// From so many rows of x on the first eight leave a panel's elements as integers to the others.
private let rowsForIntegers = 16

/// Most bytes of x that a panel is multiplied with before the next: they stay in the second-level cache.
private let bytesPerPass = 256 << 10

/// Some rows of x by a panel, in which `gap` bytes are between each four groups and the next. `factors` are the scales of its
/// groups as floats, `integers` is room for its elements; `scales` bytes after the beginning of a row of x are its scales. The
/// memory from `next` to `last` is prefetched, `share` bytes with each group, `isFar` into the second-level cache.
typealias WidePass = (
  panel: UnsafeRawPointer, gap: Int, factors: UnsafeMutableRawPointer, integers: UnsafeMutableRawPointer,
  keepsIntegers: Bool, groups: Int, x: UnsafeRawPointer, stride: Int, scales: Int,
  totals: UnsafeMutablePointer<Float>, next: UnsafeRawPointer, last: UnsafeRawPointer, share: Int, isFar: Bool
)

/// A panel by rows of x, eight or four at a time or one by one: into the first `outputs` (1 ... 16) columns of y.
@inline(__always)
private func multiply(_ first: WidePass, rows count: Int, outputs: Int, into y: Output) {
  let mask = tailMask(outputs)
  let rows = count >= 8 ? 8 : count >= 4 ? 4 : 1
  var p = first
  let ahead = p.last - p.next
  p.share = ahead / (p.groups * ((count + rows - 1) / rows)) + 1
  // Slots are written by their first group; those without one are zero.
  for slot in min(p.groups, 16)..<slots(p.groups) {
    for i in 0..<rows { _mm512_storeu_ps(p.totals + 256 * i + 16 * slot, _mm512_setzero_ps()) }
  }
  for r in stride(from: 0, to: count, by: rows) {
    // The last rows may overlap those before them.
    let start = min(r, count - rows)
    p.x = first.x + start * p.stride
    p.last = min(first.last, p.next + p.groups * p.share)
    switch (rows, p.keepsIntegers, r) {
    case (8, true, 0): eightRowsWideFirst(p)
    case (8, true, _): eightRowsWideNext(p)
    case (8, false, _): eightRowsWide(p)
    case (4, _, _): fourRowsWide(p)
    default: oneRowWide(p)
    }
    p.next = max(p.next, p.last)
    for i in 0..<rows {
      _mm512_mask_storeu_ps(
        y.base + (start + i) * y.stride, mask, sumOfSlots(p.totals + 256 * i, p.groups))
    }
  }
}

@inline(never)
func oneRowWide(_ p: WidePass) { pass(p, rows: 1, .made) }

@inline(never)
func fourRowsWide(_ p: WidePass) { pass(p, rows: 4, .made) }

@inline(never)
func eightRowsWide(_ p: WidePass) { pass(p, rows: 8, .made) }

@inline(never)
func eightRowsWideFirst(_ p: WidePass) { pass(p, rows: 8, .left) }

@inline(never)
func eightRowsWideNext(_ p: WidePass) { pass(p, rows: 8, .found) }

/// What a pass does with a panel's integers: makes them, makes them and leaves them to others, or finds them.
private enum IntegerUse { case made, left, found }

@inline(__always)
private func pass(_ p: WidePass, rows: Int, _ integers: IntegerUse) {
  // A slot's first group finds nothing to add to.
  let first = min(16, p.groups)
  for j in 0..<first { step(p, j, rows: rows, integers, isFirst: true) }
  for j in first..<p.groups { step(p, j, rows: rows, integers, isFirst: false) }
}

/// The elements in the low and in the high bytes of all words, in units of 2^-6.
@inline(__always)
private func wide(_ words: __m512i) -> (even: __m512i, odd: __m512i) {
  let (mantissa, one) = (_mm512_set1_epi16(0x3800), _mm512_set1_epi16(0x4000))
  let fifteen = _mm512_set1_epi16(15)
  /// - Parameter exponent: e in the lowest four bits.
  @inline(__always)
  func magnitude(_ shifted: __m512i, exponent: __m512i) -> __m512i {
    let significand = _mm512_or_si512(_mm512_and_si512(shifted, mantissa), one)
    return _mm512_srlv_epi16(significand, _mm512_andnot_si512(exponent, fifteen))
  }
  let even = magnitude(_mm512_slli_epi16(words, 11), exponent: _mm512_srli_epi16(words, 3))
  let odd = magnitude(_mm512_slli_epi16(words, 3), exponent: _mm512_srli_epi16(words, 11))
  let zero = _mm512_setzero_si512()
  return (
    _mm512_mask_sub_epi16(even, _mm512_test_epi16_mask(words, _mm512_set1_epi16(0x80)), zero, even),
    _mm512_mask_sub_epi16(odd, _mm512_movepi16_mask(words), zero, odd)
  )
}

/// Group `j` of the panel by `rows` rows of x.
@inline(__always)
private func step(_ p: WidePass, _ j: Int, rows: Int, _ integers: IntegerUse, isFirst: Bool) {
  prefetchShare(p.next, upTo: p.last, p.share, j, isFar: p.isFar)
  let weights = p.panel + 512 * j + (j >> 2) * p.gap
  let made = p.integers + 1024 * j
  let x = p.x + 64 * j
  // Of eight rows one sum each, of four two, of one row four: few sums would wait for their own last product.
  var sums = registers(of: _mm512_setzero_si512())
  for d in 0..<8 {
    let even: __m512i
    let odd: __m512i
    if case .found = integers {
      (even, odd) = (_mm512_loadu_si512(made + 128 * d), _mm512_loadu_si512(made + 128 * d + 64))
    } else {
      (even, odd) = wide(_mm512_loadu_si512(weights + 64 * d))
    }
    if case .left = integers {
      _mm512_storeu_si512(made + 128 * d, even)
      _mm512_storeu_si512(made + 128 * d + 64, odd)
    }
    /// Adds weights times two activations of row `i`, `at` bytes from the first of these four, to a sum.
    @inline(__always)
    func add(to sum: Int, _ weights: __m512i, row i: Int, at: Int) {
      let two = (x + i * p.stride + at + 8 * d).loadUnaligned(as: Int32.self)
      set(&sums, sum, _mm512_dpwssd_epi32(get(&sums, sum), weights, _mm512_set1_epi32(two)))
    }
    if rows == 1 {
      if d & 1 == 0 {
        add(to: 0, even, row: 0, at: 0)
        add(to: 2, odd, row: 0, at: 4)
      } else {
        add(to: 1, even, row: 0, at: 0)
        add(to: 3, odd, row: 0, at: 4)
      }
    } else {
      for i in 0..<rows { add(to: i, even, row: i, at: 0) }
      for i in 0..<rows { add(to: rows == 8 ? i : i + 4, odd, row: i, at: 4) }
    }
  }
  let factor = load(p.factors, 16 * j)
  let total = p.totals + 16 * (j & 15)
  @inline(__always)
  func fold(_ products: __m512i, _ i: Int) {
    let a = (p.x + i * p.stride + p.scales + 4 * j).loadUnaligned(as: Float.self)
    let before = isFirst ? _mm512_setzero_ps() : load(total, 256 * i)
    // Up to 2^31, so it rounds.
    let product = _mm512_cvtepi32_ps(products)
    _mm512_storeu_ps(
      total + 256 * i, _mm512_fmadd_ps(product, _mm512_mul_ps(factor, _mm512_set1_ps(a)), before))
  }
  switch rows {
  case 8: for i in 0..<8 { fold(get(&sums, i), i) }
  case 4: for i in 0..<4 { fold(_mm512_add_epi32(get(&sums, i), get(&sums, i + 4)), i) }
  default:
    fold(
      _mm512_add_epi32(
        _mm512_add_epi32(get(&sums, 0), get(&sums, 1)), _mm512_add_epi32(get(&sums, 2), get(&sums, 3))), 0)
  }
}
