// Weights kept as panels of sixteen outputs, in the order of KernelsAVX512's Int8Interleaved, in halves of eight outputs.
//
// In order of the activations, the weights of a block are block / 4 pieces of 64 bytes, four of each output. A plane of b
// bits packs them into n = block / 4 · b / 8 pieces: bits b·k ..< b·k + b of the bytes of piece i are those of piece
// i + n·k (PanelMaking has the planes of a width).

import KernelTypes
import _Builtin_intrinsics.intel

@inline(__always)
func loadBytes(_ base: UnsafeRawPointer) -> __m256i {
  _mm256_loadu_si256(base.assumingMemoryBound(to: __m256i.self))
}

@inline(__always)
func storeBytes(_ value: __m256i, _ base: UnsafeMutableRawPointer) {
  _mm256_storeu_si256(base.assumingMemoryBound(to: __m256i.self), value)
}

/// Rows of nibbles or bytes side by side, four bytes of each after the other: 64 bytes for all outputs.
@inline(never)
func interleaveRows(_ weights: QuantizedRows, _ bits: Int, into out: UnsafeMutableRawPointer) {
  let last = weights.count - 1
  for unit in 0..<weights.rowBytes / 16 {
    for half in 0..<2 {
      @inline(__always)
      func sixteen(_ i: Int) -> __m128i {
        let row = weights.packed + min(8 * half + i, last) * weights.rowBytes + 16 * unit
        return _mm_loadu_si128(row.assumingMemoryBound(to: __m128i.self))
      }
      // Rows i and i + 4 side by side: nothing changes its half.
      @inline(__always)
      func pair(_ i: Int) -> __m256i { __m256i(lowHalf: sixteen(i), highHalf: sixteen(i + 4)) }
      let (r0, r1, r2, r3) = (pair(0), pair(1), pair(2), pair(3))
      let (a0, a1) = (_mm256_unpacklo_epi32(r0, r1), _mm256_unpackhi_epi32(r0, r1))
      let (a2, a3) = (_mm256_unpacklo_epi32(r2, r3), _mm256_unpackhi_epi32(r2, r3))
      let target = out + 256 * unit + 32 * half
      storeBytes(_mm256_unpacklo_epi64(a0, a2), target)
      storeBytes(_mm256_unpackhi_epi64(a0, a2), target + 64)
      storeBytes(_mm256_unpacklo_epi64(a1, a3), target + 128)
      storeBytes(_mm256_unpackhi_epi64(a1, a3), target + 192)
    }
  }
}

/// As `factors`, for what both levels of x86 share.
@inline(__always)
func sixteenFactors(
  _ head: UnsafeRawPointer, _ group: Int, _ kind: PanelFactors, _ bits: Int
) -> (scales: SIMD16<Float>, biases: SIMD16<Float>) {
  let (scales, biases) = factors(head, group, kind, bits)
  return (
    SIMD16(lowHalf: scales.0, highHalf: scales.1), SIMD16(lowHalf: biases.0, highHalf: biases.1)
  )
}

// MARK: Planes

@inline(__always)
private func mask(_ width: Int) -> __m256i {
  _mm256_set1_epi32(Int32(truncatingIfNeeded: 0x0101_0101 * (1 << width - 1)))
}

@inline(__always)
private func right(_ words: __m256i, _ bits: Int) -> __m256i {
  _mm256_srl_epi32(words, _mm_cvtsi64_si128(Int64(bits)))
}

@inline(__always)
func left(_ words: __m256i, _ bits: Int) -> __m256i {
  _mm256_sll_epi32(words, _mm_cvtsi64_si128(Int64(bits)))
}

/// What half of piece `i` of a block's bytes has in a plane.
@inline(__always)
func field(_ plane: UnsafeRawPointer, _ width: Int, _ block: Int, _ i: Int, _ half: Int) -> __m256i {
  let pieces = block * width / 32
  let words = loadBytes(plane + 64 * (i % pieces) + 32 * half)
  return _mm256_and_si256(right(words, width * (i / pieces)), mask(width))
}

/// - Parameter source: the pieces of a block, of nibbles or bytes (`whole` bits).
@inline(never)
func writePlanes(
  _ source: UnsafeRawPointer, _ block: Int, _ whole: Int, low: Int, high: Int,
  _ out: UnsafeMutableRawPointer
) {
  @inline(__always)
  func write(_ width: Int, _ shift: Int, _ target: UnsafeMutableRawPointer) {
    let pieces = block * width / 32
    for i in 0..<pieces {
      for half in 0..<2 {
        var words = _mm256_setzero_si256()
        for k in 0..<8 / width {
          let bytes = field(source, whole, block, i + pieces * k, half)
          let part = _mm256_and_si256(right(bytes, shift), mask(width))
          words = _mm256_or_si256(words, left(part, width * k))
        }
        storeBytes(words, target + 64 * i + 32 * half)
      }
    }
  }
  write(low, 0, out)
  if high > 0 { write(high, low, out + blockBytes(block, low)) }
}

/// A block of narrow planes as bytes.
@inline(never)
func unpackPlanes(
  _ source: UnsafeRawPointer, _ block: Int, low: Int, high: Int, _ out: UnsafeMutableRawPointer
) {
  for i in 0..<block / 4 {
    for half in 0..<2 {
      var bytes = field(source, low, block, i, half)
      if high > 0 {
        let upper = field(source + blockBytes(block, low), high, block, i, half)
        bytes = _mm256_or_si256(bytes, left(upper, low))
      }
      storeBytes(bytes, out + 64 * i + 32 * half)
    }
  }
}
