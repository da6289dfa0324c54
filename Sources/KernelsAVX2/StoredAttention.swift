// Attention of one position over keys and values stored as f16 or int8, widened in registers.
//
// A decode step reads every key and value once for a handful of query rows: writing them out as float32 first costs
// more than the products. The operations of one element and their order are those of widening and then calling
// `attentionScores` and `attentionAccumulate`: the same bits.
//
// The processor's own prefetching stops at the borders of pages and does not follow the strides in which values are
// read, so with the keys of a block its values are asked for in order, and with the values the keys of the next block.

import _Builtin_intrinsics.intel

/// Eight stored elements as float32.
@inline(__always)
private func stored(_ base: UnsafeRawPointer, _ index: Int, _ isHalf: Bool) -> __m256 {
  if isHalf { return widen(base + 2 * index, 1) }
  let eight = (base + index).loadUnaligned(as: Int64.self)
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_cvtsi64_si128(eight)))
}

/// `out[r · 32 + j] = Σ q[r][d] · keys[d][j]` for f16 keys; see Compute's KernelTable.ScoresStored.
package func attentionScoresHalf(
  queries: UnsafePointer<Float>, queryStride: Int, queryRows: Int, keys: UnsafeRawPointer, headDim: Int,
  ahead: UnsafeRawPointer, out: UnsafeMutablePointer<Float>
) { scores(queries, queryStride, queryRows, keys, headDim, true, ahead, out) }

/// As `attentionScoresHalf` for int8 keys; their scales are left to the caller.
package func attentionScoresInt8(
  queries: UnsafePointer<Float>, queryStride: Int, queryRows: Int, keys: UnsafeRawPointer, headDim: Int,
  ahead: UnsafeRawPointer, out: UnsafeMutablePointer<Float>
) { scores(queries, queryStride, queryRows, keys, headDim, false, ahead, out) }

@inline(__always)
private func scores(
  _ queries: UnsafePointer<Float>, _ queryStride: Int, _ queryRows: Int, _ keys: UnsafeRawPointer,
  _ headDim: Int, _ isHalf: Bool, _ ahead: UnsafeRawPointer, _ out: UnsafeMutablePointer<Float>
) {
  let zero = _mm256_setzero_ps()
  var r = 0
  while r < queryRows {
    // The last row of an odd number is computed twice and stored once.
    let isPair = r + 1 < queryRows
    let (q, p) = (queries + r * queryStride, queries + (isPair ? r + 1 : r) * queryStride)
    var (a0, b0, c0, e0) = (zero, zero, zero, zero)
    var (a1, b1, c1, e1) = (zero, zero, zero, zero)
    let target = out + 32 * r
    for d in 0..<headDim {
      if r == 0 { prefetch(ahead + (isHalf ? 64 : 32) * d) }
      let (s, t) = (_mm256_set1_ps(q[d]), _mm256_set1_ps(p[d]))
      let (k0, k1) = (stored(keys, 32 * d, isHalf), stored(keys, 32 * d + 8, isHalf))
      a0 = _mm256_fmadd_ps(s, k0, a0)
      a1 = _mm256_fmadd_ps(t, k0, a1)
      b0 = _mm256_fmadd_ps(s, k1, b0)
      b1 = _mm256_fmadd_ps(t, k1, b1)
      let (k2, k3) = (stored(keys, 32 * d + 16, isHalf), stored(keys, 32 * d + 24, isHalf))
      c0 = _mm256_fmadd_ps(s, k2, c0)
      c1 = _mm256_fmadd_ps(t, k2, c1)
      e0 = _mm256_fmadd_ps(s, k3, e0)
      e1 = _mm256_fmadd_ps(t, k3, e1)
    }
    _mm256_storeu_ps(target, a0)
    _mm256_storeu_ps(target + 8, b0)
    _mm256_storeu_ps(target + 16, c0)
    _mm256_storeu_ps(target + 24, e0)
    if isPair {
      _mm256_storeu_ps(target + 32, a1)
      _mm256_storeu_ps(target + 40, b1)
      _mm256_storeu_ps(target + 48, c1)
      _mm256_storeu_ps(target + 56, e1)
    }
    r += 2
  }
}

/// `out[r] = factors[r] · out[r] + Σ weights[r][j] · values[j]` for f16 values; see Compute's
/// KernelTable.AccumulateStored.
package func attentionAccumulateHalf(
  weights: UnsafePointer<Float>, rows: Int, from: Int, to: Int, values: UnsafeRawPointer, headDim: Int,
  factors: UnsafePointer<Float>, ahead: UnsafeRawPointer, out: UnsafeMutablePointer<Float>
) { accumulate(weights, rows, from, to, values, headDim, true, factors, ahead, out) }

/// As `attentionAccumulateHalf` for int8 values; their scales are in the weights.
package func attentionAccumulateInt8(
  weights: UnsafePointer<Float>, rows: Int, from: Int, to: Int, values: UnsafeRawPointer, headDim: Int,
  factors: UnsafePointer<Float>, ahead: UnsafeRawPointer, out: UnsafeMutablePointer<Float>
) { accumulate(weights, rows, from, to, values, headDim, false, factors, ahead, out) }

@inline(__always)
private func accumulate(
  _ weights: UnsafePointer<Float>, _ rows: Int, _ from: Int, _ to: Int, _ values: UnsafeRawPointer,
  _ headDim: Int, _ isHalf: Bool, _ factors: UnsafePointer<Float>, _ ahead: UnsafeRawPointer,
  _ out: UnsafeMutablePointer<Float>
) {
  var r = 0
  while r < rows {
    let other = r + 1 < rows ? r + 1 : r
    let (x, y) = (out + r * headDim, out + other * headDim)
    let (u, v) = (weights + 32 * r, weights + 32 * other)
    let (f, g) = (_mm256_set1_ps(factors[r]), _mm256_set1_ps(factors[other]))
    var d = 0
    while d + 32 <= headDim {
      var (a0, b0) = (_mm256_mul_ps(load(x, d), f), _mm256_mul_ps(load(x, d + 8), f))
      var (c0, e0) = (_mm256_mul_ps(load(x, d + 16), f), _mm256_mul_ps(load(x, d + 24), f))
      var (a1, b1) = (_mm256_mul_ps(load(y, d), g), _mm256_mul_ps(load(y, d + 8), g))
      var (c1, e1) = (_mm256_mul_ps(load(y, d + 16), g), _mm256_mul_ps(load(y, d + 24), g))
      for j in from..<to {
        if r == 0 { prefetch(ahead + (isHalf ? 2 : 1) * (32 * d + 32 * j)) }
        let (s, t) = (_mm256_set1_ps(u[j]), _mm256_set1_ps(v[j]))
        let at = j * headDim + d
        let (k0, k1) = (stored(values, at, isHalf), stored(values, at + 8, isHalf))
        a0 = _mm256_fmadd_ps(s, k0, a0)
        a1 = _mm256_fmadd_ps(t, k0, a1)
        b0 = _mm256_fmadd_ps(s, k1, b0)
        b1 = _mm256_fmadd_ps(t, k1, b1)
        let (k2, k3) = (stored(values, at + 16, isHalf), stored(values, at + 24, isHalf))
        c0 = _mm256_fmadd_ps(s, k2, c0)
        c1 = _mm256_fmadd_ps(t, k2, c1)
        e0 = _mm256_fmadd_ps(s, k3, e0)
        e1 = _mm256_fmadd_ps(t, k3, e1)
      }
      _mm256_storeu_ps(x + d, a0)
      _mm256_storeu_ps(x + d + 8, b0)
      _mm256_storeu_ps(x + d + 16, c0)
      _mm256_storeu_ps(x + d + 24, e0)
      if other != r {
        _mm256_storeu_ps(y + d, a1)
        _mm256_storeu_ps(y + d + 8, b1)
        _mm256_storeu_ps(y + d + 16, c1)
        _mm256_storeu_ps(y + d + 24, e1)
      }
      d += 32
    }
    r += 2
  }
}
