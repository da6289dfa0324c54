// Products of int8 activations with 4- and 8-bit affine weights by VPDPBUSD, for few rows of x (decode).
//
// For block j: w·x = Σ (s·q + b)·a·x8 = (a·s) · Σ q·x8 + b · c. The integer sum is exact in any order. Block j
// belongs to float lane j mod 16; each lane adds its blocks in order, first the product, then the bias term,
// and the sixteen lanes are summed in one fixed tree. The panel kernel does the same operations, so decode and
// prefill agree to the bit.

import _Builtin_intrinsics.intel

// Plain functions instead of types here: a struct would bring value witnesses, which are weak symbols.

/// The unsigned weights `64 · unit ..< 64 · unit + 64` of a row as bytes, zeros behind its end: two blocks of 32 or
/// one of 64, unpacked nibbles in the order [even | odd] within their block.
@inline(__always)
func unitWeights(_ row: UnsafeRawPointer, _ unit: Int, _ columns: Int, _ bits: Int, _ block: Int) -> __m512i {
  let left = min(64, columns - 64 * unit)
  let words = _mm512_maskz_loadu_epi32(tailMask(left * bits / 32), row + 8 * bits * unit)
  return bits == 8 ? words : spread(words, block)
}

/// As `unitWeights` for a unit that lies whole within the row.
@inline(__always)
private func wholeUnit(_ row: UnsafeRawPointer, _ unit: Int, _ bits: Int, _ block: Int) -> __m512i {
  if bits == 8 { return _mm512_loadu_si512(row + 64 * unit) }
  let half = _mm256_loadu_si256((row + 32 * unit).assumingMemoryBound(to: __m256i.self))
  return spread(_mm512_castsi256_si512(half), block)
}

/// 64 nibbles in the lower half of a register as bytes.
@inline(__always)
private func spread(_ nibbles: __m512i, _ block: Int) -> __m512i {
  // Each block's bytes twice: once for the low nibbles, once for the high ones.
  let order =
    block == 32 ? _mm512_set_epi64(3, 2, 3, 2, 1, 0, 1, 0) : _mm512_set_epi64(3, 2, 1, 0, 3, 2, 1, 0)
  let shifts =
    block == 32 ? _mm512_set_epi64(4, 4, 0, 0, 4, 4, 0, 0) : _mm512_set_epi64(4, 4, 4, 4, 0, 0, 0, 0)
  let twice = _mm512_permutexvar_epi64(order, nibbles)
  return _mm512_and_si512(_mm512_srlv_epi64(twice, shifts), _mm512_set1_epi32(0x0F0F_0F0F))
}

/// Adds lanes of two registers: from 2n values per block (n = 8, 4, 2, 1) to n, blocks staying in order.
@inline(__always)
private func fold(_ a: __m512i, _ b: __m512i, _ low: __m512i, _ high: __m512i) -> __m512i {
  _mm512_add_epi32(_mm512_permutex2var_epi32(a, low, b), _mm512_permutex2var_epi32(a, high, b))
}

@inline(__always)
private func foldToEight(_ a: __m512i, _ b: __m512i) -> __m512i {
  fold(
    a, b, _mm512_set_epi32(23, 22, 21, 20, 19, 18, 17, 16, 7, 6, 5, 4, 3, 2, 1, 0),
    _mm512_set_epi32(31, 30, 29, 28, 27, 26, 25, 24, 15, 14, 13, 12, 11, 10, 9, 8))
}

@inline(__always)
private func foldToFour(_ a: __m512i, _ b: __m512i) -> __m512i {
  fold(
    a, b, _mm512_set_epi32(27, 26, 25, 24, 19, 18, 17, 16, 11, 10, 9, 8, 3, 2, 1, 0),
    _mm512_set_epi32(31, 30, 29, 28, 23, 22, 21, 20, 15, 14, 13, 12, 7, 6, 5, 4))
}

@inline(__always)
private func foldToTwo(_ a: __m512i, _ b: __m512i) -> __m512i {
  fold(
    a, b, _mm512_set_epi32(29, 28, 25, 24, 21, 20, 17, 16, 13, 12, 9, 8, 5, 4, 1, 0),
    _mm512_set_epi32(31, 30, 27, 26, 23, 22, 19, 18, 15, 14, 11, 10, 7, 6, 3, 2))
}

@inline(__always)
private func foldToOne(_ a: __m512i, _ b: __m512i) -> __m512i {
  fold(
    a, b, _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0),
    _mm512_set_epi32(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1))
}

/// Sixteen scales or biases of consecutive blocks from block `first` on; zeros behind the row's last block.
@inline(__always)
func coefficients(
  _ base: UnsafeRawPointer, _ format: Int, _ first: Int, _ blocks: Int, _ isShared: Bool
) -> __m512 {
  // A group of 128 is two blocks of 64 with the same scale.
  let count = min(16, blocks - first)
  guard isShared else { return floats(base, format, first, tailMask(count)) }
  let half = floats(base, format, first / 2, tailMask((count + 1) / 2))
  let twice = _mm512_permutexvar_ps(
    _mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0), half)
  return _mm512_maskz_mov_ps(tailMask(count), twice)
}

@inline(__always)
private func floats(_ base: UnsafeRawPointer, _ format: Int, _ first: Int, _ mask: __mmask16) -> __m512 {
  format == 0
    ? _mm512_maskz_loadu_ps(mask, base + 4 * first) : widen(base + 2 * first, format, mask)
}

/// `y[r · yStride + o]` for quantized rows of x (`quantizeInt8`); weights as KernelTable.MultiplyPacked.
package func multiplyInt8(
  packed: UnsafeRawPointer, rowBytes: Int, scales: UnsafeRawPointer, biases: UnsafeRawPointer,
  scaleRowBytes: Int, scaleFormat: Int, bits: Int, groupSize: Int, weightRows: Int, x: UnsafeRawPointer,
  xStride: Int, xRows: Int, columns: Int, y: UnsafeMutablePointer<Float>, yStride: Int
) {
  for o in 0..<weightRows {
    let w = packed + o * rowBytes
    let (s, b) = (scales + o * scaleRowBytes, biases + o * scaleRowBytes)
    for r in 0..<xRows {
      let (source, target) = (x + r * xStride, y + r * yStride + o)
      // Each case is a function of its own: inlined together they exceed the compiler's budget, which then
      // leaves the inner steps out of line (measured: 25 instead of 32 tokens/s). Not private: the compiler
      // emits private functions that stay out of line as weak symbols.
      switch (bits, groupSize) {
      case (4, 32): target[0] = product4x32(w, s, b, scaleFormat, source, columns)
      case (4, 64): target[0] = product4x64(w, s, b, scaleFormat, source, columns)
      case (4, _): target[0] = product4x128(w, s, b, scaleFormat, source, columns)
      case (_, 32): target[0] = product8x32(w, s, b, scaleFormat, source, columns)
      case (_, 64): target[0] = product8x64(w, s, b, scaleFormat, source, columns)
      default: target[0] = product8x128(w, s, b, scaleFormat, source, columns)
      }
    }
  }
}

@inline(never)
func product4x32(
  _ w: UnsafeRawPointer, _ s: UnsafeRawPointer, _ b: UnsafeRawPointer, _ format: Int, _ x: UnsafeRawPointer,
  _ columns: Int
) -> Float { rowProduct(w, s, b, format, 4, 32, false, x, columns) }

@inline(never)
func product4x64(
  _ w: UnsafeRawPointer, _ s: UnsafeRawPointer, _ b: UnsafeRawPointer, _ format: Int, _ x: UnsafeRawPointer,
  _ columns: Int
) -> Float { rowProduct(w, s, b, format, 4, 64, false, x, columns) }

@inline(never)
func product4x128(
  _ w: UnsafeRawPointer, _ s: UnsafeRawPointer, _ b: UnsafeRawPointer, _ format: Int, _ x: UnsafeRawPointer,
  _ columns: Int
) -> Float { rowProduct(w, s, b, format, 4, 64, true, x, columns) }

@inline(never)
func product8x32(
  _ w: UnsafeRawPointer, _ s: UnsafeRawPointer, _ b: UnsafeRawPointer, _ format: Int, _ x: UnsafeRawPointer,
  _ columns: Int
) -> Float { rowProduct(w, s, b, format, 8, 32, false, x, columns) }

@inline(never)
func product8x64(
  _ w: UnsafeRawPointer, _ s: UnsafeRawPointer, _ b: UnsafeRawPointer, _ format: Int, _ x: UnsafeRawPointer,
  _ columns: Int
) -> Float { rowProduct(w, s, b, format, 8, 64, false, x, columns) }

@inline(never)
func product8x128(
  _ w: UnsafeRawPointer, _ s: UnsafeRawPointer, _ b: UnsafeRawPointer, _ format: Int, _ x: UnsafeRawPointer,
  _ columns: Int
) -> Float { rowProduct(w, s, b, format, 8, 64, true, x, columns) }

/// Integer products of one unit, still spread over the lanes of its blocks; zeros behind the row's end.
@inline(__always)
private func unit(
  _ w: UnsafeRawPointer, _ x: UnsafeRawPointer, _ index: Int, _ columns: Int, _ bits: Int, _ block: Int
) -> __m512i {
  guard 64 * index < columns else { return _mm512_setzero_si512() }
  let weights = unitWeights(w, index, columns, bits, block)
  return _mm512_dpbusd_epi32(_mm512_setzero_si512(), weights, _mm512_loadu_si512(x + 64 * index))
}

@inline(__always)
private func whole(
  _ w: UnsafeRawPointer, _ x: UnsafeRawPointer, _ index: Int, _ bits: Int, _ block: Int
) -> __m512i {
  let weights = wholeUnit(w, index, bits, block)
  return _mm512_dpbusd_epi32(_mm512_setzero_si512(), weights, _mm512_loadu_si512(x + 64 * index))
}

/// Four lanes each of four blocks from `first` on, all of them within the row.
@inline(__always)
private func four(
  _ w: UnsafeRawPointer, _ x: UnsafeRawPointer, _ first: Int, _ bits: Int, _ block: Int
) -> __m512i {
  if block == 32 {
    let at = first / 2
    return foldToFour(whole(w, x, at, bits, 32), whole(w, x, at + 1, bits, 32))
  }
  return foldToFour(
    foldToEight(whole(w, x, first, bits, 64), whole(w, x, first + 1, bits, 64)),
    foldToEight(whole(w, x, first + 2, bits, 64), whole(w, x, first + 3, bits, 64)))
}

/// Integer products of sixteen blocks, one lane each, all of them within the row.
@inline(__always)
private func sixteen(
  _ w: UnsafeRawPointer, _ x: UnsafeRawPointer, _ first: Int, _ bits: Int, _ block: Int
) -> __m512i {
  let low = foldToTwo(four(w, x, first, bits, block), four(w, x, first + 4, bits, block))
  let high = foldToTwo(four(w, x, first + 8, bits, block), four(w, x, first + 12, bits, block))
  return foldToOne(low, high)
}

/// As `sixteen` where the row may end within them: integer sums are exact in any order.
@inline(__always)
private func upToSixteen(
  _ w: UnsafeRawPointer, _ x: UnsafeRawPointer, _ first: Int, _ columns: Int, _ bits: Int, _ block: Int
) -> __m512i {
  var products = _mm512_setzero_si512()
  for lane in 0..<16 where (first + lane) * block < columns {
    let at = (first + lane) * block
    let lanes = unsafeBitCast(unit(w, x, at / 64, columns, bits, block), to: SIMD16<Int32>.self)
    let eight =
      block == 64 ? lanes.lowHalf &+ lanes.highHalf : at % 64 == 0 ? lanes.lowHalf : lanes.highHalf
    let four = eight.lowHalf &+ eight.highHalf
    let two = four.lowHalf &+ four.highHalf
    products = _mm512_mask_set1_epi32(products, __mmask16(1) << __mmask16(lane), two[0] &+ two[1])
  }
  return products
}

@inline(__always)
private func rowProduct(
  _ w: UnsafeRawPointer, _ scales: UnsafeRawPointer, _ biases: UnsafeRawPointer, _ format: Int, _ bits: Int,
  _ block: Int, _ isShared: Bool, _ x: UnsafeRawPointer, _ columns: Int
) -> Float {
  let blocks = columns / block
  let a = x + paddedColumns(columns)
  let c = a + 4 * paddedBlocks(columns, block)
  var total = _mm512_setzero_ps()
  var first = 0
  while first < blocks {
    prefetchAhead(w + first * block * bits / 8, 2 * block * bits)
    // The rows of scales follow each other as those of weights do: a number for each `block * bits / 8` bytes.
    let scaleAt = (first + 8 * prefetchDistance / (block * bits)) * (format == 0 ? 4 : 2) / (isShared ? 2 : 1)
    prefetch(scales + scaleAt)
    prefetch(biases + scaleAt)
    let integers =
      first + 16 <= blocks
      ? sixteen(w, x, first, bits, block) : upToSixteen(w, x, first, columns, bits, block)
    let products = _mm512_cvtepi32_ps(integers)
    let factor = _mm512_mul_ps(load(a, first), coefficients(scales, format, first, blocks, isShared))
    total = _mm512_fmadd_ps(products, factor, total)
    total = _mm512_fmadd_ps(coefficients(biases, format, first, blocks, isShared), load(c, first), total)
    first += 16
  }
  return sum(total)
}
