// Scalar twins of the kernels of encoders of audio.

import KernelTypes

extension Reference {
  static func layerNorm(
    _ x: UnsafePointer<Float>, _ gain: UnsafePointer<Float>, _ epsilon: Float, _ columns: Int,
    into out: UnsafeMutablePointer<Float>
  ) {
    var sum = 0.0
    for c in 0..<columns { sum += Double(x[c]) }
    let mean = sum / Double(columns)
    var squares = 0.0
    for c in 0..<columns { squares += (Double(x[c]) - mean) * (Double(x[c]) - mean) }
    let factor = 1 / (squares / Double(columns) + Double(epsilon)).squareRoot()
    for c in 0..<columns { out[c] = Float((Double(x[c]) - mean) * factor * Double(gain[c])) }
  }

  static func gatedSigmoid(
    _ gate: UnsafePointer<Float>, _ up: UnsafePointer<Float>, _ count: Int,
    into out: UnsafeMutablePointer<Float>
  ) {
    for i in 0..<count { out[i] = Float(Double(up[i]) / (1 + exponential(-Double(gate[i])))) }
  }

  static func convolve(
    _ x: Activations, _ weights: UnsafePointer<Float>, _ columns: Int,
    into out: UnsafeMutablePointer<Float>
  ) {
    for c in 0..<columns {
      var sum = 0.0
      for tap in 0..<x.count {
        sum += Double(weights[tap * columns + c]) * Double(x.base[tap * x.stride + c])
      }
      out[c] = Float(sum)
    }
  }

  static func attendLocally(_ head: LocalHead, into out: UnsafeMutablePointer<Float>) {
    let (stride, size, cap, relative) = (head.stride, head.size, head.cap, head.relative)
    var weights: [Double] = []
    for d in 0..<relative.count {
      var sum = 0.0
      for c in 0..<size {
        let key = Double(head.keys[c - d * stride]) + Double(relative.base[d * relative.stride + c])
        sum += Double(head.query[c]) * key
      }
      // tanh(y) = 2 / (1 + e^-2y) - 1; capped scores need no maximum subtracted.
      weights.append(exponential(Double(cap) * (2 / (1 + exponential(-2 * sum / Double(cap))) - 1)))
    }
    let total = weights.reduce(0, +)
    for c in 0..<size {
      var sum = 0.0
      for d in 0..<relative.count { sum += weights[d] * Double(head.values[c - d * stride]) }
      out[c] = Float(sum / total)
    }
  }
}
