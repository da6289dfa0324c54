// Weights of 2, 3, 5 and 6 bits as bytes, in registers; and rewritten as nibbles or bytes for panels of many rows of x.
//
// 5 and 6 bits: the two bytes in which an element lies go into a word of its own, a multiplication by a power of two
// moves it to the top of the word, one shift for all brings it down:
//
//   6 bits   word  |. . . . e e e e  e e . . . . . .|  · 2^4  |e e e e e e . .  . . . . 0 0 0 0|  >> 10  |0 ... e e e e e e|
//
// 2 and 3 bits are half as many elements of 4 and 6 bits, each an even and an odd element: activations in the order
// [even | odd] meet them without a shuffle, and as nibbles they are even + 16 · odd.

import _Builtin_intrinsics.intel

/// Shuffles and powers of two for the first and the second eight elements of each half of a register.
typealias Spread = (places0: __m256i, places1: __m256i, power0: __m256i, power1: __m256i)

/// What unpacks weights of `bits`; zeros for 2, 4 and 8. Computed once per product: as constants in each place they would
/// exceed what the compiler inlines.
@inline(never)
func spread(for bits: Int) -> Spread {
  let zero = _mm256_setzero_si256()
  guard bits != 2 && bits != 4 && bits != 8 else { return (zero, zero, zero, zero) }
  let width = bits == 3 ? 6 : bits
  // The upper half's sixteen elements begin here: see `wideBytes`.
  let skip = 16 - 2 * width
  var (places0, places1) = (SIMD32<UInt8>(), SIMD32<UInt8>())
  var (power0, power1) = (SIMD16<UInt16>(), SIMD16<UInt16>())
  for lane in 0..<16 {
    let (bit, start) = ((lane & 7) * width, lane < 8 ? 0 : skip)
    let next = bit + 8 * width
    // An element that ends with its byte needs no second one, which may lie outside.
    places0[2 * lane] = UInt8(truncatingIfNeeded: bit / 8 + start)
    places0[2 * lane + 1] = UInt8(truncatingIfNeeded: min(bit / 8 + start + 1, 15))
    power0[lane] = 1 << UInt16(truncatingIfNeeded: 16 - width - bit % 8)
    places1[2 * lane] = UInt8(truncatingIfNeeded: next / 8 + start)
    places1[2 * lane + 1] = UInt8(truncatingIfNeeded: min(next / 8 + start + 1, 15))
    power1[lane] = 1 << UInt16(truncatingIfNeeded: 16 - width - next % 8)
  }
  return (
    unsafeBitCast(places0, to: __m256i.self), unsafeBitCast(places1, to: __m256i.self),
    unsafeBitCast(power0, to: __m256i.self), unsafeBitCast(power1, to: __m256i.self)
  )
}

/// 32 elements of 5 or 6 bits from `w` on, in order. Reads their bytes and none behind them.
@inline(__always)
func wideBytes(_ w: UnsafeRawPointer, _ width: Int, _ spread: Spread) -> __m256i {
  // Sixteen elements in each half; the bytes of the upper half's are the last sixteen.
  let halves = __m256i(
    lowHalf: _mm_loadu_si128(w.assumingMemoryBound(to: __m128i.self)),
    highHalf: _mm_loadu_si128((w + 4 * width - 16).assumingMemoryBound(to: __m128i.self)))
  let first = _mm256_mullo_epi16(_mm256_shuffle_epi8(halves, spread.places0), spread.power0)
  let second = _mm256_mullo_epi16(_mm256_shuffle_epi8(halves, spread.places1), spread.power1)
  let down = Int32(truncatingIfNeeded: 16 - width)
  return _mm256_packus_epi16(_mm256_srli_epi16(first, down), _mm256_srli_epi16(second, down))
}

/// Even and odd elements of 64 of 2 or 3 bits as bytes, each in order.
@inline(__always)
func evenOdd(_ w: UnsafeRawPointer, _ bits: Int, _ spread: Spread) -> (even: __m256i, odd: __m256i) {
  let pairs: __m256i
  if bits == 2 {
    let words = _mm256_cvtepu8_epi16(_mm_loadu_si128(w.assumingMemoryBound(to: __m128i.self)))
    pairs = _mm256_and_si256(
      _mm256_or_si256(words, _mm256_slli_epi16(words, 4)), _mm256_set1_epi8(15))
  } else {
    pairs = wideBytes(w, 6, spread)
  }
  let mask = _mm256_set1_epi8(bits == 2 ? 3 : 7)
  let down = Int32(truncatingIfNeeded: bits)
  return (_mm256_and_si256(pairs, mask), _mm256_and_si256(_mm256_srli_epi16(pairs, down), mask))
}

/// As `evenOdd` for 32 elements, behind which the row ends; zeros behind them.
@inline(__always)
func lastEvenOdd(_ w: UnsafeRawPointer, _ bits: Int, _ spread: Spread) -> (even: __m256i, odd: __m256i) {
  let first = w.loadUnaligned(as: UInt64.self)
  let last = bits == 2 ? 0 : UInt64((w + 8).loadUnaligned(as: UInt32.self))
  return withUnsafeBytes(of: SIMD4(first, last, 0, 0)) { copy in
    evenOdd(copy.baseAddress ?? w, bits, spread)
  }
}

/// - Parameters:
///   - packed: `count` elements of `bits` (2, 3, 5 or 6) from a unit of 32 on; `count` is a multiple of 32.
///   - out: nibbles, low one first, for up to 4 bits, bytes for more; `count / 2` or `count` bytes.
package func repack(packed: UnsafeRawPointer, bits: Int, count: Int, out: UnsafeMutableRawPointer) {
  let spread = spread(for: bits)
  switch bits {
  case 2: nibbles(packed, 2, count, spread, out)
  case 3: nibbles(packed, 3, count, spread, out)
  case 5: for i in 0..<count / 32 { storeBytes(wideBytes(packed + 20 * i, 5, spread), out + 32 * i) }
  default: for i in 0..<count / 32 { storeBytes(wideBytes(packed + 24 * i, 6, spread), out + 32 * i) }
  }
}

@inline(__always)
private func nibbles(
  _ packed: UnsafeRawPointer, _ bits: Int, _ count: Int, _ spread: Spread, _ out: UnsafeMutableRawPointer
) {
  for unit in 0..<count / 64 {
    let (even, odd) = evenOdd(packed + 8 * bits * unit, bits, spread)
    storeBytes(_mm256_or_si256(even, _mm256_slli_epi16(odd, 4)), out + 32 * unit)
  }
  if count % 64 != 0 {
    let unit = count / 64
    let (even, odd) = lastEvenOdd(packed + 8 * bits * unit, bits, spread)
    let bytes = _mm256_or_si256(even, _mm256_slli_epi16(odd, 4))
    (out + 32 * unit).storeBytes(of: bytes.lowHalf, as: SIMD2<Int64>.self)
  }
}
