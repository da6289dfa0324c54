// Matrix products of float32 in NEON: every output owns eight lanes, as in KernelsAVX2, with the same bits.
//
// Column c goes to lane c mod 8, products are added in the order of columns by fused multiply-adds, and the lanes in one
// fixed tree. Four outputs by three rows of x are 24 registers of sums; three rows of x stay in the first-level cache
// while a tile of weights streams by.

package import KernelTypes
import _Builtin_intrinsics.arm.neon

/// `y[r][o] = weights[o] · x[r]` for float32 weights. Scalar twin: `Reference.multiply`.
package func multiplyF32(_ weights: FloatRows, _ x: Activations, into y: Output) {
  var r = 0
  while r < x.count {
    let rows = min(3, x.count - r)
    let (source, target) = (x.base + r * x.stride, y.base + r * y.stride)
    var o = 0
    while o + 4 <= weights.count {
      let w = weights.base + o * weights.rowBytes
      switch rows {
      case 3: threeRows(w, weights.rowBytes, source, x.stride, weights.columns, target + o, y.stride)
      case 2: twoRows(w, weights.rowBytes, source, x.stride, weights.columns, target + o, y.stride)
      default: oneRow(w, weights.rowBytes, source, weights.columns, target + o)
      }
      o += 4
    }
    while o < weights.count {
      for i in 0..<rows {
        target[i * y.stride + o] = oneByOne(
          weights.base + o * weights.rowBytes, source + i * x.stride, weights.columns)
      }
      o += 1
    }
    r += rows
  }
}

@inline(__always)
private func oneByOne(_ w: UnsafeRawPointer, _ x: UnsafePointer<Float>, _ columns: Int) -> Float {
  var total: Lanes = (.zero, .zero)
  var c = 0
  while c + 8 <= columns {
    add(&total, eight(w, c), eight(x, c))
    c += 8
  }
  if c < columns { add(&total, eightTail(w, c, columns - c), eightTail(x, c, columns - c)) }
  return sum(total)
}

/// Four outputs of one row: their lanes.
private typealias Outputs = (Lanes, Lanes, Lanes, Lanes)

@inline(__always)
private var zeros: Outputs {
  let zero: Lanes = (.zero, .zero)
  return (zero, zero, zero, zero)
}

@inline(__always)
private func addLow(_ t: inout Outputs, _ x: Four, _ a: Four, _ b: Four, _ c: Four, _ d: Four) {
  t.0.low = fused(a, x, t.0.low)
  t.1.low = fused(b, x, t.1.low)
  t.2.low = fused(c, x, t.2.low)
  t.3.low = fused(d, x, t.3.low)
}

@inline(__always)
private func addHigh(_ t: inout Outputs, _ x: Four, _ a: Four, _ b: Four, _ c: Four, _ d: Four) {
  t.0.high = fused(a, x, t.0.high)
  t.1.high = fused(b, x, t.1.high)
  t.2.high = fused(c, x, t.2.high)
  t.3.high = fused(d, x, t.3.high)
}

@inline(__always)
private func storeSums(_ t: Outputs, _ y: UnsafeMutablePointer<Float>) {
  (y[0], y[1], y[2], y[3]) = (sum(t.0), sum(t.1), sum(t.2), sum(t.3))
}

@inline(never)
func threeRows(
  _ w0: UnsafeRawPointer, _ rowBytes: Int, _ x0: UnsafePointer<Float>, _ xStride: Int, _ columns: Int,
  _ y: UnsafeMutablePointer<Float>, _ yStride: Int
) {
  let (w1, w2, w3) = (w0 + rowBytes, w0 + 2 * rowBytes, w0 + 3 * rowBytes)
  let (x1, x2) = (x0 + xStride, x0 + 2 * xStride)
  var (t, u, v) = (zeros, zeros, zeros)
  var c = 0
  while c + 8 <= columns {
    // Half of the lanes after the other: twelve sums, three of x and four weights are in use at once.
    let (a, b, d, e) = (four(w0, c), four(w1, c), four(w2, c), four(w3, c))
    addLow(&t, four(x0, c), a, b, d, e)
    addLow(&u, four(x1, c), a, b, d, e)
    addLow(&v, four(x2, c), a, b, d, e)
    let (f, g, h, i) = (four(w0, c + 4), four(w1, c + 4), four(w2, c + 4), four(w3, c + 4))
    addHigh(&t, four(x0, c + 4), f, g, h, i)
    addHigh(&u, four(x1, c + 4), f, g, h, i)
    addHigh(&v, four(x2, c + 4), f, g, h, i)
    c += 8
  }
  if c < columns {
    let rest = columns - c
    addTail(&t, x0 + c, rest, w0 + 4 * c, rowBytes)
    addTail(&u, x1 + c, rest, w0 + 4 * c, rowBytes)
    addTail(&v, x2 + c, rest, w0 + 4 * c, rowBytes)
  }
  storeSums(t, y)
  storeSums(u, y + yStride)
  storeSums(v, y + 2 * yStride)
}

@inline(never)
func twoRows(
  _ w0: UnsafeRawPointer, _ rowBytes: Int, _ x0: UnsafePointer<Float>, _ xStride: Int, _ columns: Int,
  _ y: UnsafeMutablePointer<Float>, _ yStride: Int
) {
  let (w1, w2, w3) = (w0 + rowBytes, w0 + 2 * rowBytes, w0 + 3 * rowBytes)
  let x1 = x0 + xStride
  var (t, u) = (zeros, zeros)
  var c = 0
  while c + 8 <= columns {
    let (a, b, d, e) = (four(w0, c), four(w1, c), four(w2, c), four(w3, c))
    addLow(&t, four(x0, c), a, b, d, e)
    addLow(&u, four(x1, c), a, b, d, e)
    let (f, g, h, i) = (four(w0, c + 4), four(w1, c + 4), four(w2, c + 4), four(w3, c + 4))
    addHigh(&t, four(x0, c + 4), f, g, h, i)
    addHigh(&u, four(x1, c + 4), f, g, h, i)
    c += 8
  }
  if c < columns {
    addTail(&t, x0 + c, columns - c, w0 + 4 * c, rowBytes)
    addTail(&u, x1 + c, columns - c, w0 + 4 * c, rowBytes)
  }
  storeSums(t, y)
  storeSums(u, y + yStride)
}

@inline(never)
func oneRow(
  _ w0: UnsafeRawPointer, _ rowBytes: Int, _ x: UnsafePointer<Float>, _ columns: Int,
  _ y: UnsafeMutablePointer<Float>
) {
  let (w1, w2, w3) = (w0 + rowBytes, w0 + 2 * rowBytes, w0 + 3 * rowBytes)
  var t = zeros
  var c = 0
  while c + 8 <= columns {
    addLow(&t, four(x, c), four(w0, c), four(w1, c), four(w2, c), four(w3, c))
    addHigh(&t, four(x, c + 4), four(w0, c + 4), four(w1, c + 4), four(w2, c + 4), four(w3, c + 4))
    c += 8
  }
  if c < columns { addTail(&t, x + c, columns - c, w0 + 4 * c, rowBytes) }
  storeSums(t, y)
}

/// The last `count` columns of four outputs and one row of x.
@inline(__always)
private func addTail(
  _ t: inout Outputs, _ x: UnsafePointer<Float>, _ count: Int, _ w: UnsafeRawPointer, _ rowBytes: Int
) {
  let values = eightTail(x, 0, count)
  add(&t.0, eightTail(w, 0, count), values)
  add(&t.1, eightTail(w + rowBytes, 0, count), values)
  add(&t.2, eightTail(w + 2 * rowBytes, 0, count), values)
  add(&t.3, eightTail(w + 3 * rowBytes, 0, count), values)
}
