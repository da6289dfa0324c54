// Matrix products in AVX-512: dense float32, and the tile that all unpacked weights go through.
//
// Every output element owns sixteen lanes (column c goes to lane c mod 16), adds its products in column order
// with fused multiply-adds and sums its lanes in one fixed tree. Register blocking (4 weight rows × 4 rows of x)
// only decides how often a loaded vector is reused, never what an element computes.

package import KernelTypes
import _Builtin_intrinsics.intel

/// `y[r][o] = weights[o] · x[r]` for float32 weights. Scalar twin: `Reference.multiply`.
package func multiplyF32(_ weights: FloatRows, _ x: Activations, into y: Output) {
  let (rowBytes, columns) = (weights.rowBytes, weights.columns)
  // One row of x: weights are read once, in the order of memory.
  if x.count == 1 {
    for o in 0..<weights.count { y.base[o] = oneByOne(weights.base + o * rowBytes, x.base, columns) }
    return
  }
  // Rows of x outermost: four of them stay in the first-level cache while the weight tile streams by.
  var r = 0
  while r < x.count {
    let rows = min(4, x.count - r)
    let source = x.base + r * x.stride
    var o = 0
    while o < weights.count {
      let outputs = min(4, weights.count - o)
      let w = weights.base + o * rowBytes
      let target = y.base + r * y.stride + o
      if rows == 4 && outputs == 4 {
        fourByFour(w, rowBytes, source, x.stride, columns, target, y.stride)
      } else if outputs == 4 {
        for i in 0..<rows { fourByOne(w, rowBytes, source + i * x.stride, columns, target + i * y.stride) }
      } else {
        for j in 0..<outputs {
          for i in 0..<rows {
            target[i * y.stride + j] = oneByOne(w + j * rowBytes, source + i * x.stride, columns)
          }
        }
      }
      o += outputs
    }
    r += rows
  }
}

@inline(__always)
private func oneByOne(_ w: UnsafeRawPointer, _ x: UnsafePointer<Float>, _ columns: Int) -> Float {
  var total = _mm512_setzero_ps()
  var c = 0
  while c + 16 <= columns {
    prefetchAhead(w + 4 * c, 64)
    total = _mm512_fmadd_ps(load(w, c), load(x, c), total)
    c += 16
  }
  if c < columns {
    let mask = tailMask(columns - c)
    total = _mm512_fmadd_ps(load(w, c, mask), load(x, c, mask), total)
  }
  return sum(total)
}

@inline(__always)
private func fourByOne(
  _ w0: UnsafeRawPointer, _ rowBytes: Int, _ x: UnsafePointer<Float>, _ columns: Int,
  _ y: UnsafeMutablePointer<Float>
) {
  var totals = registers(of: _mm512_setzero_ps())
  var c = 0
  while c + 16 <= columns {
    let a = load(x, c)
    for o in 0..<4 { set(&totals, o, _mm512_fmadd_ps(load(w0 + o * rowBytes, c), a, get(&totals, o))) }
    c += 16
  }
  if c < columns {
    let mask = tailMask(columns - c)
    let a = load(x, c, mask)
    for o in 0..<4 { set(&totals, o, _mm512_fmadd_ps(load(w0 + o * rowBytes, c, mask), a, get(&totals, o))) }
  }
  (y[0], y[1], y[2], y[3]) = (
    sum(get(&totals, 0)), sum(get(&totals, 1)), sum(get(&totals, 2)), sum(get(&totals, 3))
  )
}

@inline(__always)
private func fourByFour(
  _ w0: UnsafeRawPointer, _ rowBytes: Int, _ x0: UnsafePointer<Float>, _ xStride: Int, _ columns: Int,
  _ y: UnsafeMutablePointer<Float>, _ yStride: Int
) {
  // Output o of row r is register 4 · r + o.
  var totals = registers(of: _mm512_setzero_ps())
  @inline(__always)
  func step(_ c: Int, _ mask: __mmask16) {
    var weights = registers(of: load(w0, c, mask))
    for o in 1..<4 { set(&weights, o, load(w0 + o * rowBytes, c, mask)) }
    for r in 0..<4 {
      let values = load(x0 + r * xStride, c, mask)
      for o in 0..<4 {
        set(&totals, 4 * r + o, _mm512_fmadd_ps(get(&weights, o), values, get(&totals, 4 * r + o)))
      }
    }
  }
  var c = 0
  while c + 16 <= columns {
    step(c, 0xFFFF)
    c += 16
  }
  if c < columns { step(c, tailMask(columns - c)) }
  @inline(__always)
  func store(_ i: Int, _ y: UnsafeMutablePointer<Float>) {
    (y[0], y[1], y[2], y[3]) = (
      sum(get(&totals, i)), sum(get(&totals, i + 1)), sum(get(&totals, i + 2)), sum(get(&totals, i + 3))
    )
  }
  store(0, y)
  store(4, y + yStride)
  store(8, y + 2 * yStride)
  store(12, y + 3 * yStride)
}
