// Attention in AVX2: scores of a block of 32 keys, and the weighted sum of its values.

import _Builtin_intrinsics.intel

/// `out[r · 32 + j] = Σ q[r][d] · keys[d][j]`; see Compute's KernelTable.Scores.
package func attentionScores(
  queries: UnsafePointer<Float>, queryStride: Int, queryRows: Int, keys: UnsafePointer<Float>,
  headDim: Int, out: UnsafeMutablePointer<Float>
) {
  for r in 0..<queryRows {
    let q = queries + r * queryStride
    let zero = _mm256_setzero_ps()
    var (a, b, c, e) = (zero, zero, zero, zero)
    for d in 0..<headDim {
      let s = _mm256_set1_ps(q[d])
      a = _mm256_fmadd_ps(s, load(keys, 32 * d), a)
      b = _mm256_fmadd_ps(s, load(keys, 32 * d + 8), b)
      c = _mm256_fmadd_ps(s, load(keys, 32 * d + 16), c)
      e = _mm256_fmadd_ps(s, load(keys, 32 * d + 24), e)
    }
    let target = out + 32 * r
    _mm256_storeu_ps(target, a)
    _mm256_storeu_ps(target + 8, b)
    _mm256_storeu_ps(target + 16, c)
    _mm256_storeu_ps(target + 24, e)
  }
}

/// `out = factor · out + Σ weights[j] · values[j]`; see Compute's KernelTable.Accumulate.
package func attentionAccumulate(
  weights: UnsafePointer<Float>, from: Int, to: Int, values: UnsafePointer<Float>, headDim: Int,
  factor: Float, out: UnsafeMutablePointer<Float>
) {
  let scale = _mm256_set1_ps(factor)
  var d = 0
  while d + 32 <= headDim {
    var t0 = _mm256_mul_ps(load(out, d), scale)
    var t1 = _mm256_mul_ps(load(out, d + 8), scale)
    var t2 = _mm256_mul_ps(load(out, d + 16), scale)
    var t3 = _mm256_mul_ps(load(out, d + 24), scale)
    for j in from..<to {
      let weight = _mm256_set1_ps(weights[j])
      let row = values + j * headDim
      t0 = _mm256_fmadd_ps(weight, load(row, d), t0)
      t1 = _mm256_fmadd_ps(weight, load(row, d + 8), t1)
      t2 = _mm256_fmadd_ps(weight, load(row, d + 16), t2)
      t3 = _mm256_fmadd_ps(weight, load(row, d + 24), t3)
    }
    _mm256_storeu_ps(out + d, t0)
    _mm256_storeu_ps(out + d + 8, t1)
    _mm256_storeu_ps(out + d + 16, t2)
    _mm256_storeu_ps(out + d + 24, t3)
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
