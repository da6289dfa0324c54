// The softmax of a block of scores and the gated activations in AVX2: the portable functions of Compute at twice their width,
// in the same operations and without fused ones, so that every machine computes the same bits.

import KernelTypes
import _Builtin_intrinsics.intel

/// As Compute's `exponential`, where the method is described; a multiplication and an addition stay two roundings.
@inline(__always)
private func exponential(_ x: __m256) -> __m256 {
  let low = _mm256_set1_ps(-87.3)
  // The second operand is taken when one is NaN: NaN stays NaN.
  let clamped = _mm256_min_ps(_mm256_set1_ps(88.7), _mm256_max_ps(low, x))
  let magic = _mm256_set1_ps(12_582_912)
  let shifted = _mm256_add_ps(_mm256_mul_ps(clamped, _mm256_set1_ps(1.442_695_04)), magic)
  let n = _mm256_sub_ps(shifted, magic)
  let r = _mm256_sub_ps(
    _mm256_sub_ps(clamped, _mm256_mul_ps(n, _mm256_set1_ps(0.693_359_375))),
    _mm256_mul_ps(n, _mm256_set1_ps(-2.121_944_4e-4)))
  @inline(__always)
  func step(_ p: __m256, _ coefficient: Float) -> __m256 {
    _mm256_add_ps(_mm256_mul_ps(p, r), _mm256_set1_ps(coefficient))
  }
  let p0 = step(_mm256_set1_ps(1.987_569_15e-4), 1.398_199_95e-3)
  let p1 = step(step(p0, 8.333_451_9e-3), 4.166_579_6e-2)
  let p2 = step(step(p1, 1.666_666_55e-1), 5.000_000_1e-1)
  let p = _mm256_add_ps(_mm256_add_ps(_mm256_mul_ps(_mm256_mul_ps(p2, r), r), r), _mm256_set1_ps(1))
  let bits = _mm256_sub_epi32(_mm256_castps_si256(shifted), _mm256_set1_epi32(0x4B40_0000))
  let half = _mm256_srav_epi32(bits, _mm256_set1_epi32(1))
  @inline(__always)
  func power(_ exponent: __m256i) -> __m256 {
    _mm256_castsi256_ps(
      _mm256_sllv_epi32(_mm256_add_epi32(exponent, _mm256_set1_epi32(127)), _mm256_set1_epi32(23)))
  }
  let result = _mm256_mul_ps(_mm256_mul_ps(p, power(half)), power(_mm256_sub_epi32(bits, half)))
  return _mm256_andnot_ps(unsafeBitCast(x .< low, to: __m256.self), result)
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
  let (s0, s1, s2, s3) = (load(scores, 0), load(scores, 8), load(scores, 16), load(scores, 24))
  let m8 = _mm256_max_ps(_mm256_max_ps(s0, s1), _mm256_max_ps(s2, s3))
  var top = state[0]
  for lane in 0..<8 where m8[lane] > top { top = m8[lane] }

  // A first block whose scores are all -infinity would make NaN of -inf - -inf.
  let base = _mm256_set1_ps(top == hidden ? 0 : top)
  let (e0, e1) = (exponential(_mm256_sub_ps(s0, base)), exponential(_mm256_sub_ps(s1, base)))
  let (e2, e3) = (exponential(_mm256_sub_ps(s2, base)), exponential(_mm256_sub_ps(s3, base)))
  _mm256_storeu_ps(scores, e0)
  _mm256_storeu_ps(scores + 8, e1)
  _mm256_storeu_ps(scores + 16, e2)
  _mm256_storeu_ps(scores + 24, e3)
  // Most blocks do not raise the maximum, and e^0 is 1.
  let isRaised = state[0] != top || top == hidden
  let factor = isRaised ? exponential(_mm256_sub_ps(_mm256_set1_ps(state[0]), base))[0] : 1
  state[1] = state[1] * factor + sum(_mm256_add_ps(_mm256_add_ps(e0, e1), _mm256_add_ps(e2, e3)))
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
    let cubic = _mm256_mul_ps(_mm256_mul_ps(x, x), _mm256_set1_ps(0.071_354_816_3))
    return _mm256_mul_ps(x, _mm256_add_ps(cubic, _mm256_set1_ps(1.595_769_12)))
  }
}

/// `out = gate / (1 + e^-y) · up` with y = exponent(gate).
@inline(__always)
private func gated(
  _ gate: UnsafePointer<Float>, _ up: UnsafePointer<Float>, _ count: Int,
  into out: UnsafeMutablePointer<Float>, exponent: (__m256) -> __m256
) {
  @inline(__always)
  func gated(_ x: __m256, _ y: __m256) -> __m256 {
    let negative = _mm256_sub_ps(_mm256_setzero_ps(), exponent(x))
    let divisor = _mm256_add_ps(_mm256_set1_ps(1), exponential(negative))
    return _mm256_mul_ps(_mm256_div_ps(x, divisor), y)
  }
  var i = 0
  while i + 8 <= count {
    _mm256_storeu_ps(out + i, gated(load(gate, i), load(up, i)))
    i += 8
  }
  if i < count {
    let rest = count - i
    _mm256_maskstore_ps(out + i, tailMask(rest), gated(loadTail(gate, i, rest), loadTail(up, i, rest)))
  }
}

/// `x = x · Φ(x)`, GELU with the error function; the fit is described at Compute's `Portable.erfGELU`. Scalar twin:
/// `Reference.erfGELU`.
package func erfGELU(_ count: Int, _ x: UnsafeMutablePointer<Float>) {
  var i = 0
  while i + 8 <= count {
    _mm256_storeu_ps(x + i, erfGELU(load(x, i)))
    i += 8
  }
  if i < count {
    let rest = count - i
    _mm256_maskstore_ps(x + i, tailMask(rest), erfGELU(loadTail(x, i, rest)))
  }
}

@inline(__always)
private func erfGELU(_ x: __m256) -> __m256 {
  let (zero, one) = (_mm256_setzero_ps(), _mm256_set1_ps(1))
  let a = _mm256_max_ps(_mm256_sub_ps(zero, x), x)
  let t = _mm256_div_ps(one, _mm256_add_ps(_mm256_mul_ps(a, _mm256_set1_ps(GELUFit.slope)), one))
  @inline(__always)
  func step(_ q: __m256, _ coefficient: Float) -> __m256 {
    _mm256_add_ps(_mm256_mul_ps(q, t), _mm256_set1_ps(coefficient))
  }
  let q0 = step(_mm256_set1_ps(GELUFit.c8), GELUFit.c7)
  let q1 = step(step(q0, GELUFit.c6), GELUFit.c5)
  let q2 = step(step(q1, GELUFit.c4), GELUFit.c3)
  let q = step(step(step(q2, GELUFit.c2), GELUFit.c1), GELUFit.c0)
  let tail = exponential(_mm256_mul_ps(_mm256_mul_ps(a, a), _mm256_set1_ps(-0.5)))
  let below = _mm256_mul_ps(x, _mm256_mul_ps(q, tail))
  // The sign of x chooses.
  return _mm256_blendv_ps(_mm256_sub_ps(x, below), below, x)
}
