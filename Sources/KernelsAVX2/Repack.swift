// Weights of 2, 3, 5 and 6 bits rewritten as nibbles or bytes, the forms that the integer kernels multiply.
//
// Thirty-two elements are `bits` dwords. Each half of a register takes the dwords of sixteen elements; a shuffle puts
// the two bytes in which an element lies into a word of its own, a multiplication by a power of two moves it to the
// top of the word, and one shift for all brings it down:
//
//   6 bits   word  |. . . . e e e e  e e . . . . . .|  · 2^4  |e e e e e e . .  . . . . 0 0 0 0|  >> 10  |0 ... e e e e e e|

import _Builtin_intrinsics.intel

/// - Parameters:
///   - packed: `count` elements of `bits` (2, 3, 5 or 6) from a unit of 32 on; `count` is a multiple of 32.
///   - out: nibbles, low one first, for up to 4 bits, bytes for more; `count / 2` or `count` bytes.
package func repack(packed: UnsafeRawPointer, bits: Int, count: Int, out: UnsafeMutableRawPointer) {
  // The second sixteen elements start at byte 2 · bits: at a dword, or in the middle of one.
  let (dword, rest) = (bits / 2, 16 * (bits & 1))
  var order = SIMD8<Int32>(0, 1, 2, 3, 0, 0, 0, 0)
  for lane in 4..<8 { order[lane] = Int32(truncatingIfNeeded: min(dword + lane - 4, 7)) }
  var (first, second) = (SIMD32<UInt8>(), SIMD32<UInt8>())
  var (up, upper) = (SIMD16<UInt16>(), SIMD16<UInt16>())
  for lane in 0..<16 {
    // Element `lane` of its half's first eight, and the one eight behind it.
    let bit = (lane & 7) * bits + (lane < 8 ? 0 : rest)
    let next = bit + 8 * bits
    first[2 * lane] = UInt8(truncatingIfNeeded: bit / 8)
    first[2 * lane + 1] = UInt8(truncatingIfNeeded: bit / 8 + 1)
    up[lane] = 1 << UInt16(truncatingIfNeeded: 16 - bits - bit % 8)
    second[2 * lane] = UInt8(truncatingIfNeeded: next / 8)
    second[2 * lane + 1] = UInt8(truncatingIfNeeded: next / 8 + 1)
    upper[lane] = 1 << UInt16(truncatingIfNeeded: 16 - bits - next % 8)
  }
  let places = unsafeBitCast(order, to: __m256i.self)
  let (shuffle0, shuffle1) = (unsafeBitCast(first, to: __m256i.self), unsafeBitCast(second, to: __m256i.self))
  let (power0, power1) = (unsafeBitCast(up, to: __m256i.self), unsafeBitCast(upper, to: __m256i.self))
  let down = _mm_cvtsi32_si128(Int32(truncatingIfNeeded: 16 - bits))
  // The last units are loaded through a mask: the tensor may end at a page border.
  let words = tailMask(bits)
  // 1 for even elements, 16 for odd ones; then the low quarters of both halves.
  let pairs = _mm256_set1_epi16(0x1001)
  let quarters = _mm256_set_epi32(7, 6, 3, 2, 5, 4, 1, 0)

  for unit in 0..<count / 32 {
    let source = packed + 4 * bits * unit
    let isWhole = 4 * bits * (count / 32 - unit) >= 32
    let dwords =
      isWhole ? loadBytes(source) : _mm256_maskload_epi32(source.assumingMemoryBound(to: Int32.self), words)
    let halves = _mm256_permutevar8x32_epi32(dwords, places)
    let low = _mm256_srl_epi16(_mm256_mullo_epi16(_mm256_shuffle_epi8(halves, shuffle0), power0), down)
    let high = _mm256_srl_epi16(_mm256_mullo_epi16(_mm256_shuffle_epi8(halves, shuffle1), power1), down)
    let bytes = _mm256_packus_epi16(low, high)
    if bits > 4 {
      storeBytes(bytes, out + 32 * unit)
    } else {
      let nibbles = _mm256_maddubs_epi16(bytes, pairs)
      let packed = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(nibbles, nibbles), quarters)
      (out + 16 * unit).storeBytes(of: packed.lowHalf, as: SIMD2<Int64>.self)
    }
  }
}
