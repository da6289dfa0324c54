// The gated activations at the levels of x86: the portable functions of Compute at their width, in the same operations and without
// fused ones, so that every machine computes the same bits. Exponentials has what a level does with its registers.

import KernelTypes

/// As Compute's `exponential`, where the method is described, for x within its bounds: e^x = p · 2^n, and n as it was rounded. A
/// multiplication and an addition stay two roundings.
@inline(__always)
func exponentialParts(_ x: Floats) -> (p: Floats, shifted: Floats, n: Floats) {
  let magic = Floats(repeating: 12_582_912)
  let shifted = x * Floats(repeating: 1.442_695_04) + magic
  let n = shifted - magic
  let r = x - n * Floats(repeating: 0.693_359_375) - n * Floats(repeating: -2.121_944_4e-4)
  @inline(__always)
  func step(_ p: Floats, _ coefficient: Float) -> Floats { p * r + Floats(repeating: coefficient) }
  let p0 = step(Floats(repeating: 1.987_569_15e-4), 1.398_199_95e-3)
  let p1 = step(step(p0, 8.333_451_9e-3), 4.166_579_6e-2)
  let p2 = step(step(p1, 1.666_666_55e-1), 5.000_000_1e-1)
  return (p2 * r * r + r + Floats(repeating: 1), shifted, n)
}

/// `out = gate / (1 + e^-gate) · up`; out may be gate. Scalar twin: `Reference.gatedSilu`.
package func gatedSilu(
  _ gate: UnsafePointer<Float>, _ up: UnsafePointer<Float>, _ count: Int,
  into out: UnsafeMutablePointer<Float>
) { gated(gate, up, count, into: out, isGELU: false) }

/// The same with the tanh form of GELU, `gate / (1 + e^-y) · up` with y = 2 · √(2/π) · (gate + 0.044715 gate³). Scalar twin:
/// `Reference.gatedGELU`.
package func gatedGELU(
  _ gate: UnsafePointer<Float>, _ up: UnsafePointer<Float>, _ count: Int,
  into out: UnsafeMutablePointer<Float>
) { gated(gate, up, count, into: out, isGELU: true) }

@inline(__always)
private func gated(
  _ gate: UnsafePointer<Float>, _ up: UnsafePointer<Float>, _ count: Int,
  into out: UnsafeMutablePointer<Float>, isGELU: Bool
) {
  forEachVector(of: count) { at, lanes in
    let x = load(gate, at, lanes: lanes)
    let y = isGELU ? x * (x * x * Floats(repeating: 0.071_354_816_3) + Floats(repeating: 1.595_769_12)) : x
    let divisor = Floats(repeating: 1) + exponential(Floats.zero - y)
    store(x / divisor * load(up, at, lanes: lanes), out, at, lanes: lanes)
  }
}

/// `x = x · Φ(x)`, GELU with the error function; the fit is described at Compute's `Portable.erfGELU`. Scalar twin:
/// `Reference.erfGELU`.
package func erfGELU(_ count: Int, _ x: UnsafeMutablePointer<Float>) {
  forEachVector(of: count) { at, lanes in store(erfGELU(load(x, at, lanes: lanes)), x, at, lanes: lanes) }
}

@inline(__always)
private func erfGELU(_ x: Floats) -> Floats {
  let (zero, one) = (Floats.zero, Floats(repeating: 1))
  let a = larger(zero - x, x)
  let t = one / (a * Floats(repeating: GELUFit.slope) + one)
  @inline(__always)
  func step(_ q: Floats, _ coefficient: Float) -> Floats { q * t + Floats(repeating: coefficient) }
  let q0 = step(Floats(repeating: GELUFit.c8), GELUFit.c7)
  let q1 = step(step(q0, GELUFit.c6), GELUFit.c5)
  let q2 = step(step(q1, GELUFit.c4), GELUFit.c3)
  let q = step(step(step(q2, GELUFit.c2), GELUFit.c1), GELUFit.c0)
  let below = x * (q * exponential(a * a * Floats(repeating: -0.5)))
  return chosen(below, x - below, bySignOf: x)
}
