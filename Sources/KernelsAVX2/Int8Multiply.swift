// Products of int8 activations with affine weights by VPMADDUBSW, for few rows of x (decode).
//
// For block j: w·x = Σ (s·q + b)·a·x8 = (a·s) · Σ q·x8 + b · c. Nibbles are multiplied: a pair of products is at
// most 2·15·127 = 3,810, so eight of them fit sixteen bits; a byte is 16 times its high nibble plus its low one. Other
// widths are unpacked in registers (Int8NarrowRows).
// The integer sum is exact in any order. Block j belongs to float lane j mod 16; each lane adds its blocks in order,
// first the product, then the bias term, and the sixteen lanes are summed in one fixed tree: the same bits as the
// AVX-512 module and the scalar twin.

package import KernelTypes
import _Builtin_intrinsics.intel

@inline(__always)
func lowNibbles(_ bytes: __m256i) -> __m256i { _mm256_and_si256(bytes, _mm256_set1_epi8(15)) }

@inline(__always)
func highNibbles(_ bytes: __m256i) -> __m256i {
  _mm256_and_si256(_mm256_srli_epi16(bytes, 4), _mm256_set1_epi8(15))
}

/// Whether weights are multiplied as nibbles, which two rows of x share: each of these widths is two more functions.
@inline(__always)
func hasPairs(_ bits: Int) -> Bool { bits == 4 || bits == 8 }

/// Whether blocks of 64 share their group's scale in twos.
@inline(__always)
func isShared(_ groups: Groups) -> Bool { groups.size > Int8Block.limit }

/// `y[r][o] = weights[o] · x[r]` for quantized rows of x (`quantizeInt8`). Scalar twin: `Reference.multiplyInt8`.
package func multiplyInt8(_ weights: QuantizedRows, _ x: Int8Activations, into y: Output) {
  if weights.groups.size == 16 {
    rows8x16(weights, x, y)
  } else if hasPairs(weights.bits) {
    multiplyNibbles(weights, x, y)
  } else {
    multiplyNarrow(weights, x, y)
  }
}

/// 4 and 8 bits: rows of x in pairs, and the last of an odd number alone.
@inline(__always)
private func multiplyNibbles(_ weights: QuantizedRows, _ all: Int8Activations, _ output: Output) {
  var (x, y) = (all, output)
  while x.count > 0 {
    let isPair = x.count > 1
    // Each case is a function of its own: inlined together they exceed the compiler's budget, which then leaves the
    // inner steps out of line. The loop over the rows is inside: with 16 blocks in a row, a call per row costs as much as a
    // third of the products (measured).
    switch (weights.bits, weights.groups.size, isPair) {
    case (4, 32, false): rows4x32(weights, x, y)
    case (4, 64, false): rows4x64(weights, x, y)
    case (4, _, false): rows4x128(weights, x, y)
    case (4, 32, true): pairs4x32(weights, x, y)
    case (4, 64, true): pairs4x64(weights, x, y)
    case (4, _, true): pairs4x128(weights, x, y)
    case (8, 32, false): rows8x32(weights, x, y)
    case (8, 64, false): rows8x64(weights, x, y)
    case (8, _, false): rows8x128(weights, x, y)
    case (8, 32, true): pairs8x32(weights, x, y)
    case (8, 64, true): pairs8x64(weights, x, y)
    default: pairs8x128(weights, x, y)
    }
    let done = isPair ? 2 : 1
    x.count -= done
    x.base += done * x.rowBytes
    y.base += done * y.stride
  }
}

@inline(never)
func rows4x32(_ weights: QuantizedRows, _ x: Int8Activations, _ y: Output) {
  allRows(weights, x, y, bits: 4, group: 32, isPair: false)
}

@inline(never)
func rows4x64(_ weights: QuantizedRows, _ x: Int8Activations, _ y: Output) {
  allRows(weights, x, y, bits: 4, group: 64, isPair: false)
}

@inline(never)
func rows4x128(_ weights: QuantizedRows, _ x: Int8Activations, _ y: Output) {
  allRows(weights, x, y, bits: 4, group: 128, isPair: false)
}

@inline(never)
func rows8x32(_ weights: QuantizedRows, _ x: Int8Activations, _ y: Output) {
  allRows(weights, x, y, bits: 8, group: 32, isPair: false)
}

@inline(never)
func rows8x64(_ weights: QuantizedRows, _ x: Int8Activations, _ y: Output) {
  allRows(weights, x, y, bits: 8, group: 64, isPair: false)
}

@inline(never)
func rows8x128(_ weights: QuantizedRows, _ x: Int8Activations, _ y: Output) {
  allRows(weights, x, y, bits: 8, group: 128, isPair: false)
}

@inline(never)
func pairs4x32(_ weights: QuantizedRows, _ x: Int8Activations, _ y: Output) {
  allRows(weights, x, y, bits: 4, group: 32, isPair: true)
}

@inline(never)
func pairs4x64(_ weights: QuantizedRows, _ x: Int8Activations, _ y: Output) {
  allRows(weights, x, y, bits: 4, group: 64, isPair: true)
}

@inline(never)
func pairs4x128(_ weights: QuantizedRows, _ x: Int8Activations, _ y: Output) {
  allRows(weights, x, y, bits: 4, group: 128, isPair: true)
}

@inline(never)
func pairs8x32(_ weights: QuantizedRows, _ x: Int8Activations, _ y: Output) {
  allRows(weights, x, y, bits: 8, group: 32, isPair: true)
}

@inline(never)
func pairs8x64(_ weights: QuantizedRows, _ x: Int8Activations, _ y: Output) {
  allRows(weights, x, y, bits: 8, group: 64, isPair: true)
}

@inline(never)
func pairs8x128(_ weights: QuantizedRows, _ x: Int8Activations, _ y: Output) {
  allRows(weights, x, y, bits: 8, group: 128, isPair: true)
}

/// - Parameter group: as the weights have it; a constant, since a test in the loop over blocks takes two registers that
///   its addresses need (some 5 % of decode where memory is quick).
@inline(__always)
private func allRows(
  _ weights: QuantizedRows, _ x: Int8Activations, _ y: Output, bits: Int, group: Int, isPair: Bool
) {
  storeRows(weights.count, y, isPair: isPair) {
    rowProduct(weights, $0, x, bits: bits, group: group, isPair: isPair)
  }
}

/// Row by row in the order of memory, for the first row of x or the first two; four rows share the last sums.
///
/// - Parameter product: of a row of weights with them: eight lanes each, still to be summed.
@inline(__always)
func storeRows(
  _ count: Int, _ output: Output, isPair: Bool, product: (_ row: Int) -> (__m256, __m256)
) {
  let (y, second) = (output.base, output.base + output.stride)
  let zero = _mm256_setzero_ps()
  var (p0, p1, p2, p3) = (zero, zero, zero, zero)
  var (q0, q1, q2, q3) = (zero, zero, zero, zero)
  // A loop instead of four calls: inlined four times, the products exceed the compiler's budget.
  for o in 0..<count {
    let (product, other) = product(o)
    (p0, p1, p2, p3) = (p1, p2, p3, product)
    if isPair { (q0, q1, q2, q3) = (q1, q2, q3, other) }
    if o & 3 == 3 {
      _mm_storeu_ps(y + o - 3, sums(p0, p1, p2, p3))
      if isPair { _mm_storeu_ps(second + o - 3, sums(q0, q1, q2, q3)) }
    } else if o >= count & ~3 {
      y[o] = sum(product)
      if isPair { second[o] = sum(other) }
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

/// 4 bits: even and odd weights of unit `index` (64 elements); of its first block of 32, if the row ends after it.
@inline(__always)
private func unitWeights(_ w: UnsafeRawPointer, _ index: Int, isHalf: Bool) -> (even: __m256i, odd: __m256i) {
  let base = w + 32 * index
  let bytes = isHalf ? firstHalf(base) : loadBytes(base)
  return (lowNibbles(bytes), highNibbles(bytes))
}

/// Sums of 16-bit pairs of a unit, still spread over its dwords; of two blocks of 32 in the two halves. After the last
/// block activations are zeros up to the end of the unit.
@inline(__always)
private func unitSums(_ weights: (even: __m256i, odd: __m256i), _ x: UnsafeRawPointer, _ block: Int)
  -> __m256i
{
  let values = activations(x, block)
  return _mm256_add_epi16(
    _mm256_maddubs_epi16(weights.even, values.even), _mm256_maddubs_epi16(weights.odd, values.odd))
}

/// Sixteen bytes, and zeros after them.
@inline(__always)
func firstHalf(_ base: UnsafeRawPointer) -> __m256i {
  __m256i(lowHalf: _mm_loadu_si128(base.assumingMemoryBound(to: __m128i.self)), highHalf: _mm_setzero_si128())
}

/// 8 bits: sums of 16-bit pairs of the low or high nibbles of a block.
@inline(__always)
private func planeSums(_ w: UnsafeRawPointer, _ x: UnsafeRawPointer, _ block: Int, isHigh: Bool) -> __m256i {
  let down = Int32(truncatingIfNeeded: isHigh ? 4 : 0)
  var sum = _mm256_maddubs_epi16(lowNibbles(_mm256_srli_epi16(loadBytes(w), down)), loadBytes(x))
  if block == 64 {
    let second = lowNibbles(_mm256_srli_epi16(loadBytes(w + 32), down))
    sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(second, loadBytes(x + 32)))
  }
  return sum
}

@inline(__always)
func addDwords(_ a: __m256i, _ b: __m256i) -> __m256i {
  _mm256_add_epi16(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b))
}

@inline(__always)
func addQuads(_ a: __m256i, _ b: __m256i) -> __m256i {
  _mm256_add_epi16(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b))
}

/// Four registers of 16-bit sums to the four sums in each half; one of them stays below 4 · 7,620.
@inline(__always)
func fourSums(_ a: __m256i, _ b: __m256i, _ c: __m256i, _ d: __m256i) -> __m256i {
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

/// Sums of blocks of 32, whose even blocks stand in the low half and odd ones in the high half, one after the other.
@inline(__always)
func inOrder(_ sums: __m256i) -> __m256i {
  _mm256_permutevar8x32_epi32(sums, _mm256_set_epi32(7, 3, 6, 2, 5, 1, 4, 0))
}

/// 4 bits: integer products of the first `count` (1 ... 8) blocks of `w` with those of `x`, and of `other` if it is a pair;
/// one lane each, zeros after them: nothing after the row is read. Loops instead of repetitions, as in `allRows`: the
/// compiler unrolls them.
@inline(__always)
private func nibbleProducts(
  _ w: UnsafeRawPointer, _ x: UnsafeRawPointer, _ other: UnsafeRawPointer, _ count: Int, block: Int,
  isPair: Bool
) -> (__m256i, __m256i) {
  let zero = _mm256_setzero_si256()
  var (a, b, c, d) = (zero, zero, zero, zero)
  var (e, f, g, h) = (zero, zero, zero, zero)
  if block == 32 {
    for i in 0..<4 {
      var (sums, others) = (zero, zero)
      if 2 * i < count {
        let weights = unitWeights(w, i, isHalf: 2 * i + 1 == count)
        sums = unitSums(weights, x + 64 * i, 32)
        if isPair { others = unitSums(weights, other + 64 * i, 32) }
      }
      (a, b, c, d) = (b, c, d, sums)
      (e, f, g, h) = (f, g, h, others)
    }
    return (inOrder(fourSums(a, b, c, d)), inOrder(fourSums(e, f, g, h)))
  }
  var (first, second) = (zero, zero)
  var (third, fourth) = (zero, zero)
  for half in 0..<2 {
    for i in 4 * half..<4 * half + 4 {
      var (sums, others) = (zero, zero)
      if i < count {
        let weights = unitWeights(w, i, isHalf: false)
        sums = unitSums(weights, x + 64 * i, 64)
        if isPair { others = unitSums(weights, other + 64 * i, 64) }
      }
      (a, b, c, d) = (b, c, d, sums)
      (e, f, g, h) = (f, g, h, others)
    }
    (first, second) = (second, fourSums(a, b, c, d))
    (third, fourth) = (fourth, fourSums(e, f, g, h))
  }
  return (joinHalves(first, second), joinHalves(third, fourth))
}

/// As `nibbleProducts` for 8 bits.
@inline(__always)
private func byteProducts(
  _ w: UnsafeRawPointer, _ x: UnsafeRawPointer, _ other: UnsafeRawPointer, _ count: Int, block: Int,
  isPair: Bool
) -> (__m256i, __m256i) {
  let low = plane(w, x, other, count, block: block, isPair: isPair, isHigh: false)
  let high = plane(w, x, other, count, block: block, isPair: isPair, isHigh: true)
  return (
    _mm256_add_epi32(low.0, _mm256_slli_epi32(high.0, 4)),
    _mm256_add_epi32(low.1, _mm256_slli_epi32(high.1, 4))
  )
}

/// As `byteProducts` for the low or high nibbles of 8-bit weights.
@inline(__always)
private func plane(
  _ w: UnsafeRawPointer, _ x: UnsafeRawPointer, _ other: UnsafeRawPointer, _ count: Int, block: Int,
  isPair: Bool, isHigh: Bool
) -> (__m256i, __m256i) {
  let zero = _mm256_setzero_si256()
  var (a, b, c, d) = (zero, zero, zero, zero)
  var (e, f, g, h) = (zero, zero, zero, zero)
  var (first, second) = (zero, zero)
  var (third, fourth) = (zero, zero)
  for half in 0..<2 {
    for i in 4 * half..<4 * half + 4 {
      let at = i * block
      var (sums, others) = (zero, zero)
      if i < count {
        sums = planeSums(w + at, x + at, block, isHigh: isHigh)
        if isPair { others = planeSums(w + at, other + at, block, isHigh: isHigh) }
      }
      (a, b, c, d) = (b, c, d, sums)
      (e, f, g, h) = (f, g, h, others)
    }
    (first, second) = (second, fourSums(a, b, c, d))
    (third, fourth) = (fourth, fourSums(e, f, g, h))
  }
  return (joinHalves(first, second), joinHalves(third, fourth))
}

// MARK: One row

/// Scales and biases of eight consecutive blocks, all within the row.
@inline(__always)
func coefficients(
  _ scales: UnsafeRawPointer, _ biases: UnsafeRawPointer, _ format: FloatFormat, isShared: Bool
) -> (__m256, __m256) {
  if isShared { return (twice(scales, format), twice(biases, format)) }
  switch format {
  case .f32: return (load(scales, 0), load(biases, 0))
  case .f16: return (widen(scales, .f16), widen(biases, .f16))
  case .bf16: return (widen(scales, .bf16), widen(biases, .bf16))
  }
}

/// Four numbers, two lanes each: a group of 128 is two blocks of 64 with the same scale.
@inline(__always)
private func twice(_ base: UnsafeRawPointer, _ format: FloatFormat) -> __m256 {
  let bits = base.loadUnaligned(as: SIMD4<UInt16>.self)
  let four: SIMD4<Float>
  switch format {
  case .f32: four = base.loadUnaligned(as: SIMD4<Float>.self)
  case .f16:
    four = _mm256_cvtph_ps(unsafeBitCast(SIMD8(lowHalf: bits, highHalf: .zero), to: __m128i.self)).lowHalf
  case .bf16: four = unsafeBitCast(SIMD4<UInt32>(truncatingIfNeeded: bits) &<< 16, to: SIMD4<Float>.self)
  }
  return _mm256_permutevar8x32_ps(
    SIMD8(lowHalf: four, highHalf: four), _mm256_set_epi32(3, 3, 2, 2, 1, 1, 0, 0))
}

/// As `coefficients` for the last `count` (1 ... 7) blocks of a row: nothing after the row is read.
@inline(__always)
func lastCoefficients(
  _ scales: UnsafeRawPointer, _ biases: UnsafeRawPointer, _ weights: QuantizedRows, _ count: Int,
  _ block: Int
) -> (__m256, __m256) {
  let (format, isShared) = (weights.groups.format, isShared(weights.groups))
  if weights.columns < 8 * block || isShared {
    return (partial(scales, format, count, isShared), partial(biases, format, count, isShared))
  }
  // The eight numbers that end with them, moved to the front.
  let before = format.bytes * (8 - count)
  let eight = coefficients(scales - before, biases - before, format, isShared: false)
  let lanes = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0)
  let order = _mm256_sub_epi32(lanes, _mm256_set1_epi32(Int32(truncatingIfNeeded: count)))
  let mask = _mm256_castsi256_ps(tailMask(count))
  return (
    _mm256_and_ps(_mm256_permutevar8x32_ps(eight.0, order), mask),
    _mm256_and_ps(_mm256_permutevar8x32_ps(eight.1, order), mask)
  )
}

/// As `coefficients` for fewer blocks, one by one.
@inline(never)
func partial(_ base: UnsafeRawPointer, _ format: FloatFormat, _ count: Int, _ isShared: Bool) -> __m256 {
  let numbers = isShared ? (count + 1) / 2 : count
  let values: __m256
  if case .f32 = format {
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
    values = widen(bits, format)
  }
  return isShared ? _mm256_permutevar8x32_ps(values, _mm256_set_epi32(3, 3, 2, 2, 1, 1, 0, 0)) : values
}

@inline(__always)
func add(
  _ total: __m256, _ integers: __m256i, _ scales: __m256, _ biases: __m256, _ a: UnsafeRawPointer,
  _ c: UnsafeRawPointer
) -> __m256 {
  let sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(integers), _mm256_mul_ps(load(a, 0), scales), total)
  return _mm256_fmadd_ps(biases, load(c, 0), sum)
}

/// Row `o` of the weights with the first row of x, or also with the second: eight lanes each, still to be summed.
@inline(__always)
private func rowProduct(
  _ weights: QuantizedRows, _ o: Int, _ rows: Int8Activations, bits: Int, group: Int, isPair: Bool
) -> (__m256, __m256) {
  let (columns, groups) = (weights.columns, weights.groups)
  let (block, isShared) = (min(group, Int8Block.limit), group > Int8Block.limit)
  let (format, next) = (groups.format, rows.rowBytes)
  var (w, s, b) = (
    weights.packed + o * weights.rowBytes, groups.scales + o * groups.rowBytes,
    groups.biases + o * groups.rowBytes
  )
  // Where x and its scales are, and its sums after them.
  var (x, a) = (rows.base, rows.base + paddedColumns(columns))
  let c = 4 * paddedBlocks(columns, block)
  // Bytes of eight blocks.
  let (wStep, sStep) = (block * bits, 8 * format.bytes / (isShared ? 2 : 1))
  // Blocks 16·i ..< 16·i + 8 belong to the lower eight lanes, the next eight to the upper: `these` and `those` in turn.
  let zero = _mm256_setzero_ps()
  var (these, those) = ((zero, zero), (zero, zero))
  var left = columns / block
  while left >= 8 {
    prefetchAhead(w, wStep)
    // The rows of scales follow each other as those of weights do.
    prefetch(s + prefetchDistance / wStep * sStep)
    prefetch(b + prefetchDistance / wStep * sStep)
    let (one, two) =
      bits == 8
      ? byteProducts(w, x, x + next, 8, block: block, isPair: isPair)
      : nibbleProducts(w, x, x + next, 8, block: block, isPair: isPair)
    let (scales, biases) = coefficients(s, b, format, isShared: isShared)
    let sum = add(these.0, one, scales, biases, a, a + c)
    (these, those) = (those, (sum, isPair ? add(these.1, two, scales, biases, a + next, a + next + c) : zero))
    w += wStep
    x += 8 * block
    s += sStep
    b += sStep
    a += 32
    left -= 8
  }
  if left > 0 {
    prefetchAhead(w, wStep)
    let (one, two) =
      bits == 8
      ? byteProducts(w, x, x + next, left, block: block, isPair: isPair)
      : nibbleProducts(w, x, x + next, left, block: block, isPair: isPair)
    let (scales, biases) = lastCoefficients(s, b, weights, left, block)
    these.0 = add(these.0, one, scales, biases, a, a + c)
    if isPair { these.1 = add(these.1, two, scales, biases, a + next, a + next + c) }
  }
  return (_mm256_add_ps(these.0, those.0), _mm256_add_ps(these.1, those.1))
}

// MARK: Groups of 16

/// Bytes in groups of 16, which only blocks of a GGUF file become, row by row. A function of its own: beside the others it
/// exceeds what the compiler inlines.
@inline(never)
func rows8x16(_ weights: QuantizedRows, _ x: Int8Activations, _ y: Output) {
  let (groups, blocks) = (weights.groups, weights.columns / 16)
  let (a, c) = (paddedColumns(weights.columns), 4 * paddedBlocks(weights.columns, 16))
  for o in 0..<weights.count {
    let (w, factors) = (weights.packed + o * weights.rowBytes, o * groups.rowBytes)
    for r in 0..<x.count {
      let row = x.base + r * x.rowBytes
      var (these, those) = (_mm256_setzero_ps(), _mm256_setzero_ps())
      var j = 0
      while j < blocks {
        let integers = sixteenProducts(w + 16 * j, row + 16 * j, min(8, blocks - j))
        let (s, b) = (groups.scales + factors + 4 * j, groups.biases + factors + 4 * j)
        let (scales, biases) =
          blocks - j >= 8
          ? (load(s, 0), load(b, 0)) : (loadTail(s, 0, blocks - j), loadTail(b, 0, blocks - j))
        let at = row + a + 4 * j
        (these, those) = (those, add(these, integers, scales, biases, at, at + c))
        j += 8
      }
      y.base[r * y.stride + o] = sum(_mm256_add_ps(these, those))
    }
  }
}

/// Integer products of the first `count` (1 ... 8) blocks of 16 bytes, one lane each, zeros after them. Two blocks are a register.
@inline(__always)
private func sixteenProducts(_ w: UnsafeRawPointer, _ x: UnsafeRawPointer, _ count: Int) -> __m256i {
  let zero = _mm256_setzero_si256()
  var (a, b, c, d) = (zero, zero, zero, zero)
  var (e, f, g, h) = (zero, zero, zero, zero)
  for i in 0..<4 {
    var (low, high) = (zero, zero)
    if 2 * i < count {
      let bytes = 2 * i + 1 == count ? firstHalf(w + 32 * i) : loadBytes(w + 32 * i)
      let values = loadBytes(x + 32 * i)
      low = _mm256_maddubs_epi16(lowNibbles(bytes), values)
      high = _mm256_maddubs_epi16(highNibbles(bytes), values)
    }
    (a, b, c, d) = (b, c, d, low)
    (e, f, g, h) = (f, g, h, high)
  }
  let (low, high) = (fourSums(a, b, c, d), fourSums(e, f, g, h))
  return inOrder(_mm256_add_epi32(low, _mm256_slli_epi32(high, 4)))
}
