// The products of bytes of baseline NEON: what this level has instead of SDOT.

import _Builtin_intrinsics.arm.neon

/// Whether panels hold eight bytes of each output side by side, as SMMLA takes them, or four.
@inline(__always)
var isPaired: Bool { false }

/// Adds to each lane the products of its four bytes. A product is at most 2^14, the sum of two fits sixteen bits unless both
/// are -128 · -128, which activations never are.
@inline(__always)
func dot(_ sums: Sums, _ a: Bytes, _ b: Bytes) -> Sums {
  let low = vmull_s8(a.lowHalf, b.lowHalf)
  return vpadalq_s16(sums, vpaddq_s16(low, vmull_s8(a.highHalf, b.highHalf)))
}
