// The softmax of a block of scores and the gated activations in AVX-512: the functions of the AVX2 module at twice their width.
// What rounds is the same and never fused, so that every machine computes the same bits.

import KernelTypes
import _Builtin_intrinsics.intel

/// As Compute's `exponential`, where the method is described; a multiplication and an addition stay two roundings.
@inline(__always)
func exponential(_ x: __m512) -> __m512 {
  let low = _mm512_set1_ps(-87.3)
  // The second operand is taken when one is NaN: NaN stays NaN.
  let clamped = _mm512_min_ps(_mm512_set1_ps(88.7), _mm512_max_ps(low, x))
  let magic = _mm512_set1_ps(12_582_912)
  let shifted = _mm512_add_ps(_mm512_mul_ps(clamped, _mm512_set1_ps(1.442_695_04)), magic)
  let n = _mm512_sub_ps(shifted, magic)
  let r = _mm512_sub_ps(
    _mm512_sub_ps(clamped, _mm512_mul_ps(n, _mm512_set1_ps(0.693_359_375))),
    _mm512_mul_ps(n, _mm512_set1_ps(-2.121_944_4e-4)))
  @inline(__always)
  func step(_ p: __m512, _ coefficient: Float) -> __m512 {
    _mm512_add_ps(_mm512_mul_ps(p, r), _mm512_set1_ps(coefficient))
  }
  let p0 = step(_mm512_set1_ps(1.987_569_15e-4), 1.398_199_95e-3)
  let p1 = step(step(p0, 8.333_451_9e-3), 4.166_579_6e-2)
  let p2 = step(step(p1, 1.666_666_55e-1), 5.000_000_1e-1)
  let p = _mm512_add_ps(_mm512_add_ps(_mm512_mul_ps(_mm512_mul_ps(p2, r), r), r), _mm512_set1_ps(1))
  // p · 2^n, rounded once where it is subnormal; below `low` 2^n is zero. NaN stays NaN. The fused operation adds nothing
  // to n, or what makes the power zero.
  let below = _mm512_min_ps(_mm512_setzero_ps(), _mm512_sub_ps(x, clamped))
  return _mm512_scalef_ps(p, _mm512_fmadd_ps(below, _mm512_set1_ps(0x1p60), n))
}

/// Folds the scores of a block that a row sees into its running softmax: they become weights relative to the new maximum,
/// `state` is the maximum and the sum. Scalar twin: `Reference.softmaxBlock`.
///
/// - Returns: the factor for what was summed before.
package func attentionSoftmax(
  _ scores: UnsafeMutablePointer<Float>, _ seen: Range<Int>, _ state: UnsafeMutablePointer<Float>
) -> Float {
  let hidden = -Float.infinity
  for j in 0..<seen.lowerBound { scores[j] = hidden }
  for j in seen.upperBound..<blockTokens { scores[j] = hidden }
  let (s0, s1) = (load(scores, 0), load(scores, 16))
  let m16 = _mm512_max_ps(s0, s1)
  let m8 = _mm256_max_ps(m16.lowHalf, m16.highHalf)
  let m4 = _mm_max_ps(m8.lowHalf, m8.highHalf)
  let top = max(max(state[0], max(m4[0], m4[1])), max(m4[2], m4[3]))

  // A first block whose scores are all -infinity would make NaN of -inf - -inf.
  let base = _mm512_set1_ps(top == hidden ? 0 : top)
  let (e0, e1) = (exponential(_mm512_sub_ps(s0, base)), exponential(_mm512_sub_ps(s1, base)))
  _mm512_storeu_ps(scores, e0)
  _mm512_storeu_ps(scores + 16, e1)
  // Most blocks do not raise the maximum, and e^0 is 1.
  let isRaised = state[0] != top || top == hidden
  let factor = isRaised ? exponential(_mm512_sub_ps(_mm512_set1_ps(state[0]), base))[0] : 1
  let eight = (e0.lowHalf + e0.highHalf) + (e1.lowHalf + e1.highHalf)
  let four = eight.lowHalf + eight.highHalf
  let two = four.lowHalf + four.highHalf
  state[1] = state[1] * factor + (two[0] + two[1])
  state[0] = top
  return factor
}

/// `out = gate / (1 + e^-gate) · up`; out may be gate. Scalar twin: `Reference.gatedSilu`.
package func gatedSilu(
  _ gate: UnsafePointer<Float>, _ up: UnsafePointer<Float>, _ count: Int,
  into out: UnsafeMutablePointer<Float>
) { gated(gate, up, count, into: out) { $0 } }

/// The same with the tanh form of GELU, `gate / (1 + e^-y) · up` with y = 2 · √(2/π) · (gate + 0.044715 gate³). Scalar twin:
/// `Reference.gatedGELU`.
package func gatedGELU(
  _ gate: UnsafePointer<Float>, _ up: UnsafePointer<Float>, _ count: Int,
  into out: UnsafeMutablePointer<Float>
) {
  gated(gate, up, count, into: out) { x in
    let cubic = _mm512_mul_ps(_mm512_mul_ps(x, x), _mm512_set1_ps(0.071_354_816_3))
    return _mm512_mul_ps(x, _mm512_add_ps(cubic, _mm512_set1_ps(1.595_769_12)))
  }
}

/// `out = gate / (1 + e^-y) · up` with y = exponent(gate).
@inline(__always)
private func gated(
  _ gate: UnsafePointer<Float>, _ up: UnsafePointer<Float>, _ count: Int,
  into out: UnsafeMutablePointer<Float>, exponent: (__m512) -> __m512
) {
  var i = 0
  while i < count {
    let mask = tailMask(min(16, count - i))
    let x = load(gate, i, mask)
    let divisor = _mm512_add_ps(
      _mm512_set1_ps(1), exponential(_mm512_sub_ps(_mm512_setzero_ps(), exponent(x))))
    _mm512_mask_storeu_ps(out + i, mask, _mm512_mul_ps(_mm512_div_ps(x, divisor), load(up, i, mask)))
    i += 16
  }
}

/// `x = x · Φ(x)`, GELU with the error function; the fit is described at Compute's `Portable.erfGELU`. Scalar twin:
/// `Reference.erfGELU`.
package func erfGELU(_ count: Int, _ x: UnsafeMutablePointer<Float>) {
  var i = 0
  while i < count {
    let mask = tailMask(min(16, count - i))
    _mm512_mask_storeu_ps(x + i, mask, erfGELU(load(x, i, mask)))
    i += 16
  }
}

@inline(__always)
private func erfGELU(_ x: __m512) -> __m512 {
  let (zero, one) = (_mm512_setzero_ps(), _mm512_set1_ps(1))
  let a = _mm512_max_ps(_mm512_sub_ps(zero, x), x)
  let t = _mm512_div_ps(one, _mm512_add_ps(_mm512_mul_ps(a, _mm512_set1_ps(GELUFit.slope)), one))
  @inline(__always)
  func step(_ q: __m512, _ coefficient: Float) -> __m512 {
    _mm512_add_ps(_mm512_mul_ps(q, t), _mm512_set1_ps(coefficient))
  }
  let q0 = step(_mm512_set1_ps(GELUFit.c8), GELUFit.c7)
  let q1 = step(step(q0, GELUFit.c6), GELUFit.c5)
  let q2 = step(step(q1, GELUFit.c4), GELUFit.c3)
  let q = step(step(step(q2, GELUFit.c2), GELUFit.c1), GELUFit.c0)
  let tail = exponential(_mm512_mul_ps(_mm512_mul_ps(a, a), _mm512_set1_ps(-0.5)))
  let below = _mm512_mul_ps(x, _mm512_mul_ps(q, tail))
  let isNegative = _mm512_movepi32_mask(_mm512_castps_si512(x))
  return _mm512_mask_mov_ps(_mm512_sub_ps(x, below), isNegative, below)
}
