// Products of int8 activations with affine weights of 2, 3, 5 and 6 bits, for few rows of x (decode).
//
// Two neighbouring blocks share each register, one in each half, so that sums of eight blocks come from four registers
// instead of eight. Activations are rewritten once per call in the order in which unpacked weights meet them
// (`pairBlocks`). Lanes and their order are those of Int8Multiply.

import KernelTypes
import _Builtin_intrinsics.intel

/// 2, 3, 5 and 6 bits: rows of x one by one.
@inline(__always)
func multiplyNarrow(_ weights: QuantizedRows, _ x: Int8Activations, _ y: Output) {
  let block = min(weights.groups.size, Int8Block.limit)
  let (columns, inQuarters) = (weights.columns, weights.bits == 2 && block == 64)
  withUnsafeTemporaryAllocation(byteCount: pairedRowBytes(columns, block), alignment: 32) { buffer in
    guard let buffer = buffer.baseAddress else { return }
    let row = UnsafeRawPointer(buffer)
    for r in 0..<x.count {
      pairRow(x.base + r * x.rowBytes, columns, block, inQuarters: inQuarters, buffer)
      let target = Output(base: y.base + r * y.stride, stride: y.stride)
      switch (weights.bits, block) {
      case (2, 32): rows2x32(weights, row, target)
      case (2, _): rows2x64(weights, row, target)
      case (3, 32): rows3x32(weights, row, target)
      case (3, _): rows3x64(weights, row, target)
      case (5, 32): rows5x32(weights, row, target)
      case (5, _): rows5x64(weights, row, target)
      case (_, 32): rows6x32(weights, row, target)
      default: rows6x64(weights, row, target)
      }
    }
  }
}

@inline(never)
func rows2x32(_ weights: QuantizedRows, _ x: UnsafeRawPointer, _ y: Output) {
  allRows(weights, x, y, bits: 2, block: 32)
}

@inline(never)
func rows2x64(_ weights: QuantizedRows, _ x: UnsafeRawPointer, _ y: Output) {
  allRows(weights, x, y, bits: 2, block: 64)
}

@inline(never)
func rows3x32(_ weights: QuantizedRows, _ x: UnsafeRawPointer, _ y: Output) {
  allRows(weights, x, y, bits: 3, block: 32)
}

@inline(never)
func rows3x64(_ weights: QuantizedRows, _ x: UnsafeRawPointer, _ y: Output) {
  allRows(weights, x, y, bits: 3, block: 64)
}

@inline(never)
func rows5x32(_ weights: QuantizedRows, _ x: UnsafeRawPointer, _ y: Output) {
  allRows(weights, x, y, bits: 5, block: 32)
}

@inline(never)
func rows5x64(_ weights: QuantizedRows, _ x: UnsafeRawPointer, _ y: Output) {
  allRows(weights, x, y, bits: 5, block: 64)
}

@inline(never)
func rows6x32(_ weights: QuantizedRows, _ x: UnsafeRawPointer, _ y: Output) {
  allRows(weights, x, y, bits: 6, block: 32)
}

@inline(never)
func rows6x64(_ weights: QuantizedRows, _ x: UnsafeRawPointer, _ y: Output) {
  allRows(weights, x, y, bits: 6, block: 64)
}

@inline(__always)
private func allRows(_ weights: QuantizedRows, _ x: UnsafeRawPointer, _ y: Output, bits: Int, block: Int) {
  let spread = spread(for: bits)
  storeRows(weights.count, y, isPair: false) {
    (rowProduct(weights, $0, x, bits: bits, block: block, spread), _mm256_setzero_ps())
  }
}

/// Eight lanes of row `o`, still to be summed; blocks take turns as in Int8Multiply.
@inline(__always)
private func rowProduct(
  _ weights: QuantizedRows, _ o: Int, _ row: UnsafeRawPointer, bits: Int, block: Int, _ spread: Spread
) -> __m256 {
  let (columns, groups, isShared) = (weights.columns, weights.groups, isShared(weights.groups))
  let (scales, biases) = (groups.scales + o * groups.rowBytes, groups.biases + o * groups.rowBytes)
  var (w, x, s) = (weights.packed + o * weights.rowBytes, row, 0)
  var a = row + pairedColumns(columns, block)
  let c = 4 * paddedBlocks(columns, block)
  // Bytes of eight blocks.
  let (wStep, sStep) = (block * bits, 8 * groups.format.bytes / (isShared ? 2 : 1))
  let ahead = prefetchDistance / wStep * sStep
  var (these, those) = (_mm256_setzero_ps(), _mm256_setzero_ps())
  var left = columns / block
  while left >= 8 {
    prefetchAhead(w, wStep)
    prefetch(scales + s + ahead)
    prefetch(biases + s + ahead)
    let (scale, bias) = coefficients(scales + s, biases + s, groups.format, isShared: isShared)
    let sum = add(these, eight(w, x, 8, bits: bits, block: block, spread), scale, bias, a, a + c)
    (these, those) = (those, sum)
    w += wStep
    x += 8 * block
    s += sStep
    a += 32
    left -= 8
  }
  if left > 0 {
    prefetchAhead(w, wStep)
    let (scale, bias) = lastCoefficients(scales + s, biases + s, weights, left, block)
    // A block without a neighbour may be read as two while another row follows.
    let isInside = left & 1 == 0 || o + 1 < weights.count
    let sums =
      isInside
      ? eight(w, x, left, bits: bits, block: block, spread)
      : last(w, x, left, bits: bits, block: block, spread)
    these = add(these, sums, scale, bias, a, a + c)
  }
  return _mm256_add_ps(these, those)
}

/// Sums of two neighbouring blocks with `pairBlocks`' row, one in each half: of words with 2 and 3 bits, else of dwords.
@inline(__always)
private func pairSums(
  _ w: UnsafeRawPointer, _ x: UnsafeRawPointer, bits: Int, block: Int, _ spread: Spread
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

/// Words of 3 bits: 32 elements of two blocks; odd activations are `apart` registers after even ones.
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

/// Integer products of `count` blocks, one lane each, zeros after them; a last one without a neighbour counts as two.
@inline(__always)
private func eight(
  _ w: UnsafeRawPointer, _ x: UnsafeRawPointer, _ count: Int, bits: Int, block: Int, _ spread: Spread
) -> __m256i {
  let zero = _mm256_setzero_si256()
  var (a, b, c, d) = (zero, zero, zero, zero)
  for i in 0..<4 {
    var sums = zero
    if 2 * i < count {
      sums = pairSums(w + i * block * bits / 4, x + 2 * i * block, bits: bits, block: block, spread)
    }
    (a, b, c, d) = (b, c, d, sums)
  }
  return inOrder(bits <= 3 ? fourSums(a, b, c, d) : fourWideSums(a, b, c, d))
}

/// As `eight` for the last blocks of the last row: nothing after it is read.
@inline(never)
func last(
  _ w: UnsafeRawPointer, _ x: UnsafeRawPointer, _ count: Int, bits: Int, block: Int, _ spread: Spread
) -> __m256i {
  let (bytes, pair) = (count * block * bits / 8, block * bits / 4)
  return withUnsafeTemporaryAllocation(byteCount: bytes + pair, alignment: 32) { room in
    guard let copy = room.baseAddress else { return _mm256_setzero_si256() }
    copy.copyMemory(from: w, byteCount: bytes)
    (copy + bytes).initializeMemory(as: UInt8.self, repeating: 0, count: pair)
    return eight(UnsafeRawPointer(copy), x, count, bits: bits, block: block, spread)
  }
}

/// As `fourSums` for registers of dwords.
@inline(__always)
private func fourWideSums(_ a: __m256i, _ b: __m256i, _ c: __m256i, _ d: __m256i) -> __m256i {
  let first = _mm256_add_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b))
  let second = _mm256_add_epi32(_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d))
  return _mm256_add_epi32(_mm256_unpacklo_epi64(first, second), _mm256_unpackhi_epi64(first, second))
}
