// Attention over a cache's integers: a function for each of their sizes, at every level. A level has `scores` and `accumulate`, where
// the size has to be a constant.

package import KernelTypes

/// Scores of int16 keys, `out[r][j]`. Scalar twin: `IntegerAttention.scored`.
package func attentionScoresInt16(
  _ queries: IntegerQueries, _ keys: IntegerBlock, into out: UnsafeMutablePointer<Float>
) { scores(queries, keys, .int16, out) }

/// Scores of int8 keys, likewise. Scalar twin: `IntegerAttention.scored`.
package func attentionScoresInt8(
  _ queries: IntegerQueries, _ keys: IntegerBlock, into out: UnsafeMutablePointer<Float>
) { scores(queries, keys, .int8, out) }

/// `sums[r] = factors[r] · sums[r] + weightScales[r] · Σ weights[r][j] · values[j]` of int16 values. Scalar twin:
/// `IntegerAttention.accumulated`.
package func attentionAccumulateInt16(_ rows: AttentionRows, _ values: IntegerBlock) {
  accumulate(rows, values, .int16)
}

/// Sums of int8 values, likewise. Scalar twin: `IntegerAttention.accumulated`.
package func attentionAccumulateInt8(_ rows: AttentionRows, _ values: IntegerBlock) {
  accumulate(rows, values, .int8)
}

/// Numbers so small that `limit / top` would be none, and those without a size, become zeros.
@inline(__always)
func inverseScale(_ limit: Float, _ top: Float) -> Float {
  top >= 0x1p-100 && top < .infinity ? limit / top : 0
}
