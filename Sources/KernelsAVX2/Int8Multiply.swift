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
  for o in 0..<weightRows {
    let w = packed + o * rowBytes
    let (s, b) = (scales + o * scaleRowBytes, biases + o * scaleRowBytes)
    for r in 0..<xRows {
      let (source, target) = (x + r * xStride, y + r * yStride + o)
      // Each case is a function of its own, and not private: see the AVX-512 module.
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

/// Integer products of blocks `first ..< first + 8`, one lane each, all of them within the row.
@inline(__always)
private func eight(
  _ w: UnsafeRawPointer, _ x: UnsafeRawPointer, _ first: Int, _ bits: Int, _ block: Int
) -> __m256i {
  if bits == 4 && block == 64 {
    return joinHalves(
      fourSums(
        nibbles4(w, x, first, 64), nibbles4(w, x, first + 1, 64), nibbles4(w, x, first + 2, 64),
        nibbles4(w, x, first + 3, 64)),
      fourSums(
        nibbles4(w, x, first + 4, 64), nibbles4(w, x, first + 5, 64), nibbles4(w, x, first + 6, 64),
        nibbles4(w, x, first + 7, 64)))
  }
  if bits == 4 {
    // Even blocks stand in the low half, odd ones in the high half.
    let unit = first / 2
    let sums = fourSums(
      nibbles4(w, x, unit, 32), nibbles4(w, x, unit + 1, 32), nibbles4(w, x, unit + 2, 32),
      nibbles4(w, x, unit + 3, 32))
    return _mm256_permutevar8x32_epi32(sums, _mm256_set_epi32(7, 3, 6, 2, 5, 1, 4, 0))
  }
  let low = plane8(w, x, first, block, false)
  let high = plane8(w, x, first, block, true)
  return _mm256_add_epi32(low, _mm256_slli_epi32(high, 4))
}

@inline(__always)
private func plane8(
  _ w: UnsafeRawPointer, _ x: UnsafeRawPointer, _ first: Int, _ block: Int, _ isHigh: Bool
) -> __m256i {
  joinHalves(
    fourSums(
      nibbles8(w, x, first, block, isHigh), nibbles8(w, x, first + 1, block, isHigh),
      nibbles8(w, x, first + 2, block, isHigh), nibbles8(w, x, first + 3, block, isHigh)),
    fourSums(
      nibbles8(w, x, first + 4, block, isHigh), nibbles8(w, x, first + 5, block, isHigh),
      nibbles8(w, x, first + 6, block, isHigh), nibbles8(w, x, first + 7, block, isHigh)))
}

/// As `eight` where the row ends within them, element by element: integer sums are exact in any order.
func upToEight(
  _ w: UnsafeRawPointer, _ x: UnsafeRawPointer, _ first: Int, _ blocks: Int, _ bits: Int, _ block: Int
) -> __m256i {
  var products = SIMD8<Int32>.zero
  for lane in 0..<min(8, blocks - first) {
    let at = (first + lane) * block
    var sum: Int32 = 0
    for i in 0..<block {
      let element = at + i
      if bits == 8 {
        sum &+=
          Int32(w.load(fromByteOffset: element, as: UInt8.self))
          &* Int32(x.load(fromByteOffset: element, as: Int8.self))
      } else {
        let byte = w.load(fromByteOffset: element / 2, as: UInt8.self)
        let nibble = i & 1 == 0 ? byte & 15 : byte >> 4
        let position = at + i / 2 + (i & 1) * (block / 2)
        sum &+= Int32(nibble) &* Int32(x.load(fromByteOffset: position, as: Int8.self))
      }
    }
    products[lane] = sum
  }
  return unsafeBitCast(products, to: __m256i.self)
}

// MARK: One row

/// Scales or biases of eight consecutive blocks; zeros behind the row's last block.
@inline(__always)
private func coefficients(
  _ base: UnsafeRawPointer, _ format: Int, _ first: Int, _ blocks: Int, _ isShared: Bool
) -> __m256 {
  guard first + 8 <= blocks else { return lastCoefficients(base, format, first, blocks, isShared) }
  guard isShared else {
    return format == 0 ? load(base, first) : widen(base + 2 * first, format)
  }
  // A group of 128 is two blocks of 64 with the same scale.
  let four: SIMD4<Float>
  if format == 0 {
    four = (base + 2 * first).loadUnaligned(as: SIMD4<Float>.self)
  } else {
    let bits = (base + first).loadUnaligned(as: SIMD4<UInt16>.self)
    let eight = SIMD8<UInt16>(lowHalf: bits, highHalf: .zero)
    four =
      format == 1
      ? _mm256_cvtph_ps(unsafeBitCast(eight, to: __m128i.self)).lowHalf
      : unsafeBitCast(SIMD4<UInt32>(truncatingIfNeeded: bits) &<< 16, to: SIMD4<Float>.self)
  }
  return _mm256_permutevar8x32_ps(
    SIMD8(lowHalf: four, highHalf: four), _mm256_set_epi32(3, 3, 2, 2, 1, 1, 0, 0))
}

func lastCoefficients(
  _ base: UnsafeRawPointer, _ format: Int, _ first: Int, _ blocks: Int, _ isShared: Bool
) -> __m256 {
  var lanes = _mm256_setzero_ps()
  for lane in 0..<min(8, blocks - first) {
    lanes[lane] = scalar(base, format, isShared ? (first + lane) / 2 : first + lane)
  }
  return lanes
}

@inline(__always)
private func addEight(
  _ total: __m256, _ w: UnsafeRawPointer, _ scales: UnsafeRawPointer, _ biases: UnsafeRawPointer,
  _ format: Int, _ bits: Int, _ block: Int, _ isShared: Bool, _ x: UnsafeRawPointer, _ a: UnsafeRawPointer,
  _ c: UnsafeRawPointer, _ first: Int, _ blocks: Int
) -> __m256 {
  let integers =
    first + 8 <= blocks ? eight(w, x, first, bits, block) : upToEight(w, x, first, blocks, bits, block)
  let factor = _mm256_mul_ps(load(a, first), coefficients(scales, format, first, blocks, isShared))
  let sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(integers), factor, total)
  return _mm256_fmadd_ps(coefficients(biases, format, first, blocks, isShared), load(c, first), sum)
}

@inline(__always)
private func rowProduct(
  _ w: UnsafeRawPointer, _ scales: UnsafeRawPointer, _ biases: UnsafeRawPointer, _ format: Int, _ bits: Int,
  _ block: Int, _ isShared: Bool, _ x: UnsafeRawPointer, _ columns: Int
) -> Float {
  let blocks = columns / block
  let a = x + paddedColumns(columns)
  let c = a + 4 * paddedBlocks(columns, block)
  // Blocks 16·i ..< 16·i + 8 belong to the lower eight lanes, the next eight to the upper.
  var (lower, upper) = (_mm256_setzero_ps(), _mm256_setzero_ps())
  var first = 0
  while first < blocks {
    lower = addEight(lower, w, scales, biases, format, bits, block, isShared, x, a, c, first, blocks)
    if first + 8 < blocks {
      upper = addEight(upper, w, scales, biases, format, bits, block, isShared, x, a, c, first + 8, blocks)
    }
    first += 16
  }
  return sum(_mm256_add_ps(lower, upper))
}
