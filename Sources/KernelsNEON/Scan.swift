// The scan of an index in NEON: every row of bytes times a query of two planes.

package import KernelTypes
import _Builtin_intrinsics.arm.neon

/// `out[r] = scales[r] · query.scale · Σ (code - 128) · (128 · high + low)`. Scalar twin: `ScanKernels.reference`.
package func scanCodes(_ rows: CodeRows, _ query: QueryPlanes, _ out: UnsafeMutablePointer<Float>) {
  for row in 0..<rows.count {
    let line = rows.base + row * rows.rowBytes
    var (h0, h1, l0, l1) = (Sums.zero, Sums.zero, Sums.zero, Sums.zero)
    var at = 0
    while at < rows.rowBytes {
      prefetchAhead(line + at, 32)
      let (a, b) = (signed(codes(line + at) ^ 128), signed(codes(line + at + 16) ^ 128))
      h0 = dot(h0, a, bytes(query.high + at))
      l0 = dot(l0, a, bytes(query.low + at))
      h1 = dot(h1, b, bytes(query.high + at + 16))
      l1 = dot(l1, b, bytes(query.low + at + 16))
      at += 32
    }
    let sum = Float(vaddvq_s32(h0 &+ h1)) * 128 + Float(vaddvq_s32(l0 &+ l1))
    out[row] = sum * (rows.scales[row] * query.scale)
  }
}
