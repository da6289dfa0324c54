// Products of int8 activations with 4- and 8-bit affine weights by VPMADDUBSW, for few rows of x (decode).
//
// For block j: w·x = Σ (s·q + b)·a·x8 = (a·s) · Σ q·x8 + b · c. Nibbles are multiplied: a pair of products is at
// most 2·15·127 = 3,810, so eight of them fit sixteen bits; a byte is 16 times its high nibble plus its low one.
// The integer sum is exact in any order. Block j belongs to float lane j mod 16; each lane adds its blocks in order,
// first the product, then the bias term, and the sixteen lanes are summed in one fixed tree: the same bits as the
// AVX-512 module and the scalar twin.

import _Builtin_intrinsics.intel

// Plain functions instead of types here: a struct would bring value witnesses, which are weak symbols.

@inline(__always)
func lowNibbles(_ bytes: __m256i) -> __m256i { _mm256_and_si256(bytes, _mm256_set1_epi8(15)) }

@inline(__always)
func highNibbles(_ bytes: __m256i) -> __m256i {
  _mm256_and_si256(_mm256_srli_epi16(bytes, 4), _mm256_set1_epi8(15))
}

/// `y[r · yStride + o]` for quantized rows of x (`quantizeInt8`); weights as KernelTable.MultiplyPacked.
package func multiplyInt8(
  packed: UnsafeRawPointer, rowBytes: Int, scales: UnsafeRawPointer, biases: UnsafeRawPointer,
  scaleRowBytes: Int, scaleFormat: Int, bits: Int, groupSize: Int, weightRows: Int, x: UnsafeRawPointer,
  xStride: Int, xRows: Int, columns: Int, y: UnsafeMutablePointer<Float>, yStride: Int
) {
  for r in 0..<xRows {
    let (source, target) = (x + r * xStride, y + r * yStride)
    // Each case is a function of its own, and not private: see the AVX-512 module. The loop over the rows is
    // inside: with 16 blocks in a row, a call per row costs as much as a third of the products (measured).
    let (w, n, s, b, m, f) = (packed, rowBytes, scales, biases, scaleRowBytes, scaleFormat)
    switch (bits, groupSize) {
    case (4, 32): rows4x32(w, n, s, b, m, f, weightRows, source, columns, target)
    case (4, 64): rows4x64(w, n, s, b, m, f, weightRows, source, columns, target)
    case (4, _): rows4x128(w, n, s, b, m, f, weightRows, source, columns, target)
    case (_, 32): rows8x32(w, n, s, b, m, f, weightRows, source, columns, target)
    case (_, 64): rows8x64(w, n, s, b, m, f, weightRows, source, columns, target)
    default: rows8x128(w, n, s, b, m, f, weightRows, source, columns, target)
    }
  }
}

@inline(never)
func rows4x32(
  _ w: UnsafeRawPointer, _ rowBytes: Int, _ s: UnsafeRawPointer, _ b: UnsafeRawPointer, _ scaleRowBytes: Int,
  _ format: Int, _ rows: Int, _ x: UnsafeRawPointer, _ columns: Int, _ y: UnsafeMutablePointer<Float>
) {
  allRows(w, rowBytes, s, b, scaleRowBytes, format, 4, 32, false, rows, x, columns, y)
}

@inline(never)
func rows4x64(
  _ w: UnsafeRawPointer, _ rowBytes: Int, _ s: UnsafeRawPointer, _ b: UnsafeRawPointer, _ scaleRowBytes: Int,
  _ format: Int, _ rows: Int, _ x: UnsafeRawPointer, _ columns: Int, _ y: UnsafeMutablePointer<Float>
) {
  allRows(w, rowBytes, s, b, scaleRowBytes, format, 4, 64, false, rows, x, columns, y)
}

@inline(never)
func rows4x128(
  _ w: UnsafeRawPointer, _ rowBytes: Int, _ s: UnsafeRawPointer, _ b: UnsafeRawPointer, _ scaleRowBytes: Int,
  _ format: Int, _ rows: Int, _ x: UnsafeRawPointer, _ columns: Int, _ y: UnsafeMutablePointer<Float>
) {
  allRows(w, rowBytes, s, b, scaleRowBytes, format, 4, 64, true, rows, x, columns, y)
}

@inline(never)
func rows8x32(
  _ w: UnsafeRawPointer, _ rowBytes: Int, _ s: UnsafeRawPointer, _ b: UnsafeRawPointer, _ scaleRowBytes: Int,
  _ format: Int, _ rows: Int, _ x: UnsafeRawPointer, _ columns: Int, _ y: UnsafeMutablePointer<Float>
) {
  allRows(w, rowBytes, s, b, scaleRowBytes, format, 8, 32, false, rows, x, columns, y)
}

@inline(never)
func rows8x64(
  _ w: UnsafeRawPointer, _ rowBytes: Int, _ s: UnsafeRawPointer, _ b: UnsafeRawPointer, _ scaleRowBytes: Int,
  _ format: Int, _ rows: Int, _ x: UnsafeRawPointer, _ columns: Int, _ y: UnsafeMutablePointer<Float>
) {
  allRows(w, rowBytes, s, b, scaleRowBytes, format, 8, 64, false, rows, x, columns, y)
}

@inline(never)
func rows8x128(
  _ w: UnsafeRawPointer, _ rowBytes: Int, _ s: UnsafeRawPointer, _ b: UnsafeRawPointer, _ scaleRowBytes: Int,
  _ format: Int, _ rows: Int, _ x: UnsafeRawPointer, _ columns: Int, _ y: UnsafeMutablePointer<Float>
) {
  allRows(w, rowBytes, s, b, scaleRowBytes, format, 8, 64, true, rows, x, columns, y)
}

/// Row by row in the order of memory; four rows share the last sums.
@inline(__always)
private func allRows(
  _ w: UnsafeRawPointer, _ rowBytes: Int, _ s: UnsafeRawPointer, _ b: UnsafeRawPointer, _ scaleRowBytes: Int,
  _ format: Int, _ bits: Int, _ block: Int, _ isShared: Bool, _ rows: Int, _ x: UnsafeRawPointer,
  _ columns: Int, _ y: UnsafeMutablePointer<Float>
) {
  let zero = _mm256_setzero_ps()
  var (p0, p1, p2, p3) = (zero, zero, zero, zero)
  // A loop instead of four calls: inlined four times, the products exceed the compiler's budget.
  for o in 0..<rows {
    let (scales, biases) = (s + o * scaleRowBytes, b + o * scaleRowBytes)
    let product = rowProduct(w + o * rowBytes, scales, biases, format, bits, block, isShared, x, columns)
    (p0, p1, p2, p3) = (p1, p2, p3, product)
    if o & 3 == 3 {
      _mm_storeu_ps(y + o - 3, sums(p0, p1, p2, p3))
    } else if o >= rows & ~3 {
      y[o] = sum(product)
    }
  }
}

// MARK: Integer products of eight blocks

/// Sums of 16-bit pairs, still spread over a block's dwords: one block of 64, or two blocks of 32 in the two halves.
@inline(__always)
private func nibbles4(_ w: UnsafeRawPointer, _ x: UnsafeRawPointer, _ unit: Int, _ block: Int) -> __m256i {
  let bytes = loadBytes(w + 32 * unit)
  let evens: __m256i
  let odds: __m256i
  if block == 64 {
    evens = loadBytes(x + 64 * unit)
    odds = loadBytes(x + 64 * unit + 32)
  } else {
    // [even | odd] of one block, then of the next.
    let (first, second) = (loadBytes(x + 64 * unit), loadBytes(x + 64 * unit + 32))
    evens = __m256i(lowHalf: first.lowHalf, highHalf: second.lowHalf)
    odds = __m256i(lowHalf: first.highHalf, highHalf: second.highHalf)
  }
  return _mm256_add_epi16(
    _mm256_maddubs_epi16(lowNibbles(bytes), evens), _mm256_maddubs_epi16(highNibbles(bytes), odds))
}

/// As `nibbles4` for the low or high nibbles of 8-bit weights: one block of 64, or one of 32.
@inline(__always)
private func nibbles8(
  _ w: UnsafeRawPointer, _ x: UnsafeRawPointer, _ index: Int, _ block: Int, _ isHigh: Bool
) -> __m256i {
  let at = index * block
  let first = loadBytes(w + at)
  let sum = _mm256_maddubs_epi16(isHigh ? highNibbles(first) : lowNibbles(first), loadBytes(x + at))
  guard block == 64 else { return sum }
  let second = loadBytes(w + at + 32)
  return _mm256_add_epi16(
    sum, _mm256_maddubs_epi16(isHigh ? highNibbles(second) : lowNibbles(second), loadBytes(x + at + 32)))
}

@inline(__always)
private func addDwords(_ a: __m256i, _ b: __m256i) -> __m256i {
  _mm256_add_epi16(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b))
}

@inline(__always)
private func addQuads(_ a: __m256i, _ b: __m256i) -> __m256i {
  _mm256_add_epi16(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b))
}

/// Four registers of one block each to the four sums in each half; a 16-bit sum stays below 4 · 7,620.
@inline(__always)
private func fourSums(_ a: __m256i, _ b: __m256i, _ c: __m256i, _ d: __m256i) -> __m256i {
  _mm256_madd_epi16(addQuads(addDwords(a, b), addDwords(c, d)), _mm256_set1_epi16(1))
}

@inline(__always)
private func joinHalves(_ first: __m256i, _ second: __m256i) -> __m256i {
  let (a, b) = (
    unsafeBitCast(first, to: SIMD8<Int32>.self), unsafeBitCast(second, to: SIMD8<Int32>.self)
  )
  return unsafeBitCast(
    SIMD8<Int32>(lowHalf: a.lowHalf &+ a.highHalf, highHalf: b.lowHalf &+ b.highHalf), to: __m256i.self)
}

/// Integer products of the eight blocks that `w` and `x` begin with, one lane each.
@inline(__always)
private func eight(_ w: UnsafeRawPointer, _ x: UnsafeRawPointer, _ bits: Int, _ block: Int) -> __m256i {
  if bits == 4 && block == 64 {
    return joinHalves(
      fourSums(nibbles4(w, x, 0, 64), nibbles4(w, x, 1, 64), nibbles4(w, x, 2, 64), nibbles4(w, x, 3, 64)),
      fourSums(nibbles4(w, x, 4, 64), nibbles4(w, x, 5, 64), nibbles4(w, x, 6, 64), nibbles4(w, x, 7, 64)))
  }
  if bits == 4 {
    return inOrder(
      fourSums(nibbles4(w, x, 0, 32), nibbles4(w, x, 1, 32), nibbles4(w, x, 2, 32), nibbles4(w, x, 3, 32)))
  }
  let low = plane8(w, x, block, false)
  let high = plane8(w, x, block, true)
  return _mm256_add_epi32(low, _mm256_slli_epi32(high, 4))
}

@inline(__always)
private func plane8(_ w: UnsafeRawPointer, _ x: UnsafeRawPointer, _ block: Int, _ isHigh: Bool) -> __m256i {
  joinHalves(
    fourSums(
      nibbles8(w, x, 0, block, isHigh), nibbles8(w, x, 1, block, isHigh), nibbles8(w, x, 2, block, isHigh),
      nibbles8(w, x, 3, block, isHigh)),
    fourSums(
      nibbles8(w, x, 4, block, isHigh), nibbles8(w, x, 5, block, isHigh), nibbles8(w, x, 6, block, isHigh),
      nibbles8(w, x, 7, block, isHigh)))
}

/// As `eight` for the first four blocks, zeros in the lanes behind them.
@inline(__always)
private func four(_ w: UnsafeRawPointer, _ x: UnsafeRawPointer, _ bits: Int, _ block: Int) -> __m256i {
  let zero = _mm256_setzero_si256()
  if bits == 4 && block == 64 {
    return joinHalves(
      fourSums(nibbles4(w, x, 0, 64), nibbles4(w, x, 1, 64), nibbles4(w, x, 2, 64), nibbles4(w, x, 3, 64)),
      zero)
  }
  return upToEight(w, x, 4, bits, block)
}

/// As `eight` for fewer blocks, zeros in the lanes behind them: nothing behind the row is read.
@inline(never)
func upToEight(
  _ w: UnsafeRawPointer, _ x: UnsafeRawPointer, _ count: Int, _ bits: Int, _ block: Int
) -> __m256i {
  let zero = _mm256_setzero_si256()
  if bits == 4 && block == 64 {
    @inline(__always)
    func part(_ i: Int) -> __m256i { i < count ? nibbles4(w, x, i, 64) : zero }
    let low = fourSums(part(0), part(1), part(2), part(3))
    return joinHalves(low, count <= 4 ? zero : fourSums(part(4), part(5), part(6), part(7)))
  }
  if bits == 4 {
    @inline(__always)
    func part(_ i: Int) -> __m256i {
      2 * i + 1 < count ? nibbles4(w, x, i, 32) : 2 * i < count ? halfUnit(w, x, i) : zero
    }
    return inOrder(fourSums(part(0), part(1), part(2), part(3)))
  }
  let (low, high) = (planeUpToEight(w, x, count, block, false), planeUpToEight(w, x, count, block, true))
  return _mm256_add_epi32(low, _mm256_slli_epi32(high, 4))
}

// Inlined it would leave a weak copy behind.
@inline(never)
func planeUpToEight(
  _ w: UnsafeRawPointer, _ x: UnsafeRawPointer, _ count: Int, _ block: Int, _ isHigh: Bool
) -> __m256i {
  let zero = _mm256_setzero_si256()
  @inline(__always)
  func part(_ i: Int) -> __m256i { i < count ? nibbles8(w, x, i, block, isHigh) : zero }
  let low = fourSums(part(0), part(1), part(2), part(3))
  return joinHalves(low, count <= 4 ? zero : fourSums(part(4), part(5), part(6), part(7)))
}

/// As `nibbles4` for the first of two blocks of 32, behind which the row ends.
@inline(__always)
private func halfUnit(_ w: UnsafeRawPointer, _ x: UnsafeRawPointer, _ unit: Int) -> __m256i {
  let zero = _mm_setzero_si128()
  let bytes = __m256i(
    lowHalf: _mm_loadu_si128((w + 32 * unit).assumingMemoryBound(to: __m128i.self)), highHalf: zero)
  let first = loadBytes(x + 64 * unit)
  let evens = __m256i(lowHalf: first.lowHalf, highHalf: zero)
  let odds = __m256i(lowHalf: first.highHalf, highHalf: zero)
  return _mm256_add_epi16(
    _mm256_maddubs_epi16(lowNibbles(bytes), evens), _mm256_maddubs_epi16(highNibbles(bytes), odds))
}

/// Sums of blocks of 32, whose even blocks stand in the low half and odd ones in the high half, one after the other.
@inline(__always)
private func inOrder(_ sums: __m256i) -> __m256i {
  _mm256_permutevar8x32_epi32(sums, _mm256_set_epi32(7, 3, 6, 2, 5, 1, 4, 0))
}

// MARK: One row

/// Scales or biases of eight consecutive blocks, all within the row.
@inline(__always)
private func coefficients(_ base: UnsafeRawPointer, _ format: Int, _ isShared: Bool) -> __m256 {
  guard isShared else { return format == 0 ? load(base, 0) : widen(base, format) }
  // A group of 128 is two blocks of 64 with the same scale.
  let four: SIMD4<Float>
  if format == 0 {
    four = base.loadUnaligned(as: SIMD4<Float>.self)
  } else {
    let bits = base.loadUnaligned(as: SIMD4<UInt16>.self)
    let eight = SIMD8<UInt16>(lowHalf: bits, highHalf: .zero)
    four =
      format == 1
      ? _mm256_cvtph_ps(unsafeBitCast(eight, to: __m128i.self)).lowHalf
      : unsafeBitCast(SIMD4<UInt32>(truncatingIfNeeded: bits) &<< 16, to: SIMD4<Float>.self)
  }
  return _mm256_permutevar8x32_ps(
    SIMD8(lowHalf: four, highHalf: four), _mm256_set_epi32(3, 3, 2, 2, 1, 1, 0, 0))
}

/// As `coefficients` for the last `count` (1 ... 7) blocks of a row of eight or more: the eight numbers that end with them,
/// moved to the front.
@inline(__always)
private func trailing(_ base: UnsafeRawPointer, _ format: Int, _ count: Int) -> __m256 {
  let eight = coefficients(base - (format == 0 ? 4 : 2) * (8 - count), format, false)
  let lanes = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0)
  let order = _mm256_sub_epi32(lanes, _mm256_set1_epi32(Int32(truncatingIfNeeded: count)))
  return _mm256_and_ps(_mm256_permutevar8x32_ps(eight, order), _mm256_castsi256_ps(tailMask(count)))
}

/// As `coefficients` for fewer blocks: nothing behind the row is read.
@inline(never)
func lastCoefficients(_ base: UnsafeRawPointer, _ format: Int, _ count: Int, _ isShared: Bool) -> __m256 {
  let numbers = isShared ? (count + 1) / 2 : count
  let values: __m256
  if format == 0 {
    values = loadTail(base, 0, numbers)
  } else {
    // Four at once, then one by one.
    let four: UInt64 = numbers >= 4 ? base.loadUnaligned(as: UInt64.self) : 0
    let first = numbers & 4
    var rest: UInt64 = 0
    for k in 0..<numbers & 3 {
      rest |= UInt64((base + 2 * (first + k)).loadUnaligned(as: UInt16.self)) << UInt64(16 * k)
    }
    let words = first == 0 ? SIMD2(rest, 0) : SIMD2(four, rest)
    let bits = unsafeBitCast(words, to: __m128i.self)
    values =
      format == 1
      ? _mm256_cvtph_ps(bits) : _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16))
  }
  return isShared ? _mm256_permutevar8x32_ps(values, _mm256_set_epi32(3, 3, 2, 2, 1, 1, 0, 0)) : values
}

@inline(__always)
private func add(
  _ total: __m256, _ integers: __m256i, _ scales: __m256, _ biases: __m256, _ a: UnsafeRawPointer,
  _ c: UnsafeRawPointer
) -> __m256 {
  let sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(integers), _mm256_mul_ps(load(a, 0), scales), total)
  return _mm256_fmadd_ps(biases, load(c, 0), sum)
}

@inline(__always)
private func rowProduct(
  _ weights: UnsafeRawPointer, _ scales: UnsafeRawPointer, _ biases: UnsafeRawPointer, _ format: Int,
  _ bits: Int, _ block: Int, _ isShared: Bool, _ x: UnsafeRawPointer, _ columns: Int
) -> __m256 {
  var (w, s, b, source) = (weights, scales, biases, x)
  var a = x + paddedColumns(columns)
  var c = a + 4 * paddedBlocks(columns, block)
  // Bytes of eight blocks.
  let (wStep, sStep) = (block * bits, (format == 0 ? 32 : 16) / (isShared ? 2 : 1))
  // Blocks 16·i ..< 16·i + 8 belong to the lower eight lanes, the next eight to the upper: `these` and `others` in turn.
  var (these, others) = (_mm256_setzero_ps(), _mm256_setzero_ps())
  var left = columns / block
  while left >= 8 {
    prefetchAhead(w, wStep)
    // The rows of scales follow each other as those of weights do.
    prefetch(s + prefetchDistance / wStep * sStep)
    prefetch(b + prefetchDistance / wStep * sStep)
    let sum = add(
      these, eight(w, source, bits, block), coefficients(s, format, isShared),
      coefficients(b, format, isShared), a, c)
    (these, others) = (others, sum)
    w += wStep
    source += 8 * block
    s += sStep
    b += sStep
    (a, c) = (a + 32, c + 32)
    left -= 8
  }
  if left > 0 {
    prefetchAhead(w, wStep)
    let isLong = columns >= 8 * block && !isShared
    these = add(
      these, left == 4 ? four(w, source, bits, block) : upToEight(w, source, left, bits, block),
      isLong ? trailing(s, format, left) : lastCoefficients(s, format, left, isShared),
      isLong ? trailing(b, format, left) : lastCoefficients(b, format, left, isShared), a, c)
  }
  return _mm256_add_ps(these, others)
}
