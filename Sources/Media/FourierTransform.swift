// The discrete Fourier transform of a power of two of numbers, in place.
//
// Source: Cooley and Tukey's radix 2, decimation in time: bit-reversed order first, then butterflies of growing span.

import Platform

struct FourierTransform: Sendable {
  let size: Int
  private let order: [Int]
  /// e^(-2πi k / size) for k below size / 2.
  private let cosines: [Double]
  private let sines: [Double]

  /// - Precondition: `size` is a power of two.
  init(size: Int) {
    self.size = size
    let bits = size.trailingZeroBitCount
    order = (0..<size).map { index in
      (0..<bits).reduce(0) { $0 | (index >> $1 & 1) << (bits - 1 - $1) }
    }
    cosines = (0..<size / 2).map { cos(2 * Double.pi * Double($0) / Double(size)) }
    sines = (0..<size / 2).map { -sin(2 * Double.pi * Double($0) / Double(size)) }
  }

  /// - Precondition: both have `size` elements.
  func callAsFunction(_ real: inout [Double], _ imaginary: inout [Double]) {
    for (index, other) in order.enumerated() where index < other {
      real.swapAt(index, other)
      imaginary.swapAt(index, other)
    }
    var span = 1
    while span < size {
      let step = size / (2 * span)
      for start in stride(from: 0, to: size, by: 2 * span) {
        for k in 0..<span {
          let (c, s) = (cosines[k * step], sines[k * step])
          let (upper, lower) = (start + k, start + k + span)
          let re = real[lower] * c - imaginary[lower] * s
          let im = real[lower] * s + imaginary[lower] * c
          real[lower] = real[upper] - re
          imaginary[lower] = imaginary[upper] - im
          real[upper] += re
          imaginary[upper] += im
        }
      }
      span *= 2
    }
  }
}
