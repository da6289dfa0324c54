// Matrix products in AVX2 with FMA: dense float32, and the tile that all unpacked weights go through.
//
// Every output element owns eight lanes (column c goes to lane c mod 8), adds its products in column order with
// fused multiply-adds and sums its lanes in one fixed tree, whatever the register blocking.
//
// Many rows of x go six at a time: a block of their columns stays in the first-level cache while the weights stream
// by from the second. Between two blocks of columns the lanes are kept in memory, as they are.

package import KernelTypes
import _Builtin_intrinsics.intel

/// Eight floats.
typealias Floats = __m256
/// 32 bytes of integers.
typealias Integers = __m256i

/// `y[r][o] = weights[o] · x[r]` for float32 weights. Scalar twin: `Reference.multiply`.
package func multiplyF32(_ weights: FloatRows, _ x: Activations, into y: Output) {
  let (rowBytes, columns) = (weights.rowBytes, weights.columns)
  var r = 0
  if x.count >= 3 && weights.count >= 4 {
    withUnsafeTemporaryAllocation(byteCount: 64 * 6 * 32, alignment: 32) { kept in
      guard let kept = kept.baseAddress?.assumingMemoryBound(to: Float.self) else { return }
      var (source, target) = (x, y)
      while x.count - r >= 3 {
        source.count = x.count - r >= 6 ? 6 : 3
        source.base = x.base + r * x.stride
        target.base = y.base + r * y.stride
        band(weights, source, target, kept)
        r += source.count
      }
    }
  }
  while r < x.count {
    let rows = min(2, x.count - r)
    let source = x.base + r * x.stride
    var o = 0
    while o < weights.count {
      let outputs = min(4, weights.count - o)
      let w = weights.base + o * rowBytes
      let target = y.base + r * y.stride + o
      if rows == 2 && outputs == 4 {
        fourByTwo(w, rowBytes, source, x.stride, columns, target, y.stride)
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

/// Three or six rows of x with all weights. `kept` has room for the lanes of 64 outputs.
@inline(never)
func band(_ weights: FloatRows, _ x: Activations, _ y: Output, _ kept: UnsafeMutablePointer<Float>) {
  let (base, rowBytes, columns) = (weights.base, weights.rowBytes, weights.columns)
  // Blocks of equal length: six rows of x and four of weights take at most 20 KiB.
  let blocks = (columns + 511) / 512
  let step = max(8, ((columns + blocks - 1) / max(1, blocks) + 7) & ~7)
  let whole = weights.count & ~3
  var first = 0
  while first < whole {
    let last = min(first + 64, whole)
    var from = 0
    repeat {
      let to = min(from + step, columns)
      var lanes = kept
      var o = first
      while o < last {
        var i = 0
        while i < x.count {
          fourByThree(
            (base + o * rowBytes, rowBytes), (x.base + i * x.stride, x.stride), (from, to, to == columns),
            lanes, y.base + i * y.stride + o, y.stride)
          lanes += 96
          i += 3
        }
        o += 4
      }
      from = to
    } while from < columns
    first = last
  }
  for o in whole..<weights.count {
    for i in 0..<x.count {
      y.base[i * y.stride + o] = oneByOne(base + o * rowBytes, x.base + i * x.stride, columns)
    }
  }
}

@inline(__always)
func load(_ base: UnsafeRawPointer, _ column: Int) -> __m256 {
  _mm256_loadu_ps((base + column * 4).assumingMemoryBound(to: Float.self))
}

/// The first `count` (0...8) elements, zeros after them.
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
  while c + 16 <= columns {
    prefetchAhead(w + 4 * c, 64)
    total = _mm256_fmadd_ps(load(w, c), load(x, c), total)
    total = _mm256_fmadd_ps(load(w, c + 8), load(x, c + 8), total)
    c += 16
  }
  if c + 8 <= columns {
    total = _mm256_fmadd_ps(load(w, c), load(x, c), total)
    c += 8
  }
  if c < columns {
    total = _mm256_fmadd_ps(loadTail(w, c, columns - c), loadTail(x, c, columns - c), total)
  }
  return sum(total)
}

/// Some columns of four outputs and three rows of x. The lanes of the columns before are in `kept`; they go back there, or
/// after the last columns summed to y.
@inline(__always)
private func fourByThree(
  _ weights: (base: UnsafeRawPointer, rowBytes: Int), _ x: (base: UnsafePointer<Float>, stride: Int),
  _ columns: (from: Int, to: Int, areLast: Bool), _ kept: UnsafeMutablePointer<Float>,
  _ y: UnsafeMutablePointer<Float>, _ yStride: Int
) {
  let (w0, rowBytes) = weights
  let (x0, xStride) = x
  let (from, to, areLast) = columns
  // Output o of row r is register 4 · r + o.
  var totals = registers(of: _mm256_setzero_ps())
  if from > 0 { for i in 0..<12 { set(&totals, i, load(kept, 8 * i)) } }
  @inline(__always)
  func add(_ element: (_ base: UnsafeRawPointer) -> __m256) {
    let (p, q, s) = (element(x0), element(x0 + xStride), element(x0 + 2 * xStride))
    for o in 0..<4 {
      let weight = element(w0 + o * rowBytes)
      set(&totals, o, _mm256_fmadd_ps(weight, p, get(&totals, o)))
      set(&totals, o + 4, _mm256_fmadd_ps(weight, q, get(&totals, o + 4)))
      set(&totals, o + 8, _mm256_fmadd_ps(weight, s, get(&totals, o + 8)))
    }
  }
  var c = from
  while c + 8 <= to {
    add { load($0, c) }
    c += 8
  }
  if c < to { add { loadTail($0, c, to - c) } }
  if areLast {
    store(sums(get(&totals, 0), get(&totals, 1), get(&totals, 2), get(&totals, 3)), y)
    store(sums(get(&totals, 4), get(&totals, 5), get(&totals, 6), get(&totals, 7)), y + yStride)
    store(sums(get(&totals, 8), get(&totals, 9), get(&totals, 10), get(&totals, 11)), y + 2 * yStride)
  } else {
    for i in 0..<12 { _mm256_storeu_ps(kept + 8 * i, get(&totals, i)) }
  }
}

@inline(__always)
private func store(_ four: SIMD4<Float>, _ y: UnsafeMutablePointer<Float>) { _mm_storeu_ps(y, four) }

/// The sums of four registers' lanes, each in the tree of `sum`.
@inline(__always)
func sums(_ a: __m256, _ b: __m256, _ c: __m256, _ d: __m256) -> SIMD4<Float> {
  let (a, b) = (a.lowHalf + a.highHalf, b.lowHalf + b.highHalf)
  let (c, d) = (c.lowHalf + c.highHalf, d.lowHalf + d.highHalf)
  let ab =
    SIMD4(lowHalf: a.lowHalf, highHalf: b.lowHalf) + SIMD4(lowHalf: a.highHalf, highHalf: b.highHalf)
  let cd =
    SIMD4(lowHalf: c.lowHalf, highHalf: d.lowHalf) + SIMD4(lowHalf: c.highHalf, highHalf: d.highHalf)
  return SIMD4(lowHalf: ab.evenHalf, highHalf: cd.evenHalf) + SIMD4(lowHalf: ab.oddHalf, highHalf: cd.oddHalf)
}

@inline(__always)
private func fourByTwo(
  _ w0: UnsafeRawPointer, _ rowBytes: Int, _ x0: UnsafePointer<Float>, _ xStride: Int, _ columns: Int,
  _ y: UnsafeMutablePointer<Float>, _ yStride: Int
) {
  // Output o of row r is register 4 · r + o.
  var totals = registers(of: _mm256_setzero_ps())
  @inline(__always)
  func add(_ element: (_ base: UnsafeRawPointer) -> __m256) {
    let (p, q) = (element(x0), element(x0 + xStride))
    for o in 0..<4 {
      let weight = element(w0 + o * rowBytes)
      set(&totals, o, _mm256_fmadd_ps(weight, p, get(&totals, o)))
      set(&totals, o + 4, _mm256_fmadd_ps(weight, q, get(&totals, o + 4)))
    }
  }
  var c = 0
  while c + 8 <= columns {
    add { load($0, c) }
    c += 8
  }
  if c < columns { add { loadTail($0, c, columns - c) } }
  for r in 0..<2 { for o in 0..<4 { y[r * yStride + o] = sum(get(&totals, 4 * r + o)) } }
}
