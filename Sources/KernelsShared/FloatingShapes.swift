// Products of few rows of x with weights in the floating modes: a function for each mode, at every level of x86-64.
//
// A level has `factors` and `added`, where the mode has to be a constant. All in one they would exceed what the compiler inlines.

package import KernelTypes

/// For few rows of x, to the bit as unpacking followed by `multiplyF32`. Scalar twin: `Reference.unpackFloating`, then
/// `Reference.multiply`.
package func multiplyFloating(_ weights: FloatingRows, _ x: Activations, into y: Output) {
  for r in 0..<x.count {
    let (source, target) = (x.base + r * x.stride, y.base + r * y.stride)
    var o = 0
    while o < weights.count {
      switch weights.mode {
      case .mxfp8: fourMXFP8(weights, o, source, target + o)
      case .nvfp4: fourNVFP4(weights, o, source, target + o)
      case .mxfp4: fourMXFP4(weights, o, source, target + o)
      case .fp8: fourFP8(weights, o, source, target + o)
      case .table: fourTable(weights, o, source, target + o)
      }
      o += 4
    }
  }
}

@inline(never)
func fourMXFP8(
  _ weights: FloatingRows, _ o: Int, _ x: UnsafePointer<Float>, _ y: UnsafeMutablePointer<Float>
) { fourRows(weights, from: o, .mxfp8, x, y) }

@inline(never)
func fourNVFP4(
  _ weights: FloatingRows, _ o: Int, _ x: UnsafePointer<Float>, _ y: UnsafeMutablePointer<Float>
) { fourRows(weights, from: o, .nvfp4, x, y) }

@inline(never)
func fourMXFP4(
  _ weights: FloatingRows, _ o: Int, _ x: UnsafePointer<Float>, _ y: UnsafeMutablePointer<Float>
) { fourRows(weights, from: o, .mxfp4, x, y) }

@inline(never)
func fourFP8(
  _ weights: FloatingRows, _ o: Int, _ x: UnsafePointer<Float>, _ y: UnsafeMutablePointer<Float>
) { fourRows(weights, from: o, .fp8, x, y) }

@inline(never)
func fourTable(
  _ weights: FloatingRows, _ o: Int, _ x: UnsafePointer<Float>, _ y: UnsafeMutablePointer<Float>
) { fourRows(weights, from: o, .table, x, y) }

/// What `sixteen` leaves to multiply by: a power of two, so that it may follow the products.
@inline(__always)
func unit(_ mode: FloatingMode) -> Float {
  mode.bits == 8 ? 256 : 1
}

/// Four rows of weights from row `o` on, of which those that are not there repeat the last: one alone would wait for its
/// chain of dependent multiply-adds.
@inline(__always)
private func fourRows(
  _ weights: FloatingRows, from o: Int, _ mode: FloatingMode, _ x: UnsafePointer<Float>,
  _ y: UnsafeMutablePointer<Float>
) {
  let (rowBytes, scaleRowBytes, groupSize) = (weights.rowBytes, weights.scaleRowBytes, mode.groupSize)
  let groupBytes = groupSize * mode.bits / 8
  let last = min(4, weights.count - o) - 1
  let (i1, i2) = (min(1, last), min(2, last))
  let (w0, s0) = (weights.packed + o * rowBytes, weights.scales + o * scaleRowBytes)
  let (w1, w2, w3) = (w0 + i1 * rowBytes, w0 + i2 * rowBytes, w0 + last * rowBytes)
  let (s1, s2, s3) = (s0 + i1 * scaleRowBytes, s0 + i2 * scaleRowBytes, s0 + last * scaleRowBytes)
  // The same places of the next four rows, unless that is too far.
  let ahead = rowBytes <= 2 * prefetchDistance ? 4 * rowBytes : prefetchDistance
  var totals = registers(of: Floats.zero)
  for group in 0..<weights.columns / groupSize {
    let (f0, f1) = (factors(weights, s0, mode, group), factors(weights, s1, mode, group))
    let (f2, f3) = (factors(weights, s2, mode, group), factors(weights, s3, mode, group))
    let at = ahead + group * groupBytes
    prefetch(w0 + at)
    prefetch(w1 + at)
    prefetch(w2 + at)
    prefetch(w3 + at)
    @inline(__always)
    func addSixteen(_ c: Int) {
      set(&totals, 0, added(w0, c, mode, f0, x, to: get(&totals, 0)))
      set(&totals, 1, added(w1, c, mode, f1, x, to: get(&totals, 1)))
      set(&totals, 2, added(w2, c, mode, f2, x, to: get(&totals, 2)))
      set(&totals, 3, added(w3, c, mode, f3, x, to: get(&totals, 3)))
    }
    addSixteen(group * groupSize)
    if groupSize == 32 { addSixteen(group * groupSize + 16) }
  }
  store(&totals, times: unit(mode), upTo: last, y)
}
