// The softmax of a block of scores in AVX-512, and what Activations is made of: the functions of the AVX2 module at twice their
// width. What rounds is the same and never fused, so that every machine computes the same bits.

import KernelTypes
import _Builtin_intrinsics.intel

/// As Compute's `exponential`, where the method is described; a multiplication and an addition stay two roundings.
@inline(__always)
func exponential(_ x: __m512) -> __m512 {
  let low = _mm512_set1_ps(-87.3)
  // The second operand is taken when one is NaN: NaN stays NaN.
  let clamped = _mm512_min_ps(_mm512_set1_ps(88.7), _mm512_max_ps(low, x))
  let (p, _, n) = exponentialParts(clamped)
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

// MARK: What Activations is made of

/// Calls `body` with sixteen elements at a time, and a mask of those that are there.
@inline(__always)
func forEachVector(of count: Int, _ body: (_ at: Int, _ lanes: __mmask16) -> Void) {
  var i = 0
  while i < count {
    body(i, tailMask(min(16, count - i)))
    i += 16
  }
}

@inline(__always)
func load(_ base: UnsafePointer<Float>, _ at: Int, lanes: __mmask16) -> Floats { load(base, at, lanes) }

@inline(__always)
func store(_ value: Floats, _ base: UnsafeMutablePointer<Float>, _ at: Int, lanes: __mmask16) {
  _mm512_mask_storeu_ps(base + at, lanes, value)
}

@inline(__always)
func larger(_ a: Floats, _ b: Floats) -> Floats { _mm512_max_ps(a, b) }

/// The first where the sign of x is set, else the second.
@inline(__always)
func chosen(_ first: Floats, _ second: Floats, bySignOf x: Floats) -> Floats {
  _mm512_mask_mov_ps(second, _mm512_movepi32_mask(_mm512_castps_si512(x)), first)
}
