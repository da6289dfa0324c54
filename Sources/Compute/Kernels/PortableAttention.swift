// Portable attention kernels: scores of a block, the running softmax, the weighted sum of values.

import KernelTypes

extension Portable {
  static func scores(_ queries: Activations, _ block: FloatBlock, into out: UnsafeMutablePointer<Float>) {
    for r in 0..<queries.count {
      let q = queries.base + r * queries.stride
      var (s0, s1, s2, s3) = (Lanes.zero, Lanes.zero, Lanes.zero, Lanes.zero)
      for d in 0..<block.headDim {
        let k = block.base + d * blockTokens
        let broadcast = Lanes(repeating: q[d])
        s0 += load(k, 0) * broadcast
        s1 += load(k, 8) * broadcast
        s2 += load(k, 16) * broadcast
        s3 += load(k, 24) * broadcast
      }
      let target = out + r * blockTokens
      store(s0, target, 0)
      store(s1, target, 8)
      store(s2, target, 16)
      store(s3, target, 24)
    }
  }

  static func softmaxBlock(
    _ scores: UnsafeMutablePointer<Float>, _ seen: Range<Int>, _ state: UnsafeMutablePointer<Float>
  ) -> Float {
    let hidden = -Float.infinity
    for j in 0..<seen.lowerBound { scores[j] = hidden }
    for j in seen.upperBound..<blockTokens { scores[j] = hidden }
    let (s0, s1, s2, s3) = (load(scores, 0), load(scores, 8), load(scores, 16), load(scores, 24))
    let m8 = maximum(maximum(s0, s1), maximum(s2, s3))
    var top = state[0]
    for lane in 0..<lanes where m8[lane] > top { top = m8[lane] }

    // A first block whose scores are all -infinity would make NaN of -inf - -inf.
    let base = Lanes(repeating: top == hidden ? 0 : top)
    let (e0, e1) = (exponential(s0 - base), exponential(s1 - base))
    let (e2, e3) = (exponential(s2 - base), exponential(s3 - base))
    store(e0, scores, 0)
    store(e1, scores, 8)
    store(e2, scores, 16)
    store(e3, scores, 24)
    let factor = exponential(Lanes(repeating: state[0]) - base)[0]
    state[1] = state[1] * factor + sum((e0 + e1) + (e2 + e3))
    state[0] = top
    return factor
  }

  static func accumulate(_ rows: AttentionRows, _ values: FloatBlock) {
    for r in 0..<rows.count { accumulate(rows, r, values) }
  }

  private static func accumulate(_ rows: AttentionRows, _ r: Int, _ block: FloatBlock) {
    let (from, to) = (rows.seen.lowerBound, rows.seen.upperBound)
    let (values, headDim) = (block.base, block.headDim)
    let (weights, out) = (rows.scores + blockTokens * r, rows.sums + r * headDim)
    let factor = rows.factors[r]
    var d = 0
    while d + 4 * lanes <= headDim {
      var (t0, t1) = (load(out, d) * factor, load(out, d + 8) * factor)
      var (t2, t3) = (load(out, d + 16) * factor, load(out, d + 24) * factor)
      for j in from..<to {
        let row = values + j * headDim
        let weight = Lanes(repeating: weights[j])
        t0 += load(row, d) * weight
        t1 += load(row, d + 8) * weight
        t2 += load(row, d + 16) * weight
        t3 += load(row, d + 24) * weight
      }
      store(t0, out, d)
      store(t1, out, d + 8)
      store(t2, out, d + 16)
      store(t3, out, d + 24)
      d += 4 * lanes
    }
    while d < headDim {
      var total = out[d] * factor
      for j in from..<to { total += values[j * headDim + d] * weights[j] }
      out[d] = total
      d += 1
    }
  }
}
