// Products of int8 activations with affine weights by VPMADDUBSW, for few rows of x (decode).
//
// For block j: w·x = Σ (s·q + b)·a·x8 = (a·s) · Σ q·x8 + b · c. Nibbles are multiplied: a pair of products is at
// most 2·15·127 = 3,810, so eight of them fit sixteen bits; a byte is 16 times its high nibble plus its low one. Other
// widths are unpacked in registers (Int8Narrow).
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
    // Blocks of 64 share their group's scale in twos.
    let isShared = groupSize > 64
    switch (bits, groupSize) {
    case (2, 32): rows2x32(w, n, s, b, m, f, weightRows, source, columns, target)
    case (2, _): rows2x64(w, n, s, b, m, f, isShared, weightRows, source, columns, target)
    case (3, 32): rows3x32(w, n, s, b, m, f, weightRows, source, columns, target)
    case (3, _): rows3x64(w, n, s, b, m, f, isShared, weightRows, source, columns, target)
    case (4, 32): rows4x32(w, n, s, b, m, f, weightRows, source, columns, target)
    case (4, _): rows4x64(w, n, s, b, m, f, isShared, weightRows, source, columns, target)
    case (5, 32): rows5x32(w, n, s, b, m, f, weightRows, source, columns, target)
    case (5, _): rows5x64(w, n, s, b, m, f, isShared, weightRows, source, columns, target)
    case (6, 32): rows6x32(w, n, s, b, m, f, weightRows, source, columns, target)
    case (6, _): rows6x64(w, n, s, b, m, f, isShared, weightRows, source, columns, target)
    case (_, 32): rows8x32(w, n, s, b, m, f, weightRows, source, columns, target)
    case (_, _): rows8x64(w, n, s, b, m, f, isShared, weightRows, source, columns, target)
    }
  }
}

@inline(never)
func rows2x32(
  _ w: UnsafeRawPointer, _ rowBytes: Int, _ s: UnsafeRawPointer, _ b: UnsafeRawPointer, _ scaleRowBytes: Int,
  _ format: Int, _ rows: Int, _ x: UnsafeRawPointer, _ columns: Int, _ y: UnsafeMutablePointer<Float>
) { allRows(w, rowBytes, s, b, scaleRowBytes, format, 2, 32, false, rows, x, columns, y) }

@inline(never)
func rows2x64(
  _ w: UnsafeRawPointer, _ rowBytes: Int, _ s: UnsafeRawPointer, _ b: UnsafeRawPointer, _ scaleRowBytes: Int,
  _ format: Int, _ isShared: Bool, _ rows: Int, _ x: UnsafeRawPointer, _ columns: Int,
  _ y: UnsafeMutablePointer<Float>
) { allRows(w, rowBytes, s, b, scaleRowBytes, format, 2, 64, isShared, rows, x, columns, y) }

@inline(never)
func rows3x32(
  _ w: UnsafeRawPointer, _ rowBytes: Int, _ s: UnsafeRawPointer, _ b: UnsafeRawPointer, _ scaleRowBytes: Int,
  _ format: Int, _ rows: Int, _ x: UnsafeRawPointer, _ columns: Int, _ y: UnsafeMutablePointer<Float>
) { allRows(w, rowBytes, s, b, scaleRowBytes, format, 3, 32, false, rows, x, columns, y) }

@inline(never)
func rows3x64(
  _ w: UnsafeRawPointer, _ rowBytes: Int, _ s: UnsafeRawPointer, _ b: UnsafeRawPointer, _ scaleRowBytes: Int,
  _ format: Int, _ isShared: Bool, _ rows: Int, _ x: UnsafeRawPointer, _ columns: Int,
  _ y: UnsafeMutablePointer<Float>
) { allRows(w, rowBytes, s, b, scaleRowBytes, format, 3, 64, isShared, rows, x, columns, y) }

@inline(never)
func rows4x32(
  _ w: UnsafeRawPointer, _ rowBytes: Int, _ s: UnsafeRawPointer, _ b: UnsafeRawPointer, _ scaleRowBytes: Int,
  _ format: Int, _ rows: Int, _ x: UnsafeRawPointer, _ columns: Int, _ y: UnsafeMutablePointer<Float>
) { allRows(w, rowBytes, s, b, scaleRowBytes, format, 4, 32, false, rows, x, columns, y) }

@inline(never)
func rows4x64(
  _ w: UnsafeRawPointer, _ rowBytes: Int, _ s: UnsafeRawPointer, _ b: UnsafeRawPointer, _ scaleRowBytes: Int,
  _ format: Int, _ isShared: Bool, _ rows: Int, _ x: UnsafeRawPointer, _ columns: Int,
  _ y: UnsafeMutablePointer<Float>
) { allRows(w, rowBytes, s, b, scaleRowBytes, format, 4, 64, isShared, rows, x, columns, y) }

@inline(never)
func rows5x32(
  _ w: UnsafeRawPointer, _ rowBytes: Int, _ s: UnsafeRawPointer, _ b: UnsafeRawPointer, _ scaleRowBytes: Int,
  _ format: Int, _ rows: Int, _ x: UnsafeRawPointer, _ columns: Int, _ y: UnsafeMutablePointer<Float>
) { allRows(w, rowBytes, s, b, scaleRowBytes, format, 5, 32, false, rows, x, columns, y) }

@inline(never)
func rows5x64(
  _ w: UnsafeRawPointer, _ rowBytes: Int, _ s: UnsafeRawPointer, _ b: UnsafeRawPointer, _ scaleRowBytes: Int,
  _ format: Int, _ isShared: Bool, _ rows: Int, _ x: UnsafeRawPointer, _ columns: Int,
  _ y: UnsafeMutablePointer<Float>
) { allRows(w, rowBytes, s, b, scaleRowBytes, format, 5, 64, isShared, rows, x, columns, y) }

@inline(never)
func rows6x32(
  _ w: UnsafeRawPointer, _ rowBytes: Int, _ s: UnsafeRawPointer, _ b: UnsafeRawPointer, _ scaleRowBytes: Int,
  _ format: Int, _ rows: Int, _ x: UnsafeRawPointer, _ columns: Int, _ y: UnsafeMutablePointer<Float>
) { allRows(w, rowBytes, s, b, scaleRowBytes, format, 6, 32, false, rows, x, columns, y) }

@inline(never)
func rows6x64(
  _ w: UnsafeRawPointer, _ rowBytes: Int, _ s: UnsafeRawPointer, _ b: UnsafeRawPointer, _ scaleRowBytes: Int,
  _ format: Int, _ isShared: Bool, _ rows: Int, _ x: UnsafeRawPointer, _ columns: Int,
  _ y: UnsafeMutablePointer<Float>
) { allRows(w, rowBytes, s, b, scaleRowBytes, format, 6, 64, isShared, rows, x, columns, y) }

@inline(never)
func rows8x32(
  _ w: UnsafeRawPointer, _ rowBytes: Int, _ s: UnsafeRawPointer, _ b: UnsafeRawPointer, _ scaleRowBytes: Int,
  _ format: Int, _ rows: Int, _ x: UnsafeRawPointer, _ columns: Int, _ y: UnsafeMutablePointer<Float>
) { allRows(w, rowBytes, s, b, scaleRowBytes, format, 8, 32, false, rows, x, columns, y) }

@inline(never)
func rows8x64(
  _ w: UnsafeRawPointer, _ rowBytes: Int, _ s: UnsafeRawPointer, _ b: UnsafeRawPointer, _ scaleRowBytes: Int,
  _ format: Int, _ isShared: Bool, _ rows: Int, _ x: UnsafeRawPointer, _ columns: Int,
  _ y: UnsafeMutablePointer<Float>
) { allRows(w, rowBytes, s, b, scaleRowBytes, format, 8, 64, isShared, rows, x, columns, y) }

/// Row by row in the order of memory; four rows share the last sums.
@inline(__always)
private func allRows(
  _ w: UnsafeRawPointer, _ rowBytes: Int, _ s: UnsafeRawPointer, _ b: UnsafeRawPointer, _ scaleRowBytes: Int,
  _ format: Int, _ bits: Int, _ block: Int, _ isShared: Bool, _ rows: Int, _ x: UnsafeRawPointer,
  _ columns: Int, _ y: UnsafeMutablePointer<Float>
) {
  let spread = spread(for: bits)
  let zero = _mm256_setzero_ps()
  var (p0, p1, p2, p3) = (zero, zero, zero, zero)
  // A loop instead of four calls: inlined four times, the products exceed the compiler's budget.
  for o in 0..<rows {
    let (scales, biases) = (s + o * scaleRowBytes, b + o * scaleRowBytes)
    let product = rowProduct(
      w + o * rowBytes, scales, biases, format, bits, block, isShared, x, columns, spread)
    (p0, p1, p2, p3) = (p1, p2, p3, product)
    if o & 3 == 3 {
      _mm_storeu_ps(y + o - 3, sums(p0, p1, p2, p3))
    } else if o >= rows & ~3 {
      y[o] = sum(product)
    }
  }
}

// MARK: Integer products of eight blocks

/// Even and odd activations of 64 elements: of a block of 64, or of two blocks of 32 in the two halves.
@inline(__always)
private func activations(_ x: UnsafeRawPointer, _ block: Int) -> (even: __m256i, odd: __m256i) {
  let (first, second) = (loadBytes(x), loadBytes(x + 32))
  if block == 64 { return (first, second) }
  // [even | odd] of one block, then of the next.
  return (
    __m256i(lowHalf: first.lowHalf, highHalf: second.lowHalf),
    __m256i(lowHalf: first.highHalf, highHalf: second.highHalf)
  )
}

/// 2 to 4 bits: sums of 16-bit pairs of unit `index` (64 elements), still spread over its dwords; of two blocks of 32 in
/// the two halves, or of the first of them, if the row ends behind it.
@inline(__always)
private func nibbleSums(
  _ w: UnsafeRawPointer, _ x: UnsafeRawPointer, _ index: Int, _ bits: Int, _ block: Int, _ isHalf: Bool,
  _ spread: Spread
) -> __m256i {
  let base = w + 8 * bits * index
  let weights: (even: __m256i, odd: __m256i)
  if bits < 4 {
    weights = isHalf ? lastEvenOdd(base, bits, spread) : evenOdd(base, bits, spread)
  } else {
    let bytes = isHalf ? firstHalf(base) : loadBytes(base)
    weights = (lowNibbles(bytes), highNibbles(bytes))
  }
  // Behind the last block activations are zeros up to the end of the unit.
  let values = activations(x + 64 * index, block)
  return _mm256_add_epi16(
    _mm256_maddubs_epi16(weights.even, values.even), _mm256_maddubs_epi16(weights.odd, values.odd))
}

/// Sixteen bytes, and zeros behind them.
@inline(__always)
private func firstHalf(_ base: UnsafeRawPointer) -> __m256i {
  __m256i(lowHalf: _mm_loadu_si128(base.assumingMemoryBound(to: __m128i.self)), highHalf: _mm_setzero_si128())
}

/// 8 bits: sums of 16-bit pairs of the low or high nibbles of block `index`.
@inline(__always)
private func planeSums(
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

/// 5 and 6 bits: sums of dwords of block `index`; two pairs of products are at most 4 · 63 · 127 = 32,004.
@inline(__always)
private func byteSums(
  _ w: UnsafeRawPointer, _ x: UnsafeRawPointer, _ index: Int, _ bits: Int, _ block: Int, _ spread: Spread
) -> __m256i {
  let (base, values) = (w + index * block * bits / 8, x + index * block)
  var sum = _mm256_maddubs_epi16(wideBytes(base, bits, spread), loadBytes(values))
  if block == 64 {
    let second = _mm256_maddubs_epi16(wideBytes(base + 4 * bits, bits, spread), loadBytes(values + 32))
    sum = _mm256_add_epi16(sum, second)
  }
  return _mm256_madd_epi16(sum, _mm256_set1_epi16(1))
}

@inline(__always)
private func addDwords(_ a: __m256i, _ b: __m256i) -> __m256i {
  _mm256_add_epi16(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b))
}

@inline(__always)
private func addQuads(_ a: __m256i, _ b: __m256i) -> __m256i {
  _mm256_add_epi16(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b))
}

/// Four registers of 16-bit sums to the four sums in each half; one of them stays below 4 · 7,620.
@inline(__always)
private func fourSums(_ a: __m256i, _ b: __m256i, _ c: __m256i, _ d: __m256i) -> __m256i {
  _mm256_madd_epi16(addQuads(addDwords(a, b), addDwords(c, d)), _mm256_set1_epi16(1))
}

/// As `fourSums` for registers of 32-bit sums.
@inline(__always)
private func fourWideSums(_ a: __m256i, _ b: __m256i, _ c: __m256i, _ d: __m256i) -> __m256i {
  let first = _mm256_add_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b))
  let second = _mm256_add_epi32(_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d))
  return _mm256_add_epi32(_mm256_unpacklo_epi64(first, second), _mm256_unpackhi_epi64(first, second))
}

@inline(__always)
private func joinHalves(_ first: __m256i, _ second: __m256i) -> __m256i {
  let (a, b) = (
    unsafeBitCast(first, to: SIMD8<Int32>.self), unsafeBitCast(second, to: SIMD8<Int32>.self)
  )
  return unsafeBitCast(
    SIMD8<Int32>(lowHalf: a.lowHalf &+ a.highHalf, highHalf: b.lowHalf &+ b.highHalf), to: __m256i.self)
}

/// Sums of blocks of 32, whose even blocks stand in the low half and odd ones in the high half, one after the other.
@inline(__always)
private func inOrder(_ sums: __m256i) -> __m256i {
  _mm256_permutevar8x32_epi32(sums, _mm256_set_epi32(7, 3, 6, 2, 5, 1, 4, 0))
}

/// Integer products of the first `count` blocks of `w` and `x`, one lane each, zeros behind them: nothing behind the row
/// is read. Loops instead of repetitions, as in `allRows`: the compiler unrolls them.
@inline(__always)
private func products(
  _ w: UnsafeRawPointer, _ x: UnsafeRawPointer, _ count: Int, _ bits: Int, _ block: Int, _ spread: Spread
) -> __m256i {
  if bits == 8 {
    let low = plane(w, x, count, block, false)
    return _mm256_add_epi32(low, _mm256_slli_epi32(plane(w, x, count, block, true), 4))
  }
  let zero = _mm256_setzero_si256()
  var (a, b, c, d) = (zero, zero, zero, zero)
  if bits <= 4 && block == 32 {
    for i in 0..<4 {
      let sums =
        2 * i + 1 < count
        ? nibbleSums(w, x, i, bits, 32, false, spread)
        : 2 * i < count ? nibbleSums(w, x, i, bits, 32, true, spread) : zero
      (a, b, c, d) = (b, c, d, sums)
    }
    return inOrder(fourSums(a, b, c, d))
  }
  var (first, second) = (zero, zero)
  for half in 0..<2 {
    for i in 4 * half..<4 * half + 4 {
      let sums =
        i >= count
        ? zero
        : bits <= 4 ? nibbleSums(w, x, i, bits, 64, false, spread) : byteSums(w, x, i, bits, block, spread)
      (a, b, c, d) = (b, c, d, sums)
    }
    (first, second) = (second, bits <= 4 ? fourSums(a, b, c, d) : fourWideSums(a, b, c, d))
  }
  return joinHalves(first, second)
}

/// As `products` for the low or high nibbles of 8-bit weights.
@inline(__always)
private func plane(
  _ w: UnsafeRawPointer, _ x: UnsafeRawPointer, _ count: Int, _ block: Int, _ isHigh: Bool
) -> __m256i {
  let zero = _mm256_setzero_si256()
  var (a, b, c, d) = (zero, zero, zero, zero)
  var (first, second) = (zero, zero)
  for half in 0..<2 {
    for i in 4 * half..<4 * half + 4 {
      (a, b, c, d) = (b, c, d, i < count ? planeSums(w, x, i, block, isHigh) : zero)
    }
    (first, second) = (second, fourSums(a, b, c, d))
  }
  return joinHalves(first, second)
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
  _ bits: Int, _ block: Int, _ isShared: Bool, _ x: UnsafeRawPointer, _ columns: Int, _ spread: Spread
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
      these, products(w, source, 8, bits, block, spread), coefficients(s, format, isShared),
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
      these, products(w, source, left, bits, block, spread),
      isLong ? trailing(s, format, left) : lastCoefficients(s, format, left, isShared),
      isLong ? trailing(b, format, left) : lastCoefficients(b, format, left, isShared), a, c)
  }
  return _mm256_add_ps(these, others)
}
