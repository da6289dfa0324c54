// The vectorised exponential and the logarithm against the C library's.

import Platform
import Support
import Testing

@testable import Decoding

@Suite struct VectorMathTests {
  @Test func `the exponential agrees with the C library to 2e-7`() {
    var worst = 0.0
    for index in 0..<20_000 {
      let x = -86.9 * Float(index) / 20_000
      let found = Double(VectorMath.exponential(Lanes(repeating: x))[0])
      let exact = exp(Double(x))
      worst = max(worst, abs(found - exact) / exact)
    }
    #expect(worst < 2e-7, "\(worst)")
  }

  @Test func `the exponential of extreme numbers is 0 or 1`() {
    var x = Lanes(repeating: -87.5)
    x[0] = 0
    x[1] = -.infinity
    x[2] = .nan
    x[3] = .infinity
    x[4] = -.greatestFiniteMagnitude
    x[5] = -0.0
    x[6] = -.leastNonzeroMagnitude
    let found = VectorMath.exponential(x)
    #expect((0..<8).map { found[$0] } == [1, 0, 0, 1, 0, 1, 1, 0])
  }

  @Test func `the logarithm agrees with the C library to 1e-15`() {
    #expect(VectorMath.logarithm(1) == 0)
    var random = SeededGenerator(seed: 3)
    for _ in 0..<2000 {
      let x = exp(Double.random(in: -20...20, using: &random))
      #expect(abs(VectorMath.logarithm(x) - log(x)) <= 1e-15 * max(1, abs(log(x))))
    }
  }

  @Test func `rows of any length are summarised to their last element`() {
    for count in [0, 1, 15, 16, 17, 63, 64, 65, 127, 128, 129, 1000] {
      var row = (0..<count).map { -Float($0) / 100 }
      if count > 0 { row[count - 1] = 1 }
      let expected = row.reduce(0.0) { $0 + exp(Double($1) - 1) }
      row.withUnsafeMutableBufferPointer { row in
        let maxima = VectorMath.blockMaxima(row)
        #expect(maxima.count == (count + 63) / 64)
        #expect(maxima.max() == (count > 0 ? 1 : nil))
        #expect(abs(VectorMath.sumOfExponentials(row, maximum: 1) - expected) <= 1e-6 * expected)
        let total = VectorMath.exponentiate(row, maximum: 1, scale: 1)
        #expect(abs(total - expected) <= 1e-6 * expected)
        #expect((0..<maxima.count).reduce(0.0) { $0 + VectorMath.blockSum(row, $1) } == total)
        #expect(row.last == (count > 0 ? 1 : nil))
      }
    }
  }
}
