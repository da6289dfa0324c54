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
  let (w1, w2, w3) = (w0 + rowBytes, w0 + 2 * rowBytes, w0 + 3 * rowBytes)
  var t0 = _mm512_setzero_ps()
  var t1 = t0
  var t2 = t0
  var t3 = t0
  var c = 0
  while c + 16 <= columns {
    let a = load(x, c)
    t0 = _mm512_fmadd_ps(load(w0, c), a, t0)
    t1 = _mm512_fmadd_ps(load(w1, c), a, t1)
    t2 = _mm512_fmadd_ps(load(w2, c), a, t2)
    t3 = _mm512_fmadd_ps(load(w3, c), a, t3)
    c += 16
  }
  if c < columns {
    let mask = tailMask(columns - c)
    let a = load(x, c, mask)
    t0 = _mm512_fmadd_ps(load(w0, c, mask), a, t0)
    t1 = _mm512_fmadd_ps(load(w1, c, mask), a, t1)
    t2 = _mm512_fmadd_ps(load(w2, c, mask), a, t2)
    t3 = _mm512_fmadd_ps(load(w3, c, mask), a, t3)
  }
  y[0] = sum(t0)
  y[1] = sum(t1)
  y[2] = sum(t2)
  y[3] = sum(t3)
}

@inline(__always)
private func fourByFour(
  _ w0: UnsafeRawPointer, _ rowBytes: Int, _ x0: UnsafePointer<Float>, _ xStride: Int, _ columns: Int,
  _ y: UnsafeMutablePointer<Float>, _ yStride: Int
) {
  let (w1, w2, w3) = (w0 + rowBytes, w0 + 2 * rowBytes, w0 + 3 * rowBytes)
  let (x1, x2, x3) = (x0 + xStride, x0 + 2 * xStride, x0 + 3 * xStride)
  let zero = _mm512_setzero_ps()
  // t[row of x][weight row]
  var (t00, t01, t02, t03) = (zero, zero, zero, zero)
  var (t10, t11, t12, t13) = (zero, zero, zero, zero)
  var (t20, t21, t22, t23) = (zero, zero, zero, zero)
  var (t30, t31, t32, t33) = (zero, zero, zero, zero)

  @inline(__always)
  func step(_ c: Int, _ mask: __mmask16) {
    let (a, b) = (load(w0, c, mask), load(w1, c, mask))
    let (d, e) = (load(w2, c, mask), load(w3, c, mask))
    let p = load(x0, c, mask)
    t00 = _mm512_fmadd_ps(a, p, t00)
    t01 = _mm512_fmadd_ps(b, p, t01)
    t02 = _mm512_fmadd_ps(d, p, t02)
    t03 = _mm512_fmadd_ps(e, p, t03)
    let q = load(x1, c, mask)
    t10 = _mm512_fmadd_ps(a, q, t10)
    t11 = _mm512_fmadd_ps(b, q, t11)
    t12 = _mm512_fmadd_ps(d, q, t12)
    t13 = _mm512_fmadd_ps(e, q, t13)
    let r = load(x2, c, mask)
    t20 = _mm512_fmadd_ps(a, r, t20)
    t21 = _mm512_fmadd_ps(b, r, t21)
    t22 = _mm512_fmadd_ps(d, r, t22)
    t23 = _mm512_fmadd_ps(e, r, t23)
    let s = load(x3, c, mask)
    t30 = _mm512_fmadd_ps(a, s, t30)
    t31 = _mm512_fmadd_ps(b, s, t31)
    t32 = _mm512_fmadd_ps(d, s, t32)
    t33 = _mm512_fmadd_ps(e, s, t33)
  }
  var c = 0
  while c + 16 <= columns {
    step(c, 0xFFFF)
    c += 16
  }
  if c < columns { step(c, tailMask(columns - c)) }

  (y[0], y[1], y[2], y[3]) = (sum(t00), sum(t01), sum(t02), sum(t03))
  let y1 = y + yStride
  (y1[0], y1[1], y1[2], y1[3]) = (sum(t10), sum(t11), sum(t12), sum(t13))
  let y2 = y1 + yStride
  (y2[0], y2[1], y2[2], y2[3]) = (sum(t20), sum(t21), sum(t22), sum(t23))
  let y3 = y2 + yStride
  (y3[0], y3[1], y3[2], y3[3]) = (sum(t30), sum(t31), sum(t32), sum(t33))
}
