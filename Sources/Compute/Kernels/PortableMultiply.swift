// Portable matrix products: each output element owns eight lanes (column c goes to lane c mod 8) and one
// fixed summation tree, so its bits do not depend on how many rows are computed together.

import KernelTypes

extension Portable {
  static func multiply(_ weights: FloatRows, _ x: Activations, into y: Output) {
    let (rowBytes, columns) = (weights.rowBytes, weights.columns)
    var r = 0
    while r + 2 <= x.count {
      let (x0, y0) = (x.base + r * x.stride, y.base + r * y.stride)
      var o = 0
      while o + 2 <= weights.count {
        twoByTwo(weights.base + o * rowBytes, rowBytes, x0, x.stride, columns, y0 + o, y.stride)
        o += 2
      }
      if o < weights.count {
        y0[o] = one(weights.base + o * rowBytes, x0, columns)
        y0[y.stride + o] = one(weights.base + o * rowBytes, x0 + x.stride, columns)
      }
      r += 2
    }
    guard r < x.count else { return }
    let (last, target) = (x.base + r * x.stride, y.base + r * y.stride)
    for o in 0..<weights.count { target[o] = one(weights.base + o * rowBytes, last, columns) }
  }

  @inline(__always)
  private static func one(_ w: UnsafeRawPointer, _ x: UnsafePointer<Float>, _ columns: Int) -> Float {
    var total = Lanes.zero
    var c = 0
    while c + lanes <= columns {
      total += load(w, c) * load(x, c)
      c += lanes
    }
    if c < columns { total += loadTail(w, c, columns - c) * loadTail(x, c, columns - c) }
    return sum(total)
  }

  @inline(__always)
  private static func twoByTwo(
    _ w: UnsafeRawPointer, _ rowBytes: Int, _ x: UnsafePointer<Float>, _ xStride: Int, _ columns: Int,
    _ y: UnsafeMutablePointer<Float>, _ yStride: Int
  ) {
    var t00 = Lanes.zero
    var t01 = Lanes.zero
    var t10 = Lanes.zero
    var t11 = Lanes.zero
    let w1 = w + rowBytes
    let x1 = x + xStride
    var c = 0
    while c + lanes <= columns {
      let (a, b) = (load(w, c), load(w1, c))
      let (u, v) = (load(x, c), load(x1, c))
      t00 += a * u
      t01 += b * u
      t10 += a * v
      t11 += b * v
      c += lanes
    }
    if c < columns {
      let rest = columns - c
      let (a, b) = (loadTail(w, c, rest), loadTail(w1, c, rest))
      let (u, v) = (loadTail(x, c, rest), loadTail(x1, c, rest))
      t00 += a * u
      t01 += b * u
      t10 += a * v
      t11 += b * v
    }
    y[0] = sum(t00)
    y[1] = sum(t01)
    y[yStride] = sum(t10)
    y[yStride + 1] = sum(t11)
  }
}
