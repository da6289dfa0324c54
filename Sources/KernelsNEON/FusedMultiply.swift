// Products of few rows with packed weights in NEON: weights go from memory to multiply-adds through registers only.
//
// Agrees to the bit with unpacking followed by `multiplyF32`.

package import KernelTypes
import _Builtin_intrinsics.arm.neon

/// The most rows of x the fused kernels take.
package let fusedRowLimit = 2

/// 4-bit weights, at most `fusedRowLimit` rows of x. Scalar twin: `Reference.unpack`, then `Reference.multiply`.
package func multiplyQ4(_ weights: QuantizedRows, _ x: Activations, into y: Output) {
  for o in 0..<weights.count { affineRow(weights.rows(o..<o + 1), 4, x, y.base + o, y.stride) }
}

/// 8-bit weights, at most `fusedRowLimit` rows of x. Scalar twin: `Reference.unpack`, then `Reference.multiply`.
package func multiplyQ8(_ weights: QuantizedRows, _ x: Activations, into y: Output) {
  for o in 0..<weights.count { affineRow(weights.rows(o..<o + 1), 8, x, y.base + o, y.stride) }
}

@inline(__always)
private func affineRow(
  _ row: QuantizedRows, _ bits: Int, _ x: Activations, _ y: UnsafeMutablePointer<Float>, _ yStride: Int
) {
  let isPair = x.count > 1
  var (t, u): (Lanes, Lanes) = ((.zero, .zero), (.zero, .zero))
  var c = 0
  for group in 0..<row.columns / row.groups.size {
    let scale = Four(repeating: scalar(row.groups.scales, row.groups.format, group))
    let bias = Four(repeating: scalar(row.groups.biases, row.groups.format, group))
    prefetchAhead(row.packed + c * bits / 8, 32 * bits / 4)
    for _ in 0..<row.groups.size / 8 {
      let weights = affineEight(row.packed + c * bits / 8, bits, scale, bias)
      add(&t, weights, eight(x.base, c))
      if isPair { add(&u, weights, eight(x.base + x.stride, c)) }
      c += 8
    }
  }
  y[0] = sum(t)
  if isPair { y[yStride] = sum(u) }
}

/// f16 and bf16 weights, at most `fusedRowLimit` rows of x. Scalar twin: `Reference.multiply`.
package func multiplyHalf(_ weights: FloatRows, _ x: Activations, into y: Output) {
  for o in 0..<weights.count {
    let w = weights.base + o * weights.rowBytes
    switch weights.format {
    case .f16: halfRow(w, .f16, weights.columns, x, y.base + o, y.stride)
    case .bf16, .f32: halfRow(w, .bf16, weights.columns, x, y.base + o, y.stride)
    }
  }
}

@inline(__always)
private func halfRow(
  _ w: UnsafeRawPointer, _ format: FloatFormat, _ columns: Int, _ x: Activations,
  _ y: UnsafeMutablePointer<Float>, _ yStride: Int
) {
  let isPair = x.count > 1
  var (t, u): (Lanes, Lanes) = ((.zero, .zero), (.zero, .zero))
  var c = 0
  while c + 8 <= columns {
    if c & 31 == 0 { prefetchAhead(w + 2 * c, 64) }
    let weights = widenEight(w + 2 * c, format)
    add(&t, weights, eight(x.base, c))
    if isPair { add(&u, weights, eight(x.base + x.stride, c)) }
    c += 8
  }
  if c < columns {
    let rest = columns - c
    var weights: Lanes = (.zero, .zero)
    for lane in 0..<rest {
      let value = scalar(w, format, c + lane)
      if lane < 4 { weights.low[lane] = value } else { weights.high[lane - 4] = value }
    }
    add(&t, weights, eightTail(x.base, c, rest))
    if isPair { add(&u, weights, eightTail(x.base + x.stride, c, rest)) }
  }
  y[0] = sum(t)
  if isPair { y[yStride] = sum(u) }
}

/// Weights in a floating mode, at most `fusedRowLimit` rows of x. Scalar twin: `Reference.unpackFloating`, then
/// `Reference.multiply`.
package func multiplyFloating(_ weights: FloatingRows, _ x: Activations, into y: Output) {
  for o in 0..<weights.count {
    let row = weights.rows(o..<o + 1)
    switch weights.mode {
    case .mxfp4: floatingRow(row, .mxfp4, x, y.base + o, y.stride)
    case .mxfp8: floatingRow(row, .mxfp8, x, y.base + o, y.stride)
    case .nvfp4: floatingRow(row, .nvfp4, x, y.base + o, y.stride)
    case .fp8: floatingRow(row, .fp8, x, y.base + o, y.stride)
    case .table: floatingRow(row, .table, x, y.base + o, y.stride)
    }
  }
}

@inline(__always)
private func floatingRow(
  _ row: FloatingRows, _ mode: FloatingMode, _ x: Activations, _ y: UnsafeMutablePointer<Float>,
  _ yStride: Int
) {
  let isPair = x.count > 1
  var (t, u): (Lanes, Lanes) = ((.zero, .zero), (.zero, .zero))
  var c = 0
  for group in 0..<row.columns / mode.groupSize {
    let scale = groupScale(row, group, mode)
    for _ in 0..<mode.groupSize / 8 {
      let weights = floatingEight(row, c, mode, scale)
      add(&t, weights, eight(x.base, c))
      if isPair { add(&u, weights, eight(x.base + x.stride, c)) }
      c += 8
    }
  }
  y[0] = sum(t)
  if isPair { y[yStride] = sum(u) }
}
