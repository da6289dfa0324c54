// Products of int8 activations with E2M1 weights (mxfp4, nvfp4): twice an E2M1 element is an integer of at most 12.
//
// A table lookup gives the signed integers. For group j, of 32 elements in mxfp4 and 16 in nvfp4:
// w·x = (a/2 · s) · Σ 2e·x8. The lanes are those of Int8Multiply. The weights of a row are looked up once for two rows of x.

package import KernelTypes
import _Builtin_intrinsics.arm.neon

/// `y[r][o] = weights[o] · x[r]` for E2M1 weights and rows of x quantized in blocks of 32, [even | odd]. Scalar twin:
/// `Reference.multiplyInt8Floating`.
package func multiplyInt8Floating(_ weights: FloatingRows, _ x: Int8Activations, into y: Output) {
  var r = 0
  while r < x.count {
    let isPair = r + 1 < x.count
    var (rows, target) = (x, y)
    rows.base = x.base + r * x.rowBytes
    target.base = y.base + r * y.stride
    switch (weights.mode, isPair) {
    case (.nvfp4, false): rowsNVFP4(weights, rows, target)
    case (.nvfp4, true): pairsNVFP4(weights, rows, target)
    case (_, false): rowsMXFP4(weights, rows, target)
    case (_, true): pairsMXFP4(weights, rows, target)
    }
    r += isPair ? 2 : 1
  }
}

@inline(never)
func rowsMXFP4(_ weights: FloatingRows, _ x: Int8Activations, _ y: Output) {
  floatingRows(weights, x, y, .mxfp4, isPair: false)
}

@inline(never)
func rowsNVFP4(_ weights: FloatingRows, _ x: Int8Activations, _ y: Output) {
  floatingRows(weights, x, y, .nvfp4, isPair: false)
}

@inline(never)
func pairsMXFP4(_ weights: FloatingRows, _ x: Int8Activations, _ y: Output) {
  floatingRows(weights, x, y, .mxfp4, isPair: true)
}

@inline(never)
func pairsNVFP4(_ weights: FloatingRows, _ x: Int8Activations, _ y: Output) {
  floatingRows(weights, x, y, .nvfp4, isPair: true)
}

/// Twice the sixteen E2M1 elements.
@inline(__always)
private var doubled: Bytes { Bytes(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12) }

/// Sums of 32 elements with a row of x, or with two: of the first sixteen in lanes 0 and 1, of the others in 2 and 3.
@inline(__always)
private func blockSums(
  _ w: UnsafeRawPointer, _ x: UnsafeRawPointer, _ other: UnsafeRawPointer, isPair: Bool
) -> (Sums, Sums) {
  let weights = codes(w)
  let even = vqtbl1q_s8(doubled, weights & 15)
  let odd = vqtbl1q_s8(doubled, weights &>> 4)
  let sums = dot(dot(.zero, even, bytes(x)), odd, bytes(x + 16))
  return (sums, isPair ? dot(dot(.zero, even, bytes(other)), odd, bytes(other + 16)) : .zero)
}

/// Halves of the scales of four groups with those of x's blocks.
@inline(__always)
private func groupFactors(
  _ scales: Four, _ a: UnsafeRawPointer, _ group: Int, _ mode: FloatingMode
) -> Four {
  guard case .nvfp4 = mode else { return scales * (four(a, group) * 0.5) }
  let (first, second) = (
    (a + 2 * group).loadUnaligned(as: Float.self) * 0.5,
    (a + 2 * group + 4).loadUnaligned(as: Float.self) * 0.5
  )
  return scales * Four(first, first, second, second)
}

/// Row by row in the order of memory, for the first row of x or the first two.
@inline(__always)
private func floatingRows(
  _ weights: FloatingRows, _ x: Int8Activations, _ y: Output, _ mode: FloatingMode, isPair: Bool
) {
  let (group, groups) = (mode.groupSize, weights.columns / mode.groupSize)
  let a = places(weights.columns, 32).a
  let zero = Four.zero
  for o in 0..<weights.count {
    let row = weights.rows(o..<o + 1)
    var (t0, t1, t2, t3) = (zero, zero, zero, zero)
    var (u0, u1, u2, u3) = (zero, zero, zero, zero)
    var j = 0
    while j < groups {
      let (w, column) = (row.packed + j * group / 2, j * group)
      prefetchAhead(w, 2 * group)
      @inline(__always)
      func block(_ i: Int) -> (Sums, Sums) {
        guard column + 32 * i < weights.columns else { return (.zero, .zero) }
        let values = x.base + column + 32 * i
        return blockSums(w + 16 * i, values, values + x.rowBytes, isPair: isPair)
      }
      var scales = zero
      for lane in 0..<min(4, groups - j) {
        scales[lane] = scaleValue(row.scales.load(fromByteOffset: j + lane, as: UInt8.self), mode)
      }
      let (b0, b1) = (block(0), block(1))
      var (sums, others) = (addPairs(b0.0, b1.0), addPairs(b0.1, b1.1))
      if group == 32 {
        let (b2, b3) = (block(2), block(3))
        (sums, others) = (addPairs(sums, addPairs(b2.0, b3.0)), addPairs(others, addPairs(b2.1, b3.1)))
      }
      let first = fused(floats(sums), groupFactors(scales, x.base + a, j, mode), t0)
      (t0, t1, t2, t3) = (t1, t2, t3, first)
      if isPair {
        let second = fused(floats(others), groupFactors(scales, x.base + x.rowBytes + a, j, mode), u0)
        (u0, u1, u2, u3) = (u1, u2, u3, second)
      }
      j += 4
    }
    y.base[o] = sum(((t0 + t2) + (t1 + t3), zero))
    if isPair { y.base[y.stride + o] = sum(((u0 + u2) + (u1 + u3), zero)) }
  }
}
