// Products of few rows of x with weights in the floating modes: a function for each mode, at every level of x86-64.
//
// A level computes `fourRows`, where the mode has to be a constant. All in one they would exceed what the compiler inlines.

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
