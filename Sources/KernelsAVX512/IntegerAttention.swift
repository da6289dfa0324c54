// Attention over a cache's int16 or int8 keys and values in AVX-512; `Compute/Kernels/IntegerAttention` has the method and
// the scalar twins.
//
// `VPDPWSSD` adds two products to each of sixteen sums, as many per cycle as a multiply-add of floats adds one.

package import KernelTypes
import _Builtin_intrinsics.intel

/// Rounds `count` floats to `x ≈ scale · out` with `|out| <= limit`; `out` has room for an even count, and zero after an odd
/// one. Scalar twin: `IntegerAttention.quantized`.
///
/// - Returns: the scale.
package func quantizeInt16(
  _ x: UnsafePointer<Float>, _ count: Int, _ limit: Float, into out: UnsafeMutablePointer<Int16>
) -> Float {
  var largest = _mm512_setzero_si512()
  var i = 0
  while i < count {
    largest = _mm512_max_epi32(largest, magnitude(load(x, i, tailMask(min(16, count - i)))))
    i += 16
  }
  let top = maximum(largest)
  let inverse = _mm512_set1_ps(inverseScale(limit, top))
  let even = count + count % 2
  i = 0
  while i < count {
    let sixteen = load(x, i, tailMask(min(16, count - i)))
    _mm256_mask_storeu_epi16(out + i, tailMask(min(16, even - i)), rounded(sixteen, inverse))
    i += 16
  }
  return top * (1 / limit)
}

/// The bits of absolute values, which are ordered as those are, with NaN above all.
@inline(__always)
private func magnitude(_ x: __m512) -> __m512i { _mm512_castps_si512(_mm512_abs_ps(x)) }

@inline(__always)
private func maximum(_ magnitudes: __m512i) -> Float {
  let eight = _mm256_max_epi32(magnitudes.lowHalf, magnitudes.highHalf)
  let four = unsafeBitCast(_mm_max_epi32(eight.lowHalf, eight.highHalf), to: SIMD4<UInt32>.self)
  let (x, y) = (four[0] > four[2] ? four[0] : four[2], four[1] > four[3] ? four[1] : four[3])
  return Float(bitPattern: x > y ? x : y)
}

/// To the nearest integer; what has none becomes zero, the low half of 0x80000000.
@inline(__always)
private func rounded(_ x: __m512, _ inverse: __m512) -> __m256i {
  _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(_mm512_mul_ps(x, inverse)))
}

/// What four rows are multiplied with, in pairs; of two rows the last two are not looked at.
private typealias FourRows = (UnsafeRawPointer, UnsafeRawPointer, UnsafeRawPointer, UnsafeRawPointer)

/// Pairs of stored integers that are multiplied with a pair of each row.
private typealias Pairs = (
  base: UnsafeRawPointer, element: StoredInteger, from: Int, to: Int, stride: Int, ahead: UnsafeRawPointer?
)

/// `Σ rows[r][k] · stored[k][0 ..< 32]` over the pairs k in `from ..< to`, `stride` apart, of four rows or of two. Rows share
/// each vector that is loaded: a cycle has room for one such load and one multiply-add. As many bytes as are read are
/// prefetched at `ahead`. A row's sums are two registers.
@inline(__always)
private func products(of rows: FourRows, isFour: Bool, _ stored: Pairs) -> IntegerRegisters {
  let pairBytes = 2 * stored.element.bytes
  /// Sixteen pairs of int16.
  @inline(__always)
  func pairs(_ source: UnsafeRawPointer) -> __m512i {
    switch stored.element {
    case .int8: _mm512_cvtepi8_epi16(_mm256_loadu_si256(source.assumingMemoryBound(to: __m256i.self)))
    case .int16: _mm512_loadu_si512(source)
    }
  }
  var sums = registers(of: _mm512_setzero_si512())
  var k = stored.from
  while k < stored.to {
    let at = k * stored.stride * pairBytes
    if let ahead = stored.ahead {
      let line = ahead + k * blockTokens * pairBytes
      prefetchFar(line)
      if pairBytes == 4 { prefetchFar(line + 64) }
    }
    let (low, high) = (pairs(stored.base + at), pairs(stored.base + at + 16 * pairBytes))
    @inline(__always)
    func add(_ row: UnsafeRawPointer, _ r: Int) {
      let pair = _mm512_set1_epi32((row + 4 * k).loadUnaligned(as: Int32.self))
      set(&sums, 2 * r, _mm512_dpwssd_epi32(get(&sums, 2 * r), low, pair))
      set(&sums, 2 * r + 1, _mm512_dpwssd_epi32(get(&sums, 2 * r + 1), high, pair))
    }
    add(rows.0, 0)
    add(rows.1, 1)
    if isFour {
      add(rows.2, 2)
      add(rows.3, 3)
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
    let (isFour, second) = (r + 4 <= count, r + 1 < count ? r + 1 : r)
    let rows: FourRows = (
      UnsafeRawPointer(queries + r * stride), UnsafeRawPointer(queries + second * stride),
      UnsafeRawPointer(queries + (r + 2) * stride), UnsafeRawPointer(queries + (r + 3) * stride)
    )
    var first = 0
    while first < headDim {
      let end = first + IntegerLimit.products < headDim ? first + IntegerLimit.products : headDim
      @inline(__always)
      func finish(_ row: Int, _ low: __m512i, _ high: __m512i) {
        let target = out + blockTokens * row
        var (a, b) = (_mm512_cvtepi32_ps(low), _mm512_cvtepi32_ps(high))
        if first > 0 { (a, b) = (_mm512_add_ps(load(target, 0), a), _mm512_add_ps(load(target, 16), b)) }
        if end == headDim {
          let scale = _mm512_set1_ps(queryScales[row])
          a = _mm512_mul_ps(_mm512_mul_ps(a, scale), load(keyScales, 0))
          b = _mm512_mul_ps(_mm512_mul_ps(b, scale), load(keyScales, 16))
        }
        _mm512_storeu_ps(target, a)
        _mm512_storeu_ps(target + 16, b)
      }
      let pairs: Pairs = (keys, element, first / 2, (end + 1) / 2, blockTokens, r == 0 ? ahead : nil)
      if isFour {
        var sums = products(of: rows, isFour: true, pairs)
        finish(r, get(&sums, 0), get(&sums, 1))
        finish(second, get(&sums, 2), get(&sums, 3))
        finish(r + 2, get(&sums, 4), get(&sums, 5))
        finish(r + 3, get(&sums, 6), get(&sums, 7))
      } else {
        var sums = products(of: rows, isFour: false, pairs)
        finish(r, get(&sums, 0), get(&sums, 1))
        if second > r { finish(second, get(&sums, 2), get(&sums, 3)) }
      }
      first = end
    }
    r += isFour ? 4 : 2
  }
}

/// One step of the running softmax, of four rows at a time, and the rounding of the weights times their values' scales.
/// Scalar twin: `IntegerAttention.scalar`.
package func attentionSoftmaxInt16(_ rows: AttentionRows, _ valueScales: UnsafePointer<Float>) {
  let seen = (1 << rows.seen.upperBound) - (1 << rows.seen.lowerBound)
  let (low, high) = (__mmask16(truncatingIfNeeded: seen), __mmask16(truncatingIfNeeded: seen >> 16))
  let scales = (load(valueScales, 0, low), load(valueScales, 16, high))
  let last = rows.count - 1
  var r = 0
  while r < rows.count {
    // Missing rows are the last one again: all is loaded before anything is stored.
    let indices = SIMD4(
      r, r + 1 < last ? r + 1 : last, r + 2 < last ? r + 2 : last, r + 3 < last ? r + 3 : last)
    if r + 2 < rows.count {
      softmax(rows, indices, isFour: true, (low, high), scales)
    } else {
      softmax(rows, indices, isFour: false, (low, high), scales)
    }
    r += 4
  }
}

/// The 32 scores or weights of a row.
private typealias Row = (__m512, __m512)

/// The step of four rows, of which the first two alone are computed where the others are the second one.
@inline(__always)
private func softmax(
  _ all: AttentionRows, _ rows: SIMD4<Int>, isFour: Bool, _ seen: (low: __mmask16, high: __mmask16),
  _ valueScales: Row
) {
  let (scores, states, factors) = (all.scores, all.states, all.factors)
  @inline(__always)
  func row(_ lane: Int) -> Row {
    let (row, hidden) = (scores + blockTokens * rows[lane], _mm512_set1_ps(-.infinity))
    return (_mm512_mask_loadu_ps(hidden, seen.low, row), _mm512_mask_loadu_ps(hidden, seen.high, row + 16))
  }
  let (s0, s1) = (row(0), row(1))
  let (s2, s3) = isFour ? (row(2), row(3)) : (s1, s1)
  @inline(__always)
  func largest(_ s: Row) -> __m128 {
    let eight = _mm512_max_ps(s.0, s.1)
    let four = _mm256_max_ps(eight.lowHalf, eight.highHalf)
    return _mm_max_ps(four.lowHalf, four.highHalf)
  }
  @inline(__always)
  func state(_ at: Int) -> SIMD4<Float> {
    SIMD4(
      states[2 * rows[0] + at], states[2 * rows[1] + at], states[2 * rows[2] + at], states[2 * rows[3] + at])
  }
  let before = state(0)
  let top = _mm_max_ps(before, merged(largest(s0), largest(s1), largest(s2), largest(s3), _mm_max_ps))
  // A first block whose scores are all -infinity would make NaN of -inf - -inf.
  let base = top.replacing(with: 0, where: top .== -.infinity)

  @inline(__always)
  func weights(_ s: Row, _ base: Float) -> Row {
    let base = _mm512_set1_ps(base)
    return (exponential(_mm512_sub_ps(s.0, base)), exponential(_mm512_sub_ps(s.1, base)))
  }
  let (e0, e1) = (weights(s0, base[0]), weights(s1, base[1]))
  let (e2, e3) = isFour ? (weights(s2, base[2]), weights(s3, base[3])) : (e1, e1)
  // Most blocks do not raise a maximum, and e^0 is 1.
  var factor = SIMD4<Float>(repeating: 1)
  if any(before .!= top) || any(top .== -.infinity) {
    factor = exponential(_mm512_castps128_ps512(before - base)).lowHalf.lowHalf
  }
  @inline(__always)
  func total(_ e: Row) -> __m128 {
    let eight = (e.0.lowHalf + e.0.highHalf) + (e.1.lowHalf + e.1.highHalf)
    return eight.lowHalf + eight.highHalf
  }
  let sum = state(1) * factor + merged(total(e0), total(e1), total(e2), total(e3), _mm_add_ps)

  @inline(__always)
  func scaled(_ e: Row) -> Row { (_mm512_mul_ps(e.0, valueScales.0), _mm512_mul_ps(e.1, valueScales.1)) }
  let (w0, w1, w2, w3) = (scaled(e0), scaled(e1), scaled(e2), scaled(e3))
  @inline(__always)
  func size(_ w: Row) -> __m128 {
    let sixteen = _mm512_max_epi32(magnitude(w.0), magnitude(w.1))
    let eight = _mm256_max_epi32(sixteen.lowHalf, sixteen.highHalf)
    return _mm_castsi128_ps(_mm_max_epi32(eight.lowHalf, eight.highHalf))
  }
  let sizes = merged(size(w0), size(w1), size(w2), size(w3)) {
    _mm_castsi128_ps(_mm_max_epi32(_mm_castps_si128($0), _mm_castps_si128($1)))
  }
  let inverse = (IntegerLimit.weight / sizes).replacing(
    with: 0, where: .!((sizes .>= 0x1p-100) .& (sizes .< .infinity)))
  let scale = sizes * (1 / IntegerLimit.weight)
  @inline(__always)
  func store(_ lane: Int, _ w: Row) {
    let (r, inverse) = (rows[lane], _mm512_set1_ps(inverse[lane]))
    let target = UnsafeMutableRawPointer(scores + blockTokens * r).assumingMemoryBound(to: __m256i.self)
    _mm256_storeu_si256(target, rounded(w.0, inverse))
    _mm256_storeu_si256(target + 1, rounded(w.1, inverse))
    states[2 * r] = top[lane]
    states[2 * r + 1] = sum[lane]
    factors[r] = factor[lane]
    all.weightScales[r] = scale[lane]
  }
  store(0, w0)
  store(1, w1)
  guard isFour else { return }
  store(2, w2)
  store(3, w3)
}

/// The four lanes of each of four vectors as one, always in the same tree.
@inline(__always)
private func merged(
  _ a: __m128, _ b: __m128, _ c: __m128, _ d: __m128, _ operation: (__m128, __m128) -> __m128
) -> __m128 {
  let ab = operation(_mm_unpacklo_ps(a, b), _mm_unpackhi_ps(a, b))
  let cd = operation(_mm_unpacklo_ps(c, d), _mm_unpackhi_ps(c, d))
  return operation(_mm_movelh_ps(ab, cd), _mm_movehl_ps(cd, ab))
}

@inline(__always)
func accumulate(_ all: AttentionRows, _ block: IntegerBlock, _ element: StoredInteger) {
  let (weights, weightScales, factors, out) = (all.scores, all.weightScales, all.factors, all.sums)
  let (values, headDim, count) = (block.base, block.headDim, all.count)
  let pairBytes = 2 * element.bytes
  let (first, end) = (all.seen.lowerBound / 2, (all.seen.upperBound + 1) / 2)
  var r = 0
  while r < count {
    // Of an odd number the last row is computed twice.
    let (isFour, second) = (r + 4 <= count, r + 1 < count ? r + 1 : r)
    @inline(__always)
    func row(_ i: Int) -> UnsafeRawPointer { UnsafeRawPointer(weights + blockTokens * i) }
    let rows: FourRows = (row(r), row(second), row(r + 2), row(r + 3))
    var d = 0
    while d < headDim {
      // After the values of a block are its scales: whole vectors may be read.
      let next = r == 0 ? block.ahead + 16 * pairBytes * d : nil
      let pairs: Pairs = (values + pairBytes * d, element, first, end, headDim, next)
      let width = headDim - d < 32 ? headDim - d : 32
      @inline(__always)
      func finish(_ i: Int, _ low: __m512i, _ high: __m512i) {
        let target = out + i * headDim + d
        let (lowMask, highMask) = (tailMask(width < 16 ? width : 16), tailMask(width < 16 ? 0 : width - 16))
        @inline(__always)
        func added(_ sums: __m512i, _ at: Int, _ mask: __mmask16) -> __m512 {
          let scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(sums), _mm512_set1_ps(weightScales[i]))
          return _mm512_add_ps(_mm512_mul_ps(load(target, at, mask), _mm512_set1_ps(factors[i])), scaled)
        }
        let (a, b) = (added(low, 0, lowMask), added(high, 16, highMask))
        if width == 32 {
          _mm512_storeu_ps(target, a)
          _mm512_storeu_ps(target + 16, b)
        } else {
          _mm512_mask_storeu_ps(target, lowMask, a)
          _mm512_mask_storeu_ps(target + 16, highMask, b)
        }
      }
      if isFour {
        var sums = products(of: rows, isFour: true, pairs)
        finish(r, get(&sums, 0), get(&sums, 1))
        finish(second, get(&sums, 2), get(&sums, 3))
        finish(r + 2, get(&sums, 4), get(&sums, 5))
        finish(r + 3, get(&sums, 6), get(&sums, 7))
      } else {
        var sums = products(of: rows, isFour: false, pairs)
        finish(r, get(&sums, 0), get(&sums, 1))
        if second > r { finish(second, get(&sums, 2), get(&sums, 3)) }
      }
      d += 32
    }
    r += isFour ? 4 : 2
  }
}
