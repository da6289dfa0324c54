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
    let q0 = queries + r * queryStride
    let (q1, q2, q3) = (q0 + queryStride, q0 + 2 * queryStride, q0 + 3 * queryStride)
    var (a0, a1, a2, a3) = (zero, zero, zero, zero)
    var (b0, b1, b2, b3) = (zero, zero, zero, zero)
    for d in 0..<headDim {
      let (low, high) = (load(keys, 32 * d), load(keys, 32 * d + 16))
      let s0 = _mm512_set1_ps(q0[d])
      a0 = _mm512_fmadd_ps(s0, low, a0)
      b0 = _mm512_fmadd_ps(s0, high, b0)
      let s1 = _mm512_set1_ps(q1[d])
      a1 = _mm512_fmadd_ps(s1, low, a1)
      b1 = _mm512_fmadd_ps(s1, high, b1)
      let s2 = _mm512_set1_ps(q2[d])
      a2 = _mm512_fmadd_ps(s2, low, a2)
      b2 = _mm512_fmadd_ps(s2, high, b2)
      let s3 = _mm512_set1_ps(q3[d])
      a3 = _mm512_fmadd_ps(s3, low, a3)
      b3 = _mm512_fmadd_ps(s3, high, b3)
    }
    let target = out + 32 * r
    _mm512_storeu_ps(target, a0)
    _mm512_storeu_ps(target + 16, b0)
    _mm512_storeu_ps(target + 32, a1)
    _mm512_storeu_ps(target + 48, b1)
    _mm512_storeu_ps(target + 64, a2)
    _mm512_storeu_ps(target + 80, b2)
    _mm512_storeu_ps(target + 96, a3)
    _mm512_storeu_ps(target + 112, b3)
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

/// `out = factor · out + Σ weights[j] · values[j]`; see Compute's KernelTable.Accumulate.
package func attentionAccumulate(
  weights: UnsafePointer<Float>, from: Int, to: Int, values: UnsafePointer<Float>, headDim: Int,
  factor: Float, out: UnsafeMutablePointer<Float>
) {
  let scale = _mm512_set1_ps(factor)
  var d = 0
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
