// The products of bytes of ARMv8.2 with the dot-product extension: SDOT.

import _Builtin_intrinsics.arm.neon

/// Whether panels hold eight bytes of each output side by side, as SMMLA takes them, or four.
@inline(__always)
var isPaired: Bool { false }

/// Adds to each lane the products of its four bytes.
@inline(__always)
func dot(_ sums: Sums, _ a: Bytes, _ b: Bytes) -> Sums { vdotq_s32(sums, a, b) }
