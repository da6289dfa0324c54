// Attention in AVX-512: scores of a block of 32 keys, and the weighted sum of its values.

package import KernelTypes
import _Builtin_intrinsics.intel

/// `out[r][j] = Σ q[r][d] · keys[d][j]` for the 32 keys of a block. Scalar twin: `Reference.scores`.
package func attentionScores(
  _ queries: Activations, _ keys: FloatBlock, into out: UnsafeMutablePointer<Float>
) {
  let (base, stride, headDim) = (queries.base, queries.stride, keys.headDim)
  let zero = _mm512_setzero_ps()
  var r = 0
  while r + 4 <= queries.count {
    let rows = fourRows(base + r * stride, stride)
    let none: EightSums = (zero, zero, zero, zero, zero, zero, zero, zero)
    store(adding(none, rows, 0, headDim, keys.base, blockTokens), out + blockTokens * r, blockTokens)
    r += 4
  }
  while r < queries.count {
    let q = base + r * stride
    var (a, b) = (zero, zero)
    for d in 0..<headDim {
      let s = _mm512_set1_ps(q[d])
      a = _mm512_fmadd_ps(s, load(keys.base, blockTokens * d), a)
      b = _mm512_fmadd_ps(s, load(keys.base, blockTokens * d + 16), b)
    }
    _mm512_storeu_ps(out + blockTokens * r, a)
    _mm512_storeu_ps(out + blockTokens * r + 16, b)
    r += 1
  }
}

/// `sums[r] = factors[r] · sums[r] + Σ weights[r][j] · values[j]` over the seen j, in order. Scalar twin:
/// `Reference.accumulate`.
package func attentionAccumulate(_ rows: AttentionRows, _ values: FloatBlock) {
  var r = 0
  while r + 4 <= rows.count {
    accumulateFour(rows, r, values)
    r += 4
  }
  while r < rows.count {
    accumulateOne(rows, r, values, from: 0)
    r += 1
  }
}

/// Sums of four rows, two registers each.
typealias EightSums = (__m512, __m512, __m512, __m512, __m512, __m512, __m512, __m512)

typealias FourFloatRows = (
  UnsafePointer<Float>, UnsafePointer<Float>, UnsafePointer<Float>, UnsafePointer<Float>
)

@inline(__always)
func fourRows(_ first: UnsafePointer<Float>, _ stride: Int) -> FourFloatRows {
  (first, first + stride, first + 2 * stride, first + 3 * stride)
}

/// `sums[r] + Σ rows[r][k] · base[k][0 ..< 32]` over k in `from ..< to`, in order; `stride` is between the rows of `base`.
/// Four rows share each vector that is loaded: a cycle has room for one such load and one multiply-add.
@inline(__always)
func adding(
  _ sums: EightSums, _ rows: FourFloatRows, _ from: Int, _ to: Int, _ base: UnsafePointer<Float>,
  _ stride: Int
) -> EightSums {
  var (a0, b0, a1, b1, a2, b2, a3, b3) = sums
  for k in from..<to {
    let (low, high) = (load(base, stride * k), load(base, stride * k + 16))
    let s0 = _mm512_set1_ps(rows.0[k])
    a0 = _mm512_fmadd_ps(s0, low, a0)
    b0 = _mm512_fmadd_ps(s0, high, b0)
    let s1 = _mm512_set1_ps(rows.1[k])
    a1 = _mm512_fmadd_ps(s1, low, a1)
    b1 = _mm512_fmadd_ps(s1, high, b1)
    let s2 = _mm512_set1_ps(rows.2[k])
    a2 = _mm512_fmadd_ps(s2, low, a2)
    b2 = _mm512_fmadd_ps(s2, high, b2)
    let s3 = _mm512_set1_ps(rows.3[k])
    a3 = _mm512_fmadd_ps(s3, low, a3)
    b3 = _mm512_fmadd_ps(s3, high, b3)
  }
  return (a0, b0, a1, b1, a2, b2, a3, b3)
}

@inline(__always)
func store(_ sums: EightSums, _ out: UnsafeMutablePointer<Float>, _ stride: Int) {
  _mm512_storeu_ps(out, sums.0)
  _mm512_storeu_ps(out + 16, sums.1)
  _mm512_storeu_ps(out + stride, sums.2)
  _mm512_storeu_ps(out + stride + 16, sums.3)
  _mm512_storeu_ps(out + 2 * stride, sums.4)
  _mm512_storeu_ps(out + 2 * stride + 16, sums.5)
  _mm512_storeu_ps(out + 3 * stride, sums.6)
  _mm512_storeu_ps(out + 3 * stride + 16, sums.7)
}

/// Rows `r ..< r + 4`.
@inline(__always)
private func accumulateFour(_ rows: AttentionRows, _ r: Int, _ values: FloatBlock) {
  let (from, to, headDim) = (rows.seen.lowerBound, rows.seen.upperBound, values.headDim)
  let (factors, out) = (rows.factors + r, rows.sums + r * headDim)
  let weights = fourRows(rows.scores + blockTokens * r, blockTokens)
  var d = 0
  while d + 32 <= headDim {
    @inline(__always)
    func scaled(_ row: Int, _ at: Int) -> __m512 {
      _mm512_mul_ps(load(out, row * headDim + d + at), _mm512_set1_ps(factors[row]))
    }
    let before: EightSums = (
      scaled(0, 0), scaled(0, 16), scaled(1, 0), scaled(1, 16), scaled(2, 0), scaled(2, 16), scaled(3, 0),
      scaled(3, 16)
    )
    store(adding(before, weights, from, to, values.base + d, headDim), out + d, headDim)
    d += 32
  }
  guard d < headDim else { return }
  for row in r..<r + 4 { accumulateOne(rows, row, values, from: d) }
}

/// Row `r` from element `first` on.
@inline(__always)
private func accumulateOne(_ rows: AttentionRows, _ r: Int, _ block: FloatBlock, from first: Int) {
  let (from, to) = (rows.seen.lowerBound, rows.seen.upperBound)
  let (values, headDim) = (block.base, block.headDim)
  let (weights, out) = (rows.scores + blockTokens * r, rows.sums + r * headDim)
  let scale = _mm512_set1_ps(rows.factors[r])
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
