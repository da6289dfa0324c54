// Attention in AVX2: scores of a block of 32 keys, and the weighted sum of its values.

package import KernelTypes
import _Builtin_intrinsics.intel

/// `out[r][j] = Σ q[r][d] · keys[d][j]` for the 32 keys of a block. Scalar twin: `Reference.scores`.
package func attentionScores(
  _ queries: Activations, _ block: FloatBlock, into out: UnsafeMutablePointer<Float>
) {
  let (base, stride, keys, headDim) = (queries.base, queries.stride, block.base, block.headDim)
  let zero = _mm256_setzero_ps()
  var r = 0
  // Two rows share the loads of the keys: one alone is bound by them.
  while r + 2 <= queries.count {
    let (q, p) = (base + r * stride, base + (r + 1) * stride)
    var (a0, b0, c0, e0) = (zero, zero, zero, zero)
    var (a1, b1, c1, e1) = (zero, zero, zero, zero)
    for d in 0..<headDim {
      let (s, t) = (_mm256_set1_ps(q[d]), _mm256_set1_ps(p[d]))
      let (k0, k1) = (load(keys, blockTokens * d), load(keys, blockTokens * d + 8))
      a0 = _mm256_fmadd_ps(s, k0, a0)
      a1 = _mm256_fmadd_ps(t, k0, a1)
      b0 = _mm256_fmadd_ps(s, k1, b0)
      b1 = _mm256_fmadd_ps(t, k1, b1)
      let (k2, k3) = (load(keys, blockTokens * d + 16), load(keys, blockTokens * d + 24))
      c0 = _mm256_fmadd_ps(s, k2, c0)
      c1 = _mm256_fmadd_ps(t, k2, c1)
      e0 = _mm256_fmadd_ps(s, k3, e0)
      e1 = _mm256_fmadd_ps(t, k3, e1)
    }
    let target = out + blockTokens * r
    _mm256_storeu_ps(target, a0)
    _mm256_storeu_ps(target + 8, b0)
    _mm256_storeu_ps(target + 16, c0)
    _mm256_storeu_ps(target + 24, e0)
    _mm256_storeu_ps(target + 32, a1)
    _mm256_storeu_ps(target + 40, b1)
    _mm256_storeu_ps(target + 48, c1)
    _mm256_storeu_ps(target + 56, e1)
    r += 2
  }
  while r < queries.count {
    let q = base + r * stride
    var (a, b, c, e) = (zero, zero, zero, zero)
    for d in 0..<headDim {
      let s = _mm256_set1_ps(q[d])
      a = _mm256_fmadd_ps(s, load(keys, blockTokens * d), a)
      b = _mm256_fmadd_ps(s, load(keys, blockTokens * d + 8), b)
      c = _mm256_fmadd_ps(s, load(keys, blockTokens * d + 16), c)
      e = _mm256_fmadd_ps(s, load(keys, blockTokens * d + 24), e)
    }
    let target = out + blockTokens * r
    _mm256_storeu_ps(target, a)
    _mm256_storeu_ps(target + 8, b)
    _mm256_storeu_ps(target + 16, c)
    _mm256_storeu_ps(target + 24, e)
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
    var t0 = _mm256_mul_ps(load(out, d), scale)
    var t1 = _mm256_mul_ps(load(out, d + 8), scale)
    var t2 = _mm256_mul_ps(load(out, d + 16), scale)
    var t3 = _mm256_mul_ps(load(out, d + 24), scale)
    var t4 = _mm256_mul_ps(load(out, d + 32), scale)
    var t5 = _mm256_mul_ps(load(out, d + 40), scale)
    var t6 = _mm256_mul_ps(load(out, d + 48), scale)
    var t7 = _mm256_mul_ps(load(out, d + 56), scale)
    for j in from..<to {
      let weight = _mm256_set1_ps(weights[j])
      let row = values + j * headDim
      t0 = _mm256_fmadd_ps(weight, load(row, d), t0)
      t1 = _mm256_fmadd_ps(weight, load(row, d + 8), t1)
      t2 = _mm256_fmadd_ps(weight, load(row, d + 16), t2)
      t3 = _mm256_fmadd_ps(weight, load(row, d + 24), t3)
      t4 = _mm256_fmadd_ps(weight, load(row, d + 32), t4)
      t5 = _mm256_fmadd_ps(weight, load(row, d + 40), t5)
      t6 = _mm256_fmadd_ps(weight, load(row, d + 48), t6)
      t7 = _mm256_fmadd_ps(weight, load(row, d + 56), t7)
    }
    _mm256_storeu_ps(out + d, t0)
    _mm256_storeu_ps(out + d + 8, t1)
    _mm256_storeu_ps(out + d + 16, t2)
    _mm256_storeu_ps(out + d + 24, t3)
    _mm256_storeu_ps(out + d + 32, t4)
    _mm256_storeu_ps(out + d + 40, t5)
    _mm256_storeu_ps(out + d + 48, t6)
    _mm256_storeu_ps(out + d + 56, t7)
    d += 64
  }
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
