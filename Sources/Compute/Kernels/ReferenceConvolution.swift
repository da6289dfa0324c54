// Scalar twins of the kernels of encoders of audio.

extension Reference {
  static func layerNorm(
    x: UnsafePointer<Float>, gain: UnsafePointer<Float>, epsilon: Float, columns: Int,
    out: UnsafeMutablePointer<Float>
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
    gate: UnsafePointer<Float>, up: UnsafePointer<Float>, count: Int, out: UnsafeMutablePointer<Float>
  ) {
    for i in 0..<count { out[i] = Float(Double(up[i]) / (1 + exponential(-Double(gate[i])))) }
  }

  static func convolve(
    x: UnsafePointer<Float>, stride: Int, taps: Int, weights: UnsafePointer<Float>, columns: Int,
    out: UnsafeMutablePointer<Float>
  ) {
    for c in 0..<columns {
      var sum = 0.0
      for tap in 0..<taps { sum += Double(weights[tap * columns + c]) * Double(x[tap * stride + c]) }
      out[c] = Float(sum)
    }
  }

  static func attendLocally(
    query: UnsafePointer<Float>, keys: UnsafePointer<Float>, values: UnsafePointer<Float>, stride: Int,
    relative: UnsafePointer<Float>, relativeStride: Int, count: Int, size: Int, cap: Float,
    out: UnsafeMutablePointer<Float>
  ) {
    var weights: [Double] = []
    for d in 0..<count {
      var sum = 0.0
      for c in 0..<size {
        sum += Double(query[c]) * (Double(keys[c - d * stride]) + Double(relative[d * relativeStride + c]))
      }
      // tanh(y) = 2 / (1 + e^-2y) - 1; capped scores need no maximum subtracted.
      weights.append(exponential(Double(cap) * (2 / (1 + exponential(-2 * sum / Double(cap))) - 1)))
    }
    let total = weights.reduce(0, +)
    for c in 0..<size {
      var sum = 0.0
      for d in 0..<count { sum += weights[d] * Double(values[c - d * stride]) }
      out[c] = Float(sum / total)
    }
  }
}
