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

/// Four rows share each value that is loaded: a cycle has room for one such load and one multiply-add.
@inline(__always)
private func fourRows(
  _ u0: UnsafePointer<Float>, _ from: Int, _ to: Int, _ values: UnsafePointer<Float>, _ headDim: Int,
  _ factors: UnsafePointer<Float>, _ o0: UnsafeMutablePointer<Float>
) {
  let (u1, u2, u3) = (u0 + 32, u0 + 64, u0 + 96)
  let (o1, o2, o3) = (o0 + headDim, o0 + 2 * headDim, o0 + 3 * headDim)
  let (f0, f1) = (_mm512_set1_ps(factors[0]), _mm512_set1_ps(factors[1]))
  let (f2, f3) = (_mm512_set1_ps(factors[2]), _mm512_set1_ps(factors[3]))
  var d = 0
  while d + 32 <= headDim {
    var (a0, b0) = (_mm512_mul_ps(load(o0, d), f0), _mm512_mul_ps(load(o0, d + 16), f0))
    var (a1, b1) = (_mm512_mul_ps(load(o1, d), f1), _mm512_mul_ps(load(o1, d + 16), f1))
    var (a2, b2) = (_mm512_mul_ps(load(o2, d), f2), _mm512_mul_ps(load(o2, d + 16), f2))
    var (a3, b3) = (_mm512_mul_ps(load(o3, d), f3), _mm512_mul_ps(load(o3, d + 16), f3))
    for j in from..<to {
      let row = values + j * headDim + d
      let (low, high) = (load(row, 0), load(row, 16))
      let w0 = _mm512_set1_ps(u0[j])
      a0 = _mm512_fmadd_ps(w0, low, a0)
      b0 = _mm512_fmadd_ps(w0, high, b0)
      let w1 = _mm512_set1_ps(u1[j])
      a1 = _mm512_fmadd_ps(w1, low, a1)
      b1 = _mm512_fmadd_ps(w1, high, b1)
      let w2 = _mm512_set1_ps(u2[j])
      a2 = _mm512_fmadd_ps(w2, low, a2)
      b2 = _mm512_fmadd_ps(w2, high, b2)
      let w3 = _mm512_set1_ps(u3[j])
      a3 = _mm512_fmadd_ps(w3, low, a3)
      b3 = _mm512_fmadd_ps(w3, high, b3)
    }
    _mm512_storeu_ps(o0 + d, a0)
    _mm512_storeu_ps(o0 + d + 16, b0)
    _mm512_storeu_ps(o1 + d, a1)
    _mm512_storeu_ps(o1 + d + 16, b1)
    _mm512_storeu_ps(o2 + d, a2)
    _mm512_storeu_ps(o2 + d + 16, b2)
    _mm512_storeu_ps(o3 + d, a3)
    _mm512_storeu_ps(o3 + d + 16, b3)
    d += 32
  }
  guard d < headDim else { return }
  for r in 0..<4 {
    oneRow(u0 + 32 * r, from, to, values, headDim, d, factors[r], o0 + r * headDim)
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
