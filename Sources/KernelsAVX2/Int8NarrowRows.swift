// Products of int8 activations with affine weights of 2, 3, 5 and 6 bits, for few rows of x (decode).
//
// Two neighbouring blocks share each register, one in each half, so that sums of eight blocks come from four registers
// instead of eight. Activations are rewritten once per call in the order in which unpacked weights meet them
// (`pairBlocks`). Lanes and their order are those of Int8Multiply.

import _Builtin_intrinsics.intel

/// 2, 3, 5 and 6 bits: rows of x one by one.
@inline(__always)
func multiplyNarrow(
  _ all: Operands, _ bits: Int, _ groupSize: Int, _ xStride: Int, _ xRows: Int, _ yStride: Int
) {
  let block = min(groupSize, 64)
  withUnsafeTemporaryAllocation(byteCount: pairedRowBytes(all.columns, block), alignment: 32) { buffer in
    guard let row = buffer.baseAddress else { return }
    var p = all
    for r in 0..<xRows {
      pairRow(all.x + r * xStride, all.columns, block, bits == 2 && block == 64, row)
      p.x = UnsafeRawPointer(row)
      p.y = all.y + r * yStride
      switch (bits, groupSize) {
      case (2, 32): rows2x32(p)
      case (2, _): rows2x64(p)
      case (3, 32): rows3x32(p)
      case (3, _): rows3x64(p)
      case (5, 32): rows5x32(p)
      case (5, _): rows5x64(p)
      case (_, 32): rows6x32(p)
      default: rows6x64(p)
      }
    }
  }
}

@inline(never)
func rows2x32(_ p: Operands) { allRows(p, 2, 32) }

@inline(never)
func rows2x64(_ p: Operands) { allRows(p, 2, 64) }

@inline(never)
func rows3x32(_ p: Operands) { allRows(p, 3, 32) }

@inline(never)
func rows3x64(_ p: Operands) { allRows(p, 3, 64) }

@inline(never)
func rows5x32(_ p: Operands) { allRows(p, 5, 32) }

@inline(never)
func rows5x64(_ p: Operands) { allRows(p, 5, 64) }

@inline(never)
func rows6x32(_ p: Operands) { allRows(p, 6, 32) }

@inline(never)
func rows6x64(_ p: Operands) { allRows(p, 6, 64) }

/// Row by row in the order of memory; four rows share the last sums.
@inline(__always)
private func allRows(_ p: Operands, _ bits: Int, _ block: Int) {
  let spread = spread(for: bits)
  let zero = _mm256_setzero_ps()
  var (p0, p1, p2, p3) = (zero, zero, zero, zero)
  for o in 0..<p.rows {
    (p0, p1, p2, p3) = (p1, p2, p3, rowProduct(p, o, bits, block, spread))
    if o & 3 == 3 {
      _mm_storeu_ps(p.y + o - 3, sums(p0, p1, p2, p3))
    } else if o >= p.rows & ~3 {
      p.y[o] = sum(p3)
    }
  }
}

/// Eight lanes of row `o`, still to be summed; blocks take turns as in Int8Multiply.
@inline(__always)
private func rowProduct(_ p: Operands, _ o: Int, _ bits: Int, _ block: Int, _ spread: Spread) -> __m256 {
  let (scales, biases) = (p.scales + o * p.scaleRowBytes, p.biases + o * p.scaleRowBytes)
  var (w, x, s) = (p.w + o * p.rowBytes, p.x, 0)
  var a = p.x + pairedColumns(p.columns, block)
  let c = 4 * paddedBlocks(p.columns, block)
  // Bytes of eight blocks.
  let (wStep, sStep) = (block * bits, (p.format == 0 ? 32 : 16) / (p.isShared ? 2 : 1))
  let ahead = prefetchDistance / wStep * sStep
  var (these, those) = (_mm256_setzero_ps(), _mm256_setzero_ps())
  var left = p.columns / block
  while left >= 8 {
    prefetchAhead(w, wStep)
    prefetch(scales + s + ahead)
    prefetch(biases + s + ahead)
    let (scale, bias) = coefficients(scales + s, biases + s, p)
    let sum = add(these, eight(w, x, 8, bits, block, spread), scale, bias, a, a + c)
    (these, those) = (those, sum)
    w += wStep
    x += 8 * block
    s += sStep
    a += 32
    left -= 8
  }
  if left > 0 {
    prefetchAhead(w, wStep)
    let (scale, bias) = lastCoefficients(scales + s, biases + s, p, left, block)
    // A block without a neighbour may be read as two while another row follows.
    let isInside = left & 1 == 0 || o + 1 < p.rows
    let sums =
      isInside ? eight(w, x, left, bits, block, spread) : last(w, x, left, bits, block, spread)
    these = add(these, sums, scale, bias, a, a + c)
  }
  return _mm256_add_ps(these, those)
}

/// Sums of two neighbouring blocks with `pairBlocks`' row, one in each half: of words with 2 and 3 bits, else of dwords.
@inline(__always)
private func pairSums(
  _ w: UnsafeRawPointer, _ x: UnsafeRawPointer, _ bits: Int, _ block: Int, _ spread: Spread
) -> __m256i {
  let second = w + block * bits / 8
  switch (bits, block) {
  case (2, 32):
    let (even, odd) = evenOdd2(w)
    return _mm256_add_epi16(product(even, x, 0), product(odd, x, 1))
  case (2, _):
    let bytes = loadBytes(w)
    return _mm256_add_epi16(
      _mm256_add_epi16(quarter(bytes, 0, x), quarter(bytes, 1, x)),
      _mm256_add_epi16(quarter(bytes, 2, x), quarter(bytes, 3, x)))
  case (3, _):
    let count = block / 32
    let sums = narrowSums(w, second + 12, x, count, spread)
    guard block == 64 else { return sums }
    return _mm256_add_epi16(sums, narrowSums(w + 12, second + 24, x + 32, count, spread))
  default:
    let sums = wideSums(w, second, x, bits, spread)
    guard block == 64 else { return sums }
    return _mm256_add_epi32(sums, wideSums(w + 4 * bits, second + 4 * bits, x + 64, bits, spread))
  }
}

/// Words of 3 bits: 32 elements of two blocks; odd activations are `apart` registers behind even ones.
@inline(__always)
private func narrowSums(
  _ w: UnsafeRawPointer, _ secondEnd: UnsafeRawPointer, _ x: UnsafeRawPointer, _ apart: Int,
  _ spread: Spread
) -> __m256i {
  let (even, odd) = evenOdd3(w, secondEnd, spread)
  return _mm256_add_epi16(product(even, x, 0), product(odd, x, apart))
}

/// Dwords of 5 and 6 bits: 32 elements of two blocks. Two pairs of products are at most 4 · 63 · 127 = 32,004.
@inline(__always)
private func wideSums(
  _ w: UnsafeRawPointer, _ second: UnsafeRawPointer, _ x: UnsafeRawPointer, _ bits: Int, _ spread: Spread
) -> __m256i {
  let first = maskedBytes(w, second + 2 * bits, bits, spread)
  let other = maskedBytes(w + 2 * bits, second + 4 * bits, bits, spread)
  let words = _mm256_add_epi16(product(first, x, 0), product(other, x, 1))
  return _mm256_madd_epi16(words, _mm256_set1_epi16(1))
}

/// Words: weights times register `index` of the activations.
@inline(__always)
private func product(_ weights: __m256i, _ x: UnsafeRawPointer, _ index: Int) -> __m256i {
  _mm256_maddubs_epi16(weights, loadBytes(x + 32 * index))
}

/// As `product` for bits `2 · index` and the next of each byte.
@inline(__always)
private func quarter(_ bytes: __m256i, _ index: Int, _ x: UnsafeRawPointer) -> __m256i {
  let moved = index == 0 ? bytes : _mm256_srli_epi16(bytes, Int32(truncatingIfNeeded: 2 * index))
  return product(_mm256_and_si256(moved, _mm256_set1_epi8(3)), x, index)
}

/// Integer products of `count` blocks, one lane each, zeros behind them; a last one without a neighbour counts as two.
@inline(__always)
private func eight(
  _ w: UnsafeRawPointer, _ x: UnsafeRawPointer, _ count: Int, _ bits: Int, _ block: Int, _ spread: Spread
) -> __m256i {
  let zero = _mm256_setzero_si256()
  var (a, b, c, d) = (zero, zero, zero, zero)
  for i in 0..<4 {
    var sums = zero
    if 2 * i < count { sums = pairSums(w + i * block * bits / 4, x + 2 * i * block, bits, block, spread) }
    (a, b, c, d) = (b, c, d, sums)
  }
  return inOrder(bits <= 3 ? fourSums(a, b, c, d) : fourWideSums(a, b, c, d))
}

/// As `eight` for the last blocks of the last row: nothing behind it is read.
@inline(never)
func last(
  _ w: UnsafeRawPointer, _ x: UnsafeRawPointer, _ count: Int, _ bits: Int, _ block: Int, _ spread: Spread
) -> __m256i {
  let (bytes, pair) = (count * block * bits / 8, block * bits / 4)
  return withUnsafeTemporaryAllocation(byteCount: bytes + pair, alignment: 32) { room in
    guard let copy = room.baseAddress else { return _mm256_setzero_si256() }
    copy.copyMemory(from: w, byteCount: bytes)
    (copy + bytes).initializeMemory(as: UInt8.self, repeating: 0, count: pair)
    return eight(UnsafeRawPointer(copy), x, count, bits, block, spread)
  }
}

/// As `fourSums` for registers of dwords.
@inline(__always)
private func fourWideSums(_ a: __m256i, _ b: __m256i, _ c: __m256i, _ d: __m256i) -> __m256i {
  let first = _mm256_add_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b))
  let second = _mm256_add_epi32(_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d))
  return _mm256_add_epi32(_mm256_unpacklo_epi64(first, second), _mm256_unpackhi_epi64(first, second))
}
