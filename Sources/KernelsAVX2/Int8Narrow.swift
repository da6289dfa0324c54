// Weights of 2, 3, 5 and 6 bits as bytes, in registers; and rewritten as nibbles or bytes for panels of many rows of x.
//
// 5 and 6 bits: each word gets the two bytes in which two neighbours lie, a multiplication by a power of two moves
// them to the top of the word, and two shifts for all move one to each byte:
//
//   6 bits   word  |j j j j o o o o  o o e e e e e e|  · 2^4  |o o o o o o e e  e e e e 0 0 0 0|
//                                          >> 4 for the low byte, >> 2 for the high one:
//                                                             |0 0 o o o o o o  j j e e e e e e|  j: another's, masked
//
// 3 bits are half as many elements of 6 bits, each an even and an odd one: activations in the order [even | odd] meet
// them without a shuffle. 2 bits are four planes of a byte.

import _Builtin_intrinsics.intel

/// A shuffle that gives each word its two bytes, and the power of two that moves them to its top.
typealias Spread = (places: __m256i, powers: __m256i)

/// What unpacks weights of `bits`; zeros for 2. Computed once per product: as constants in each place they would
/// exceed what the compiler inlines.
@inline(never)
func spread(for bits: Int) -> Spread {
  let zero = _mm256_setzero_si256()
  guard bits != 2 else { return (zero, zero) }
  let width = bits == 3 ? 6 : bits
  var (places, powers) = (SIMD32<UInt8>(), SIMD16<UInt16>())
  for lane in 0..<16 {
    // The lower half's sixteen elements begin with its bytes, the upper half's end with them: see `wideBytes`.
    let bit = (lane & 7) * 2 * width + (lane < 8 ? 0 : 128 - 16 * width)
    places[2 * lane] = UInt8(truncatingIfNeeded: bit / 8)
    places[2 * lane + 1] = UInt8(truncatingIfNeeded: bit / 8 + 1)
    powers[lane] = 1 << UInt16(truncatingIfNeeded: 16 - 2 * width - bit % 8)
  }
  return (unsafeBitCast(places, to: __m256i.self), unsafeBitCast(powers, to: __m256i.self))
}

/// Sixteen elements of 5 or 6 bits that begin at `low`, and sixteen that end before `highEnd`, as the low bits of bytes.
@inline(__always)
private func wideBytes(
  _ low: UnsafeRawPointer, _ highEnd: UnsafeRawPointer, _ width: Int, _ spread: Spread
) -> __m256i {
  let halves = __m256i(
    lowHalf: _mm_loadu_si128(low.assumingMemoryBound(to: __m128i.self)),
    highHalf: _mm_loadu_si128((highEnd - 16).assumingMemoryBound(to: __m128i.self)))
  let words = _mm256_mullo_epi16(_mm256_shuffle_epi8(halves, spread.places), spread.powers)
  return _mm256_blendv_epi8(
    _mm256_srli_epi16(words, Int32(truncatingIfNeeded: 16 - 2 * width)),
    _mm256_srli_epi16(words, Int32(truncatingIfNeeded: 8 - width)), _mm256_set1_epi16(-256))
}

/// As `wideBytes`, but whole bytes.
@inline(__always)
func maskedBytes(
  _ low: UnsafeRawPointer, _ highEnd: UnsafeRawPointer, _ width: Int, _ spread: Spread
) -> __m256i {
  _mm256_and_si256(wideBytes(low, highEnd, width, spread), _mm256_set1_epi8(width == 5 ? 31 : 63))
}

/// 3 bits: even and odd elements of 32 that begin at `low` and of 32 that end before `highEnd`.
@inline(__always)
func evenOdd3(_ low: UnsafeRawPointer, _ highEnd: UnsafeRawPointer, _ spread: Spread)
  -> (even: __m256i, odd: __m256i)
{
  let (pairs, mask) = (wideBytes(low, highEnd, 6, spread), _mm256_set1_epi8(7))
  return (_mm256_and_si256(pairs, mask), _mm256_and_si256(_mm256_srli_epi16(pairs, 3), mask))
}

/// 2 bits: even and odd elements of 64.
@inline(__always)
func evenOdd2(_ w: UnsafeRawPointer) -> (even: __m256i, odd: __m256i) {
  let words = _mm256_cvtepu8_epi16(_mm_loadu_si128(w.assumingMemoryBound(to: __m128i.self)))
  let pairs = _mm256_or_si256(words, _mm256_slli_epi16(words, 4))
  let mask = _mm256_set1_epi8(3)
  return (_mm256_and_si256(pairs, mask), _mm256_and_si256(_mm256_srli_epi16(pairs, 2), mask))
}

// MARK: Weights for panels

/// Rewrites weights of 2, 3, 5 and 6 bits. Scalar twin: `Reference.repack`.
///
/// - Parameters:
///   - packed: `count` elements from a unit of 32 on; `count` is a multiple of 32.
///   - out: nibbles, low one first, for up to 4 bits, bytes for more; `count / 2` or `count` bytes.
package func repack(
  _ packed: UnsafeRawPointer, _ bits: Int, _ count: Int, into out: UnsafeMutableRawPointer
) {
  let spread = spread(for: bits)
  switch bits {
  case 2: nibbles(packed, 2, count, spread, out)
  case 3: nibbles(packed, 3, count, spread, out)
  case 5:
    for i in 0..<count / 32 {
      storeBytes(maskedBytes(packed + 20 * i, packed + 20 * (i + 1), 5, spread), out + 32 * i)
    }
  default:
    for i in 0..<count / 32 {
      storeBytes(maskedBytes(packed + 24 * i, packed + 24 * (i + 1), 6, spread), out + 32 * i)
    }
  }
}

@inline(__always)
private func nibbles(
  _ packed: UnsafeRawPointer, _ bits: Int, _ count: Int, _ spread: Spread, _ out: UnsafeMutableRawPointer
) {
  for unit in 0..<count / 64 {
    storeBytes(unitNibbles(packed + 8 * bits * unit, bits, spread), out + 32 * unit)
  }
  guard count % 64 != 0 else { return }
  let unit = count / 64
  // After the last 32 elements the row ends.
  let w = packed + 8 * bits * unit
  let first = w.loadUnaligned(as: UInt64.self)
  let last = bits == 2 ? 0 : UInt64((w + 8).loadUnaligned(as: UInt32.self))
  let bytes = withUnsafeBytes(of: SIMD4(first, last, 0, 0)) { copy in
    unitNibbles(copy.baseAddress ?? w, bits, spread)
  }
  (out + 32 * unit).storeBytes(of: bytes.lowHalf, as: SIMD2<Int64>.self)
}

/// 64 elements of 2 or 3 bits as nibbles.
@inline(__always)
private func unitNibbles(_ w: UnsafeRawPointer, _ bits: Int, _ spread: Spread) -> __m256i {
  let (even, odd) = bits == 2 ? evenOdd2(w) : evenOdd3(w, w + 24, spread)
  return _mm256_or_si256(even, _mm256_slli_epi16(odd, 4))
}
