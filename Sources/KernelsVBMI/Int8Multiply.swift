// Products of int8 activations with affine weights of 3, 5 and 6 bits for few rows of x (decode), where AVX-512 has VBMI.
//
// Bit fields become bytes in three instructions: `VPERMB` gives each eight elements a quadword of their own,
// `VPMULTISHIFTQB` takes eight bits from any place of a quadword to each of its bytes, and a mask clears what belongs to
// the neighbours. The places follow the order of the activations, [even | odd] in a block or natural, so that neither side
// is shuffled again. `VPDPBUSD` adds four products to a dword.
//
// Lanes and their order are those of the AVX2 module's Int8Multiply: the same bits.

import _Builtin_intrinsics.intel

/// What a product of one row of x reads and writes; a tuple, since a struct would bring weak symbols.
typealias Operands = (
  w: UnsafeRawPointer, rowBytes: Int, scales: UnsafeRawPointer, biases: UnsafeRawPointer, scaleRowBytes: Int,
  format: Int, isShared: Bool, rows: Int, x: UnsafeRawPointer, columns: Int, y: UnsafeMutablePointer<Float>
)

/// `y[r · yStride + o]` for quantized rows of x (the AVX-512 module's Int8Rows); weights as Compute's
/// KernelTable.MultiplyPacked.
package func multiplyInt8(
  packed: UnsafeRawPointer, rowBytes: Int, scales: UnsafeRawPointer, biases: UnsafeRawPointer,
  scaleRowBytes: Int, scaleFormat: Int, bits: Int, groupSize: Int, weightRows: Int, x: UnsafeRawPointer,
  xStride: Int, xRows: Int, columns: Int, y: UnsafeMutablePointer<Float>, yStride: Int
) {
  // Blocks of 64 share their group's scale in twos.
  var p: Operands = (
    packed, rowBytes, scales, biases, scaleRowBytes, scaleFormat, groupSize > 64, weightRows, x, columns, y
  )
  let places = places(bits, min(groupSize, 64))
  for _ in 0..<xRows {
    // Each case is a function of its own, not private, as in the AVX2 module.
    switch (bits, groupSize) {
    case (3, 32): rows3x32(p, places)
    case (3, _): rows3x64(p, places)
    case (5, 32): rows5x32(p, places)
    case (5, _): rows5x64(p, places)
    case (_, 32): rows6x32(p, places)
    default: rows6x64(p, places)
    }
    p.x += xStride
    p.y += yStride
  }
}

@inline(never)
func rows3x32(_ p: Operands, _ places: Places) { allRows(p, 3, 32, places) }

@inline(never)
func rows3x64(_ p: Operands, _ places: Places) { allRows(p, 3, 64, places) }

@inline(never)
func rows5x32(_ p: Operands, _ places: Places) { allRows(p, 5, 32, places) }

@inline(never)
func rows5x64(_ p: Operands, _ places: Places) { allRows(p, 5, 64, places) }

@inline(never)
func rows6x32(_ p: Operands, _ places: Places) { allRows(p, 6, 32, places) }

@inline(never)
func rows6x64(_ p: Operands, _ places: Places) { allRows(p, 6, 64, places) }

/// Row by row in the order of memory; four rows share the last sums.
@inline(__always)
private func allRows(_ p: Operands, _ bits: Int, _ block: Int, _ places: Places) {
  let zero = _mm256_setzero_ps()
  var (p0, p1, p2, p3) = (zero, zero, zero, zero)
  for o in 0..<p.rows {
    (p0, p1, p2, p3) = (p1, p2, p3, rowProduct(p, o, bits, block, places))
    if o & 3 == 3 {
      _mm_storeu_ps(p.y + o - 3, sums(p0, p1, p2, p3))
    } else if o >= p.rows & ~3 {
      p.y[o] = sum(p3)
    }
  }
}

/// Eight lanes of row `o`, still to be summed: block j is added to lane j mod 16 of sixteen, whose halves are added last.
@inline(__always)
private func rowProduct(_ p: Operands, _ o: Int, _ bits: Int, _ block: Int, _ places: Places) -> __m256 {
  var (w, x) = (p.w + o * p.rowBytes, p.x)
  var (s, b) = (p.scales + o * p.scaleRowBytes, p.biases + o * p.scaleRowBytes)
  let blocks = p.columns / block
  var a = p.x + ((p.columns + 63) & ~63)
  let c = 4 * ((blocks + 15) & ~15)
  // Bytes of sixteen blocks.
  let (wStep, sStep) = (2 * block * bits, (p.format == 0 ? 64 : 32) / (p.isShared ? 2 : 1))
  var total = _mm512_setzero_ps()
  var left = blocks
  while left > 0 {
    prefetchAhead(w, wStep)
    // The rows of scales follow each other as those of weights do.
    prefetch(s + prefetchDistance / wStep * sStep)
    prefetch(b + prefetchDistance / wStep * sStep)
    let count = left < 16 ? left : 16
    // Where another row follows, what is read with the last weights is there.
    let integers =
      count == 16 && o + 1 < p.rows
      ? sixteen(w, x, 16, bits, block, places, isLast: false)
      : sixteen(w, x, count, bits, block, places, isLast: true)
    let scales = _mm512_mul_ps(_mm512_loadu_ps(a), numbers(s, p, count))
    total = _mm512_fmadd_ps(_mm512_cvtepi32_ps(integers), scales, total)
    total = _mm512_fmadd_ps(numbers(b, p, count), _mm512_loadu_ps(a + c), total)
    w += wStep
    x += 16 * block
    s += sStep
    b += sStep
    a += 64
    left -= 16
  }
  return _mm256_add_ps(total.lowHalf, total.highHalf)
}

// MARK: Integer products

/// Integer products of `count` (1 ... 16) blocks, one lane each, zeros behind them. With `isLast` nothing behind the weights is
/// read.
@inline(__always)
private func sixteen(
  _ w: UnsafeRawPointer, _ x: UnsafeRawPointer, _ count: Int, _ bits: Int, _ block: Int, _ places: Places,
  isLast: Bool
) -> __m512i {
  let zero = _mm512_setzero_si512()
  let (units, blocksPerUnit) = (block / 4, 64 / block)
  var (q0, q1, q2, q3) = (zero, zero, zero, zero)
  for quarter in 0..<units / 4 {
    var (a, b, c, d) = (zero, zero, zero, zero)
    for i in 4 * quarter..<4 * quarter + 4 {
      var dwords = zero
      if i * blocksPerUnit < count {
        let elements = isLast ? (block == 32 && 2 * i + 1 == count ? 32 : 64) : nil
        let weights = unit(w + 8 * bits * i, bits, elements, places)
        dwords = _mm512_dpbusd_epi32(zero, weights, _mm512_loadu_si512(x + 64 * i))
      }
      (a, b, c, d) = (b, c, d, dwords)
    }
    (q0, q1, q2, q3) = (q1, q2, q3, fourSums(a, b, c, d))
  }
  if block == 64 { return addQuarters(addQuarters(q0, q1), addQuarters(q2, q3)) }
  // The last two registers hold even and odd blocks in turns of four: [0 2 4 6 | 1 3 5 7 | 8 10 12 14 | 9 11 13 15].
  let order = _mm512_set_epi32(15, 11, 14, 10, 13, 9, 12, 8, 7, 3, 6, 2, 5, 1, 4, 0)
  return _mm512_permutexvar_epi32(order, addQuarters(q2, q3))
}

/// 64 weights as bytes, in the order of the activations. With `elements`, 32 or 64, no more are read, and zeros follow.
@inline(__always)
private func unit(_ w: UnsafeRawPointer, _ bits: Int, _ elements: Int?, _ places: Places) -> __m512i {
  let packed: __m512i
  if let elements {
    packed = _mm512_maskz_loadu_epi8(~0 >> __mmask64(truncatingIfNeeded: 64 - elements * bits / 8), w)
  } else {
    packed = _mm512_loadu_si512(w)
  }
  let fields = _mm512_multishift_epi64_epi8(places.shifts, _mm512_permutexvar_epi8(places.bytes, packed))
  return _mm512_and_si512(fields, _mm512_set1_epi8(Int8(truncatingIfNeeded: (1 << bits) - 1)))
}

/// In each quarter of a register, the sums of that quarter of four registers.
@inline(__always)
private func fourSums(_ a: __m512i, _ b: __m512i, _ c: __m512i, _ d: __m512i) -> __m512i {
  let first = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b))
  let second = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d))
  return _mm512_add_epi32(_mm512_unpacklo_epi64(first, second), _mm512_unpackhi_epi64(first, second))
}

/// Quarters 0 + 1 and 2 + 3 of a, then those of b.
@inline(__always)
private func addQuarters(_ a: __m512i, _ b: __m512i) -> __m512i {
  let (even, odd) = (
    _mm512_set_epi64(13, 12, 9, 8, 5, 4, 1, 0), _mm512_set_epi64(15, 14, 11, 10, 7, 6, 3, 2)
  )
  return _mm512_add_epi32(_mm512_permutex2var_epi64(a, even, b), _mm512_permutex2var_epi64(a, odd, b))
}

/// Which byte of 64 packed weights each byte of their quadwords is, and by how many bits a quadword moves down for each.
typealias Places = (bytes: __m512i, shifts: __m512i)

@inline(never)
func places(_ bits: Int, _ block: Int) -> Places {
  var (bytes, shifts) = (SIMD64<UInt8>(), SIMD64<UInt8>())
  for lane in 0..<64 {
    let first = element(lane & ~7, bits, block) * bits / 8
    bytes[lane] = UInt8(truncatingIfNeeded: first + lane % 8)
    shifts[lane] = UInt8(truncatingIfNeeded: element(lane, bits, block) * bits - 8 * first)
  }
  return (unsafeBitCast(bytes, to: __m512i.self), unsafeBitCast(shifts, to: __m512i.self))
}

/// The element that the activations have at `place`: up to 4 bits, a block is [even | odd].
@inline(__always)
private func element(_ place: Int, _ bits: Int, _ block: Int) -> Int {
  if bits > 4 { return place }
  let inBlock = place % block
  return place - inBlock + (inBlock < block / 2 ? 2 * inBlock : 2 * inBlock - block + 1)
}

// MARK: Scales and sums

/// Scales or biases of `count` blocks, zeros behind them.
@inline(__always)
private func numbers(_ base: UnsafeRawPointer, _ p: Operands, _ count: Int) -> __m512 {
  let mask = __mmask16(truncatingIfNeeded: (1 << (p.isShared ? (count + 1) / 2 : count)) - 1)
  let values: __m512
  switch p.format {
  case 0: values = _mm512_maskz_loadu_ps(mask, base)
  case 1: values = _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, base))
  default:
    let words = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, base))
    values = _mm512_castsi512_ps(_mm512_slli_epi32(words, 16))
  }
  guard p.isShared else { return values }
  // A group of 128 is two blocks of 64 with the same scale.
  let twice = _mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0)
  return _mm512_permutexvar_ps(twice, values)
}

/// The sum of all lanes, in the tree of the AVX2 module.
@inline(__always)
private func sum(_ v: __m256) -> Float {
  let four = v.lowHalf + v.highHalf
  let two = four.lowHalf + four.highHalf
  return two[0] + two[1]
}

/// The sums of four registers' lanes, each in the tree of `sum`.
@inline(__always)
private func sums(_ a: __m256, _ b: __m256, _ c: __m256, _ d: __m256) -> SIMD4<Float> {
  let (a, b) = (a.lowHalf + a.highHalf, b.lowHalf + b.highHalf)
  let (c, d) = (c.lowHalf + c.highHalf, d.lowHalf + d.highHalf)
  let ab =
    SIMD4(lowHalf: a.lowHalf, highHalf: b.lowHalf) + SIMD4(lowHalf: a.highHalf, highHalf: b.highHalf)
  let cd =
    SIMD4(lowHalf: c.lowHalf, highHalf: d.lowHalf) + SIMD4(lowHalf: c.highHalf, highHalf: d.highHalf)
  return SIMD4(lowHalf: ab.evenHalf, highHalf: cd.evenHalf) + SIMD4(lowHalf: ab.oddHalf, highHalf: cd.oddHalf)
}
