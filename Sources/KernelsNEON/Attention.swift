// Attention of float32 in NEON: scores of a block of 32 keys, and the weighted sum of its values.

package import KernelTypes

/// Eight registers of 32 lanes.
private typealias Block = (Four, Four, Four, Four, Four, Four, Four, Four)

@inline(__always)
private func addBlock(_ t: inout Block, _ base: UnsafeRawPointer, _ factor: Float) {
  let f = Four(repeating: factor)
  t.0 = fused(f, four(base, 0), t.0)
  t.1 = fused(f, four(base, 4), t.1)
  t.2 = fused(f, four(base, 8), t.2)
  t.3 = fused(f, four(base, 12), t.3)
  t.4 = fused(f, four(base, 16), t.4)
  t.5 = fused(f, four(base, 20), t.5)
  t.6 = fused(f, four(base, 24), t.6)
  t.7 = fused(f, four(base, 28), t.7)
}

@inline(__always)
private func storeBlock(_ t: Block, _ out: UnsafeMutablePointer<Float>) {
  store(t.0, out)
  store(t.1, out + 4)
  store(t.2, out + 8)
  store(t.3, out + 12)
  store(t.4, out + 16)
  store(t.5, out + 20)
  store(t.6, out + 24)
  store(t.7, out + 28)
}

/// `out[r][j] = Σ q[r][d] · keys[d][j]` for the 32 keys of a block. Scalar twin: `Reference.scores`.
package func attentionScores(
  _ queries: Activations, _ keys: FloatBlock, into out: UnsafeMutablePointer<Float>
) {
  let zero = Four.zero
  let none: Block = (zero, zero, zero, zero, zero, zero, zero, zero)
  var r = 0
  while r < queries.count {
    // Of an odd number the last row is computed twice: two rows share the loads of the keys.
    let second = r + 1 < queries.count ? r + 1 : r
    let (q, p) = (queries.base + r * queries.stride, queries.base + second * queries.stride)
    var (t, u) = (none, none)
    for d in 0..<keys.headDim {
      addBlock(&t, keys.base + blockTokens * d, q[d])
      addBlock(&u, keys.base + blockTokens * d, p[d])
    }
    storeBlock(t, out + blockTokens * r)
    storeBlock(u, out + blockTokens * second)
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
      let f = Four(repeating: factor)
      var t: Block = (
        four(out, d) * f, four(out, d + 4) * f, four(out, d + 8) * f, four(out, d + 12) * f,
        four(out, d + 16) * f, four(out, d + 20) * f, four(out, d + 24) * f, four(out, d + 28) * f
      )
      for j in rows.seen { addBlock(&t, values.base + j * headDim + d, weights[j]) }
      storeBlock(t, out + d)
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
