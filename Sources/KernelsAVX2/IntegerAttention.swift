// Attention over a cache's int16 or int8 keys and values in AVX2; `Compute/Kernels/IntegerAttention` has the method and the
// scalar twins.
//
// `VPMADDWD` and an addition are two products of each of eight sums, where a multiply-add of floats is one.
//
// The processor's own prefetching stops at the borders of pages and does not follow the strides in which values are
// read, so with the keys of a block its values are prefetched in order, and with the values the keys of the next block.

package import KernelTypes
import _Builtin_intrinsics.intel

/// Rounds `count` floats to `x ≈ scale · out` with `|out| <= limit`; `out` has room for an even count, and zero after an odd
/// one. Scalar twin: `IntegerAttention.quantized`.
///
/// - Returns: the scale.
package func quantizeInt16(
  _ x: UnsafePointer<Float>, _ count: Int, _ limit: Float, into out: UnsafeMutablePointer<Int16>
) -> Float {
  var largest = _mm256_setzero_si256()
  var i = 0
  while i < count {
    largest = _mm256_max_epi32(largest, magnitude(loadTail(x, i, count - i)))
    i += 8
  }
  let top = maximum(largest)
  let inverse = _mm256_set1_ps(inverseScale(limit, top))
  i = 0
  while i < count {
    let eight = unsafeBitCast(rounded(loadTail(x, i, count - i), inverse), to: SIMD8<Int16>.self)
    if i + 8 <= count {
      UnsafeMutableRawPointer(out + i).storeBytes(of: eight, as: SIMD8<Int16>.self)
    } else {
      for j in i..<count + count % 2 { out[j] = eight[j - i] }
    }
    i += 8
  }
  return top * (1 / limit)
}

/// The bits of absolute values, which are ordered as those are, with NaN above all.
@inline(__always)
private func magnitude(_ x: __m256) -> __m256i {
  _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7FFF_FFFF))
}

@inline(__always)
private func maximum(_ magnitudes: __m256i) -> Float {
  let four = unsafeBitCast(_mm_max_epi32(magnitudes.lowHalf, magnitudes.highHalf), to: SIMD4<UInt32>.self)
  let (x, y) = (four[0] > four[2] ? four[0] : four[2], four[1] > four[3] ? four[1] : four[3])
  return Float(bitPattern: x > y ? x : y)
}

/// To the nearest integer; what has none becomes zero.
@inline(__always)
private func rounded(_ x: __m256, _ inverse: __m256) -> __m128i {
  // What has none is 0x80000000, whose low half survives the shifts, and no saturation.
  let q = _mm256_srai_epi32(_mm256_slli_epi32(_mm256_cvtps_epi32(_mm256_mul_ps(x, inverse)), 16), 16)
  return _mm_packs_epi32(q.lowHalf, q.highHalf)
}

/// One step of the running softmax, row by row, and the rounding of the weights times their values' scales. Scalar twin:
/// `IntegerAttention.scalar`.
package func attentionSoftmaxInt16(_ rows: AttentionRows, _ valueScales: UnsafePointer<Float>) {
  let (from, to) = (rows.seen.lowerBound, rows.seen.upperBound)
  for r in 0..<rows.count {
    let row = rows.scores + blockTokens * r
    rows.factors[r] = attentionSoftmax(row, rows.seen, rows.states + 2 * r)
    /// Hidden weights are zero, but their scales may be anything.
    @inline(__always)
    func scaled(_ at: Int) -> __m256 {
      let seen = _mm256_andnot_si256(tailMask(from - at), tailMask(to - at))
      return _mm256_mul_ps(load(row, at), _mm256_maskload_ps(valueScales + at, seen))
    }
    let (a, b, c, d) = (scaled(0), scaled(8), scaled(16), scaled(24))
    let top = maximum(
      _mm256_max_epi32(
        _mm256_max_epi32(magnitude(a), magnitude(b)), _mm256_max_epi32(magnitude(c), magnitude(d))))
    let inverse = _mm256_set1_ps(inverseScale(IntegerLimit.weight, top))
    let target = UnsafeMutableRawPointer(row).assumingMemoryBound(to: __m128i.self)
    _mm_storeu_si128(target, rounded(a, inverse))
    _mm_storeu_si128(target + 1, rounded(b, inverse))
    _mm_storeu_si128(target + 2, rounded(c, inverse))
    _mm_storeu_si128(target + 3, rounded(d, inverse))
    rows.weightScales[r] = top * (1 / IntegerLimit.weight)
  }
}

/// Pairs of stored integers that are multiplied with a pair of each row.
private typealias Pairs = (
  base: UnsafeRawPointer, element: StoredInteger, from: Int, to: Int, stride: Int, ahead: UnsafeRawPointer?
)

/// `Σ rows[r][k] · stored[k][0 ..< 32]` of two rows over the pairs k in `from ..< to`, `stride` apart. As many bytes as are
/// read are prefetched at `ahead`. A row's sums are four registers, those of the first row before those of the second.
@inline(__always)
private func products(of first: UnsafeRawPointer, _ second: UnsafeRawPointer, _ stored: Pairs)
  -> IntegerRegisters
{
  let pairBytes = 2 * stored.element.bytes
  /// Eight pairs of int16.
  @inline(__always)
  func pairs(_ source: UnsafeRawPointer) -> __m256i {
    switch stored.element {
    case .int8: _mm256_cvtepi8_epi16(_mm_loadu_si128(source.assumingMemoryBound(to: __m128i.self)))
    case .int16: loadBytes(source)
    }
  }
  @inline(__always)
  func pair(_ row: UnsafeRawPointer, _ k: Int) -> __m256i {
    _mm256_set1_epi32((row + 4 * k).loadUnaligned(as: Int32.self))
  }
  var sums = registers(of: _mm256_setzero_si256())
  var k = stored.from
  while k < stored.to {
    let base = stored.base + k * stored.stride * pairBytes
    if let ahead = stored.ahead {
      let line = ahead + k * blockTokens * pairBytes
      prefetchFar(line)
      if pairBytes == 4 { prefetchFar(line + 64) }
    }
    let (x, y) = (pair(first, k), pair(second, k))
    for i in 0..<4 {
      let stored = pairs(base + 8 * i * pairBytes)
      set(&sums, i, _mm256_add_epi32(get(&sums, i), _mm256_madd_epi16(stored, x)))
      set(&sums, i + 4, _mm256_add_epi32(get(&sums, i + 4), _mm256_madd_epi16(stored, y)))
    }
    k += 1
  }
  return sums
}

@inline(__always)
func scores(
  _ all: IntegerQueries, _ block: IntegerBlock, _ element: StoredInteger, _ out: UnsafeMutablePointer<Float>
) {
  let (queries, stride, count, queryScales) = (all.base, all.stride, all.count, all.scales)
  let (keys, keyScales, headDim, ahead) = (block.base, block.scales, block.headDim, block.ahead)
  // The scales of the values stand after those of the keys.
  for line in 0..<4 { prefetch(keyScales + 16 * line) }
  var r = 0
  while r < count {
    // Of an odd number the last row is computed twice.
    let second = r + 1 < count ? r + 1 : r
    var first = 0
    while first < headDim {
      let end = first + IntegerLimit.products < headDim ? first + IntegerLimit.products : headDim
      @inline(__always)
      func finish(_ row: Int, _ eight: __m256i, _ at: Int) {
        var sum = _mm256_cvtepi32_ps(eight)
        if first > 0 { sum = _mm256_add_ps(load(out, blockTokens * row + at), sum) }
        if end == headDim {
          sum = _mm256_mul_ps(_mm256_mul_ps(sum, _mm256_set1_ps(queryScales[row])), load(keyScales, at))
        }
        _mm256_storeu_ps(out + blockTokens * row + at, sum)
      }
      var sums = products(
        of: queries + r * stride, queries + second * stride,
        (keys, element, first / 2, (end + 1) / 2, blockTokens, r == 0 ? ahead : nil))
      for i in 0..<4 { finish(r, get(&sums, i), 8 * i) }
      if second > r { for i in 0..<4 { finish(second, get(&sums, i + 4), 8 * i) } }
      first = end
    }
    r += 2
  }
}

@inline(__always)
func accumulate(_ all: AttentionRows, _ block: IntegerBlock, _ element: StoredInteger) {
  let (weights, weightScales, factors, out) = (all.scores, all.weightScales, all.factors, all.sums)
  let (values, headDim, count) = (block.base, block.headDim, all.count)
  let (first, end) = (all.seen.lowerBound / 2, (all.seen.upperBound + 1) / 2)
  var r = 0
  while r < count {
    let second = r + 1 < count ? r + 1 : r
    var d = 0
    while d < headDim {
      @inline(__always)
      func finish(_ row: Int, _ eight: __m256i, _ at: Int) {
        let rest = headDim - d - at
        guard rest > 0 else { return }
        let target = out + row * headDim + d + at
        let scaled = _mm256_mul_ps(_mm256_cvtepi32_ps(eight), _mm256_set1_ps(weightScales[row]))
        let factor = _mm256_set1_ps(factors[row])
        if rest >= 8 {
          _mm256_storeu_ps(target, _mm256_add_ps(_mm256_mul_ps(load(target, 0), factor), scaled))
        } else {
          let sum = _mm256_add_ps(_mm256_mul_ps(loadTail(target, 0, rest), factor), scaled)
          _mm256_maskstore_ps(target, tailMask(rest), sum)
        }
      }
      // After the values of a block are its scales: whole vectors may be read.
      let offset = 2 * element.bytes * d
      var sums = products(
        of: weights + blockTokens * r, weights + blockTokens * second,
        (values + offset, element, first, end, headDim, r == 0 ? block.ahead + 16 * offset : nil))
      for i in 0..<4 { finish(r, get(&sums, i), 8 * i) }
      if second > r { for i in 0..<4 { finish(second, get(&sums, i + 4), 8 * i) } }
      d += 32
    }
    r += 2
  }
}
