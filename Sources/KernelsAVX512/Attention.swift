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
    var sums = registers(of: zero)
    add(to: &sums, rows, 0, headDim, keys.base, blockTokens)
    store(&sums, out + blockTokens * r, blockTokens)
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

typealias FourFloatRows = (
  UnsafePointer<Float>, UnsafePointer<Float>, UnsafePointer<Float>, UnsafePointer<Float>
)

@inline(__always)
func fourRows(_ first: UnsafePointer<Float>, _ stride: Int) -> FourFloatRows {
  (first, first + stride, first + 2 * stride, first + 3 * stride)
}

/// Adds `Σ rows[r][k] · base[k][0 ..< 32]` over k in `from ..< to`, in order, to the sums of row r, which are registers 2 · r and
/// 2 · r + 1; `stride` is between the rows of `base`. Four rows share each vector that is loaded: a cycle has room for one such
/// load and one multiply-add.
@inline(__always)
func add(
  to sums: inout FloatRegisters, _ rows: FourFloatRows, _ from: Int, _ to: Int,
  _ base: UnsafePointer<Float>, _ stride: Int
) {
  for k in from..<to {
    let (low, high) = (load(base, stride * k), load(base, stride * k + 16))
    @inline(__always)
    func add(_ row: UnsafePointer<Float>, _ r: Int) {
      let value = _mm512_set1_ps(row[k])
      set(&sums, 2 * r, _mm512_fmadd_ps(value, low, get(&sums, 2 * r)))
      set(&sums, 2 * r + 1, _mm512_fmadd_ps(value, high, get(&sums, 2 * r + 1)))
    }
    add(rows.0, 0)
    add(rows.1, 1)
    add(rows.2, 2)
    add(rows.3, 3)
  }
}

@inline(__always)
func store(_ sums: inout FloatRegisters, _ out: UnsafeMutablePointer<Float>, _ stride: Int) {
  for r in 0..<4 {
    _mm512_storeu_ps(out + r * stride, get(&sums, 2 * r))
    _mm512_storeu_ps(out + r * stride + 16, get(&sums, 2 * r + 1))
  }
}

/// Rows `r ..< r + 4`.
@inline(__always)
private func accumulateFour(_ rows: AttentionRows, _ r: Int, _ values: FloatBlock) {
  let (from, to, headDim) = (rows.seen.lowerBound, rows.seen.upperBound, values.headDim)
  let (factors, out) = (rows.factors + r, rows.sums + r * headDim)
  let weights = fourRows(rows.scores + blockTokens * r, blockTokens)
  var d = 0
  while d + 32 <= headDim {
    var sums = registers(of: _mm512_setzero_ps())
    for row in 0..<4 {
      let factor = _mm512_set1_ps(factors[row])
      set(&sums, 2 * row, _mm512_mul_ps(load(out, row * headDim + d), factor))
      set(&sums, 2 * row + 1, _mm512_mul_ps(load(out, row * headDim + d + 16), factor))
    }
    add(to: &sums, weights, from, to, values.base + d, headDim)
    store(&sums, out + d, headDim)
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
    var sums = registers(of: scale)
    for i in 0..<4 { set(&sums, i, _mm512_mul_ps(load(out, d + 16 * i), scale)) }
    for j in from..<to {
      let (weight, row) = (_mm512_set1_ps(weights[j]), values + j * headDim)
      for i in 0..<4 { set(&sums, i, _mm512_fmadd_ps(weight, load(row, d + 16 * i), get(&sums, i))) }
    }
    for i in 0..<4 { _mm512_storeu_ps(out + d + 16 * i, get(&sums, i)) }
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
