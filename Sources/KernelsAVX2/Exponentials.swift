// The softmax of a block of scores in AVX2, and what Activations is made of: the portable functions of Compute at twice their
// width, in the same operations and without fused ones, so that every machine computes the same bits.

import KernelTypes
import _Builtin_intrinsics.intel

/// As Compute's `exponential`, where the method is described; a multiplication and an addition stay two roundings.
@inline(__always)
func exponential(_ x: __m256) -> __m256 {
  let low = _mm256_set1_ps(-87.3)
  // The second operand is taken when one is NaN: NaN stays NaN.
  let clamped = _mm256_min_ps(_mm256_set1_ps(88.7), _mm256_max_ps(low, x))
  let (p, shifted, _) = exponentialParts(clamped)
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

// MARK: What Activations is made of

/// Calls `body` with eight elements at a time, and how many of them are there.
@inline(__always)
func forEachVector(of count: Int, _ body: (_ at: Int, _ lanes: Int) -> Void) {
  var i = 0
  while i + 8 <= count {
    body(i, 8)
    i += 8
  }
  if i < count { body(i, count - i) }
}

@inline(__always)
func load(_ base: UnsafePointer<Float>, _ at: Int, lanes: Int) -> Floats {
  lanes == 8 ? load(base, at) : loadTail(base, at, lanes)
}

@inline(__always)
func store(_ value: Floats, _ base: UnsafeMutablePointer<Float>, _ at: Int, lanes: Int) {
  if lanes == 8 {
    _mm256_storeu_ps(base + at, value)
  } else {
    _mm256_maskstore_ps(base + at, tailMask(lanes), value)
  }
}

@inline(__always)
func larger(_ a: Floats, _ b: Floats) -> Floats { _mm256_max_ps(a, b) }

/// The first where the sign of x is set, else the second.
@inline(__always)
func chosen(_ first: Floats, _ second: Floats, bySignOf x: Floats) -> Floats {
  _mm256_blendv_ps(second, first, x)
}
