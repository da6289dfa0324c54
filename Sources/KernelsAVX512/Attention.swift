// Attention in AVX-512: scores of a block of 32 keys, and the weighted sum of its values.

import _Builtin_intrinsics.intel

/// `out[r · 32 + j] = Σ q[r][d] · keys[d][j]`; see Compute's KernelTable.Scores.
package func attentionScores(
  queries: UnsafePointer<Float>, queryStride: Int, queryRows: Int, keys: UnsafePointer<Float>,
  headDim: Int, out: UnsafeMutablePointer<Float>
) {
  let zero = _mm512_setzero_ps()
  var r = 0
  while r + 4 <= queryRows {
    let none: Eight = (zero, zero, zero, zero, zero, zero, zero, zero)
    store(
      adding(none, queries + r * queryStride, queryStride, 0, headDim, keys, 32), out + 32 * r, 32)
    r += 4
  }
  while r < queryRows {
    let q = queries + r * queryStride
    var (a, b) = (zero, zero)
    for d in 0..<headDim {
      let s = _mm512_set1_ps(q[d])
      a = _mm512_fmadd_ps(s, load(keys, 32 * d), a)
      b = _mm512_fmadd_ps(s, load(keys, 32 * d + 16), b)
    }
    _mm512_storeu_ps(out + 32 * r, a)
    _mm512_storeu_ps(out + 32 * r + 16, b)
    r += 1
  }
}

/// `out[r] = factors[r] · out[r] + Σ weights[r][j] · values[j]`; see Compute's KernelTable.Accumulate.
package func attentionAccumulate(
  weights: UnsafePointer<Float>, rows: Int, from: Int, to: Int, values: UnsafePointer<Float>, headDim: Int,
  factors: UnsafePointer<Float>, out: UnsafeMutablePointer<Float>
) {
  var r = 0
  while r + 4 <= rows {
    fourRows(weights + 32 * r, from, to, values, headDim, factors + r, out + r * headDim)
    r += 4
  }
  while r < rows {
    oneRow(weights + 32 * r, from, to, values, headDim, 0, factors[r], out + r * headDim)
    r += 1
  }
}

/// Sums of four rows, two registers each; a tuple, since a struct would bring weak symbols.
private typealias Eight = (__m512, __m512, __m512, __m512, __m512, __m512, __m512, __m512)

/// `sums[r] + Σ rows[r][k] · base[k][0 ..< 32]` over k in `from ..< to`, in order; `rowStride` and `stride` apart. Four
/// rows share each vector that is loaded: a cycle has room for one such load and one multiply-add.
@inline(__always)
private func adding(
  _ sums: Eight, _ rows: UnsafePointer<Float>, _ rowStride: Int, _ from: Int, _ to: Int,
  _ base: UnsafePointer<Float>, _ stride: Int
) -> Eight {
  var (a0, b0, a1, b1, a2, b2, a3, b3) = sums
  let (r1, r2, r3) = (rows + rowStride, rows + 2 * rowStride, rows + 3 * rowStride)
  for k in from..<to {
    let (low, high) = (load(base, stride * k), load(base, stride * k + 16))
    let s0 = _mm512_set1_ps(rows[k])
    a0 = _mm512_fmadd_ps(s0, low, a0)
    b0 = _mm512_fmadd_ps(s0, high, b0)
    let s1 = _mm512_set1_ps(r1[k])
    a1 = _mm512_fmadd_ps(s1, low, a1)
    b1 = _mm512_fmadd_ps(s1, high, b1)
    let s2 = _mm512_set1_ps(r2[k])
    a2 = _mm512_fmadd_ps(s2, low, a2)
    b2 = _mm512_fmadd_ps(s2, high, b2)
    let s3 = _mm512_set1_ps(r3[k])
    a3 = _mm512_fmadd_ps(s3, low, a3)
    b3 = _mm512_fmadd_ps(s3, high, b3)
  }
  return (a0, b0, a1, b1, a2, b2, a3, b3)
}

@inline(__always)
private func store(_ sums: Eight, _ out: UnsafeMutablePointer<Float>, _ stride: Int) {
  _mm512_storeu_ps(out, sums.0)
  _mm512_storeu_ps(out + 16, sums.1)
  _mm512_storeu_ps(out + stride, sums.2)
  _mm512_storeu_ps(out + stride + 16, sums.3)
  _mm512_storeu_ps(out + 2 * stride, sums.4)
  _mm512_storeu_ps(out + 2 * stride + 16, sums.5)
  _mm512_storeu_ps(out + 3 * stride, sums.6)
  _mm512_storeu_ps(out + 3 * stride + 16, sums.7)
}

@inline(__always)
private func fourRows(
  _ weights: UnsafePointer<Float>, _ from: Int, _ to: Int, _ values: UnsafePointer<Float>, _ headDim: Int,
  _ factors: UnsafePointer<Float>, _ out: UnsafeMutablePointer<Float>
) {
  var d = 0
  while d + 32 <= headDim {
    @inline(__always)
    func scaled(_ r: Int, _ at: Int) -> __m512 {
      _mm512_mul_ps(load(out, r * headDim + d + at), _mm512_set1_ps(factors[r]))
    }
    let before: Eight = (
      scaled(0, 0), scaled(0, 16), scaled(1, 0), scaled(1, 16), scaled(2, 0), scaled(2, 16), scaled(3, 0),
      scaled(3, 16)
    )
    store(adding(before, weights, 32, from, to, values + d, headDim), out + d, headDim)
    d += 32
  }
  guard d < headDim else { return }
  for r in 0..<4 {
    oneRow(weights + 32 * r, from, to, values, headDim, d, factors[r], out + r * headDim)
  }
}

/// One row from element `first` on.
@inline(__always)
private func oneRow(
  _ weights: UnsafePointer<Float>, _ from: Int, _ to: Int, _ values: UnsafePointer<Float>, _ headDim: Int,
  _ first: Int, _ factor: Float, _ out: UnsafeMutablePointer<Float>
) {
  let scale = _mm512_set1_ps(factor)
  var d = first
  while d + 64 <= headDim {
    var t0 = _mm512_mul_ps(load(out, d), scale)
    var t1 = _mm512_mul_ps(load(out, d + 16), scale)
    var t2 = _mm512_mul_ps(load(out, d + 32), scale)
    var t3 = _mm512_mul_ps(load(out, d + 48), scale)
    for j in from..<to {
      let weight = _mm512_set1_ps(weights[j])
      let row = values + j * headDim
      t0 = _mm512_fmadd_ps(weight, load(row, d), t0)
      t1 = _mm512_fmadd_ps(weight, load(row, d + 16), t1)
      t2 = _mm512_fmadd_ps(weight, load(row, d + 32), t2)
      t3 = _mm512_fmadd_ps(weight, load(row, d + 48), t3)
    }
    _mm512_storeu_ps(out + d, t0)
    _mm512_storeu_ps(out + d + 16, t1)
    _mm512_storeu_ps(out + d + 32, t2)
    _mm512_storeu_ps(out + d + 48, t3)
    d += 64
  }
  while d < headDim {
    let mask = tailMask(min(16, headDim - d))
    var t = _mm512_mul_ps(load(out, d, mask), scale)
    for j in from..<to {
      t = _mm512_fmadd_ps(_mm512_set1_ps(weights[j]), load(values + j * headDim, d, mask), t)
    }
    _mm512_mask_storeu_ps(out + d, mask, t)
    d += 16
  }
}
