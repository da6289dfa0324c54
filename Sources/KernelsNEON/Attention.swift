// Attention of float32 in NEON: scores of a block of 32 keys, and the weighted sum of its values.

package import KernelTypes

@inline(__always)
private func add(_ factor: Float, _ base: UnsafeRawPointer, to sums: inout FloatRegisters) {
  let factor = Four(repeating: factor)
  for i in 0..<8 { set(&sums, i, fused(factor, four(base, 4 * i), get(&sums, i))) }
}

@inline(__always)
private func store(_ sums: inout FloatRegisters, _ out: UnsafeMutablePointer<Float>) {
  for i in 0..<8 { store(get(&sums, i), out + 4 * i) }
}

/// `out[r][j] = Σ q[r][d] · keys[d][j]` for the 32 keys of a block. Scalar twin: `Reference.scores`.
package func attentionScores(
  _ queries: Activations, _ keys: FloatBlock, into out: UnsafeMutablePointer<Float>
) {
  var r = 0
  while r < queries.count {
    // Of an odd number the last row is computed twice: two rows share the loads of the keys.
    let second = r + 1 < queries.count ? r + 1 : r
    let (q, p) = (queries.base + r * queries.stride, queries.base + second * queries.stride)
    var t = registers(of: Four.zero)
    var u = t
    for d in 0..<keys.headDim {
      add(q[d], keys.base + blockTokens * d, to: &t)
      add(p[d], keys.base + blockTokens * d, to: &u)
    }
    store(&t, out + blockTokens * r)
    store(&u, out + blockTokens * second)
    r += 2
  }
}

/// `sums[r] = factors[r] · sums[r] + Σ weights[r][j] · values[j]` over the seen j, in order. Scalar twin:
/// `Reference.accumulate`.
package func attentionAccumulate(_ rows: AttentionRows, _ values: FloatBlock) {
  let headDim = values.headDim
  for r in 0..<rows.count {
    let (weights, out) = (rows.scores + blockTokens * r, rows.sums + r * headDim)
    let factor = rows.factors[r]
    var d = 0
    while d + 32 <= headDim {
      var t = registers(of: Four(repeating: factor))
      for i in 0..<8 { set(&t, i, four(out, d + 4 * i) * get(&t, i)) }
      for j in rows.seen { add(weights[j], values.base + j * headDim + d, to: &t) }
      store(&t, out + d)
      d += 32
    }
    while d + 4 <= headDim {
      var t = four(out, d) * Four(repeating: factor)
      for j in rows.seen { t = fused(Four(repeating: weights[j]), four(values.base, j * headDim + d), t) }
      store(t, out + d)
      d += 4
    }
    while d < headDim {
      var t = out[d] * factor
      for j in rows.seen { t = t.addingProduct(weights[j], values.base[j * headDim + d]) }
      out[d] = t
      d += 1
    }
  }
}
