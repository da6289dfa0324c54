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
        let maxima = VectorMath.blockMaxima(UnsafeBufferPointer(row))
        #expect(maxima.count == (count + 63) / 64)
        #expect(maxima.max() == (count > 0 ? 1 : nil))
        #expect(
          abs(VectorMath.sumOfExponentials(UnsafeBufferPointer(row), maximum: 1) - expected) <= 1e-6
            * expected)
        let sums = VectorMath.exponentiate(row, maximum: 1, scale: 1)
        #expect(sums.count == maxima.count)
        #expect(abs(sums.reduce(0, +) - expected) <= 1e-6 * expected)
        #expect(row.last == (count > 0 ? 1 : nil))
      }
    }
  }

  @Test func `elements below a value are dropped, equal ones after a position too`() {
    var random = SeededGenerator(seed: 2)
    for round in 0..<200 {
      let row = (0..<Int.random(in: 1...300, using: &random)).map { _ in
        Float(Int.random(in: 0...5, using: &random)) / 5
      }
      let value = Float(Int.random(in: 1...5, using: &random)) / 5
      let last = round % 4 == 0 ? RankedKey.last : Int.random(in: 0..<row.count, using: &random)
      let expected = row.enumerated().map { position, element in
        element > value || (element == value && position <= last) ? element : 0
      }
      var found = row
      let sums = found.withUnsafeMutableBufferPointer { row in
        let maxima = VectorMath.blockMaxima(UnsafeBufferPointer(row))
        let sums = VectorMath.drop(row, below: value, lastEqual: last, blockMaxima: maxima)
        // Blocks with nothing to keep are not touched.
        for (block, sum) in sums.enumerated() where sum == 0 {
          for position in VectorMath.positions(ofBlock: block, of: row.count) { row[position] = 0 }
        }
        return sums
      }
      #expect(found == expected, "round \(round)")
      #expect(abs(sums.reduce(0, +) - expected.reduce(0) { $0 + Double($1) }) < 1e-4)
    }
  }
}
