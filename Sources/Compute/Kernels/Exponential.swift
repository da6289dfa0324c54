// e^x: the vector form used by softmax and silu, and libm's for the reference kernels; other functions of libm's.
//
// Vector form (Cody and Waite's range reduction, degree-6 polynomial): x = n·ln 2 + r with |r| <= ln 2 / 2,
// e^x = 2^n · e^r. Written without fused operations, so every machine computes the same bits.

import Platform

/// libm's exponential.
func exponential(_ x: Double) -> Double { exp(x) }

/// libm's log(1 + x).
func logarithm1p(_ x: Double) -> Double { log1p(x) }

/// libm's hyperbolic tangent.
func hyperbolicTangent(_ x: Float) -> Float { Float(tanh(Double(x))) }

/// libm's complementary error function.
func complementaryError(_ x: Double) -> Double { erfc(x) }

/// e^x per lane, relative error below 2e-7. Exactly 0 below -87.3, where the result would be subnormal
/// (also for -infinity); the largest float from 88.7 on; NaN stays NaN.
@inline(__always)
func exponential(_ x: SIMD8<Float>) -> SIMD8<Float> {
  let low = SIMD8<Float>(repeating: -87.3)
  let high = SIMD8<Float>(repeating: 88.7)
  var clamped = x.replacing(with: low, where: x .< low)
  clamped.replace(with: high, where: clamped .> high)
  // Adding 1.5 · 2^23 rounds to the nearest integer and leaves it in the low mantissa bits:
  // SSE2 has no rounding instruction, and `rounded()` would call libm for every lane.
  let magic = SIMD8<Float>(repeating: 12_582_912)
  let shifted = clamped * 1.442_695_04 + magic
  let n = shifted - magic
  let r = (clamped - n * 0.693_359_375) - n * -2.121_944_4e-4
  var p = SIMD8<Float>(repeating: 1.987_569_15e-4)
  p = p * r + 1.398_199_95e-3
  p = p * r + 8.333_451_9e-3
  p = p * r + 4.166_579_6e-2
  p = p * r + 1.666_666_55e-1
  p = p * r + 5.000_000_1e-1
  p = p * r * r + r + 1
  // 2^n by adding n to the exponent field; n + 127 stays in 1...254 after the clamp... except n = 128,
  // which is why the power is applied in two halves.
  let bits = unsafeBitCast(shifted, to: SIMD8<Int32>.self) &- 0x4B40_0000
  let halfPower = bits &>> 1
  let first = unsafeBitCast((halfPower &+ 127) &<< 23, to: SIMD8<Float>.self)
  let second = unsafeBitCast((bits &- halfPower &+ 127) &<< 23, to: SIMD8<Float>.self)
  let result = p * first * second
  return result.replacing(with: 0, where: x .< low)
}
