// Matrix products in AVX2 with FMA: dense float32, and the tile that all unpacked weights go through.
//
// Every output element owns eight lanes (column c goes to lane c mod 8), adds its products in column order with
// fused multiply-adds and sums its lanes in one fixed tree, whatever the register blocking.

import _Builtin_intrinsics.intel

/// `y[r · yStride + o] = weights[o] · x[r]`; see Compute's KernelTable.
package func multiplyF32(
  weights: UnsafeRawPointer, rowBytes: Int, weightRows: Int, x: UnsafePointer<Float>, xStride: Int,
  xRows: Int, columns: Int, y: UnsafeMutablePointer<Float>, yStride: Int
) {
  var r = 0
  while r < xRows {
    let rows = min(2, xRows - r)
    let source = x + r * xStride
    var o = 0
    while o < weightRows {
      let outputs = min(4, weightRows - o)
      let w = weights + o * rowBytes
      let target = y + r * yStride + o
      if rows == 2 && outputs == 4 {
        fourByTwo(w, rowBytes, source, xStride, columns, target, yStride)
      } else {
        for j in 0..<outputs {
          for i in 0..<rows {
            target[i * yStride + j] = oneByOne(w + j * rowBytes, source + i * xStride, columns)
          }
        }
      }
      o += outputs
    }
    r += rows
  }
}

@inline(__always)
func load(_ base: UnsafeRawPointer, _ column: Int) -> __m256 {
  _mm256_loadu_ps((base + column * 4).assumingMemoryBound(to: Float.self))
}

/// The first `count` (0...8) elements, zeros behind them.
@inline(__always)
func loadTail(_ base: UnsafeRawPointer, _ column: Int, _ count: Int) -> __m256 {
  _mm256_maskload_ps((base + column * 4).assumingMemoryBound(to: Float.self), tailMask(count))
}

/// All ones in the lanes of the first `count` elements.
@inline(__always)
func tailMask(_ count: Int) -> __m256i {
  _mm256_cmpgt_epi32(
    _mm256_set1_epi32(Int32(truncatingIfNeeded: count)), _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0))
}

/// The sum of all lanes, always in the same tree.
@inline(__always)
func sum(_ v: __m256) -> Float {
  let four = v.lowHalf + v.highHalf
  let two = four.lowHalf + four.highHalf
  return two[0] + two[1]
}

@inline(__always)
private func oneByOne(_ w: UnsafeRawPointer, _ x: UnsafePointer<Float>, _ columns: Int) -> Float {
  var total = _mm256_setzero_ps()
  var c = 0
  while c + 8 <= columns {
    total = _mm256_fmadd_ps(load(w, c), load(x, c), total)
    c += 8
  }
  if c < columns {
    total = _mm256_fmadd_ps(loadTail(w, c, columns - c), loadTail(x, c, columns - c), total)
  }
  return sum(total)
}

@inline(__always)
private func fourByTwo(
  _ w0: UnsafeRawPointer, _ rowBytes: Int, _ x0: UnsafePointer<Float>, _ xStride: Int, _ columns: Int,
  _ y: UnsafeMutablePointer<Float>, _ yStride: Int
) {
  let (w1, w2, w3) = (w0 + rowBytes, w0 + 2 * rowBytes, w0 + 3 * rowBytes)
  let x1 = x0 + xStride
  let zero = _mm256_setzero_ps()
  var (t00, t01, t02, t03) = (zero, zero, zero, zero)
  var (t10, t11, t12, t13) = (zero, zero, zero, zero)
  var c = 0
  while c + 8 <= columns {
    let (p, q) = (load(x0, c), load(x1, c))
    let a = load(w0, c)
    t00 = _mm256_fmadd_ps(a, p, t00)
    t10 = _mm256_fmadd_ps(a, q, t10)
    let b = load(w1, c)
    t01 = _mm256_fmadd_ps(b, p, t01)
    t11 = _mm256_fmadd_ps(b, q, t11)
    let d = load(w2, c)
    t02 = _mm256_fmadd_ps(d, p, t02)
    t12 = _mm256_fmadd_ps(d, q, t12)
    let e = load(w3, c)
    t03 = _mm256_fmadd_ps(e, p, t03)
    t13 = _mm256_fmadd_ps(e, q, t13)
    c += 8
  }
  if c < columns {
    let rest = columns - c
    let (p, q) = (loadTail(x0, c, rest), loadTail(x1, c, rest))
    let (a, b) = (loadTail(w0, c, rest), loadTail(w1, c, rest))
    let (d, e) = (loadTail(w2, c, rest), loadTail(w3, c, rest))
    t00 = _mm256_fmadd_ps(a, p, t00)
    t10 = _mm256_fmadd_ps(a, q, t10)
    t01 = _mm256_fmadd_ps(b, p, t01)
    t11 = _mm256_fmadd_ps(b, q, t11)
    t02 = _mm256_fmadd_ps(d, p, t02)
    t12 = _mm256_fmadd_ps(d, q, t12)
    t03 = _mm256_fmadd_ps(e, p, t03)
    t13 = _mm256_fmadd_ps(e, q, t13)
  }
  (y[0], y[1], y[2], y[3]) = (sum(t00), sum(t01), sum(t02), sum(t03))
  let y1 = y + yStride
  (y1[0], y1[1], y1[2], y1[3]) = (sum(t10), sum(t11), sum(t12), sum(t13))
}
