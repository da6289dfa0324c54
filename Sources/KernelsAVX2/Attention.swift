// Attention in AVX2: scores of a block of 32 keys, and the weighted sum of its values.

package import KernelTypes
import _Builtin_intrinsics.intel

/// `out[r][j] = Σ q[r][d] · keys[d][j]` for the 32 keys of a block. Scalar twin: `Reference.scores`.
package func attentionScores(
  _ queries: Activations, _ block: FloatBlock, into out: UnsafeMutablePointer<Float>
) {
  let (base, stride, keys, headDim) = (queries.base, queries.stride, block.base, block.headDim)
  let none = registers(of: _mm256_setzero_ps())
  var r = 0
  // Two rows share the loads of the keys: one alone is bound by them.
  while r + 2 <= queries.count {
    let (q, p) = (base + r * stride, base + (r + 1) * stride)
    var (first, second) = (none, none)
    for d in 0..<headDim {
      let (s, t) = (_mm256_set1_ps(q[d]), _mm256_set1_ps(p[d]))
      for i in 0..<4 {
        let key = load(keys, blockTokens * d + 8 * i)
        set(&first, i, _mm256_fmadd_ps(s, key, get(&first, i)))
        set(&second, i, _mm256_fmadd_ps(t, key, get(&second, i)))
      }
    }
    for i in 0..<4 {
      _mm256_storeu_ps(out + blockTokens * r + 8 * i, get(&first, i))
      _mm256_storeu_ps(out + blockTokens * (r + 1) + 8 * i, get(&second, i))
    }
    r += 2
  }
  while r < queries.count {
    let q = base + r * stride
    var sums = none
    for d in 0..<headDim {
      let s = _mm256_set1_ps(q[d])
      for i in 0..<4 { set(&sums, i, _mm256_fmadd_ps(s, load(keys, blockTokens * d + 8 * i), get(&sums, i))) }
    }
    for i in 0..<4 { _mm256_storeu_ps(out + blockTokens * r + 8 * i, get(&sums, i)) }
    r += 1
  }
}

/// `sums[r] = factors[r] · sums[r] + Σ weights[r][j] · values[j]` over the seen j, in order. Scalar twin:
/// `Reference.accumulate`.
package func attentionAccumulate(_ rows: AttentionRows, _ values: FloatBlock) {
  for r in 0..<rows.count { accumulate(rows, r, values) }
}

/// Row `r`.
@inline(__always)
private func accumulate(_ rows: AttentionRows, _ r: Int, _ block: FloatBlock) {
  let (from, to) = (rows.seen.lowerBound, rows.seen.upperBound)
  let (values, headDim) = (block.base, block.headDim)
  let (weights, out) = (rows.scores + blockTokens * r, rows.sums + r * headDim)
  let factor = rows.factors[r]
  let scale = _mm256_set1_ps(factor)
  var d = 0
  // Eight chains of dependent additions hide each other's latency; four do not.
  while d + 64 <= headDim {
    var sums = registers(of: scale)
    for i in 0..<8 { set(&sums, i, _mm256_mul_ps(load(out, d + 8 * i), scale)) }
    for j in from..<to {
      let (weight, row) = (_mm256_set1_ps(weights[j]), values + j * headDim)
      for i in 0..<8 { set(&sums, i, _mm256_fmadd_ps(weight, load(row, d + 8 * i), get(&sums, i))) }
    }
    for i in 0..<8 { _mm256_storeu_ps(out + d + 8 * i, get(&sums, i)) }
    d += 64
  }
  while d + 32 <= headDim {
    var sums = registers(of: scale)
    for i in 0..<4 { set(&sums, i, _mm256_mul_ps(load(out, d + 8 * i), scale)) }
    for j in from..<to {
      let (weight, row) = (_mm256_set1_ps(weights[j]), values + j * headDim)
      for i in 0..<4 { set(&sums, i, _mm256_fmadd_ps(weight, load(row, d + 8 * i), get(&sums, i))) }
    }
    for i in 0..<4 { _mm256_storeu_ps(out + d + 8 * i, get(&sums, i)) }
    d += 32
  }
  while d < headDim {
    let rest = min(8, headDim - d)
    var t = _mm256_mul_ps(loadTail(out, d, rest), scale)
    for j in from..<to {
      t = _mm256_fmadd_ps(_mm256_set1_ps(weights[j]), loadTail(values + j * headDim, d, rest), t)
    }
    _mm256_maskstore_ps(out + d, tailMask(rest), t)
    d += 8
  }
}
