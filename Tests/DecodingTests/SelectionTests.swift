// Partial selection against a full sort.

import Support
import Testing

@testable import Decoding

/// Positions of the `count` largest by a full sort: by value, ties by position.
private func sortedTop(_ count: Int, _ row: [Float]) -> [Int] {
  let order = row.indices.filter { row[$0] > -.infinity }.sorted {
    row[$0] != row[$1] ? row[$0] > row[$1] : $0 < $1
  }
  return order.prefix(count).sorted()
}

private func top(_ count: Int, _ row: [Float]) -> [Int] {
  row.withUnsafeBufferPointer {
    Selection.largest(count, of: $0, blockMaxima: VectorMath.blockMaxima($0)).map(\.position)
  }
}

@Suite struct SelectionTests {
  @Test func `keys order numbers as numbers and keep value and position`() {
    let values: [Float] = [
      -.infinity, -.greatestFiniteMagnitude, -1, -.leastNonzeroMagnitude, 0, .leastNonzeroMagnitude, 1,
      .infinity,
    ]
    for (a, b) in zip(values, values.dropFirst()) {
      #expect(RankedKey(value: a, position: 0) < RankedKey(value: b, position: 9))
    }
    for value in values {
      let key = RankedKey(value: value, position: 262_143)
      #expect(key.value == value && key.position == 262_143)
    }
    #expect(RankedKey(value: -0.0, position: 1) == RankedKey(value: 0, position: 1))
    #expect(RankedKey(value: 2, position: 1) > RankedKey(value: 2, position: 2))
  }

  @Test func `the largest elements are those of a full sort`() {
    var random = SeededGenerator(seed: 11)
    for round in 0..<300 {
      let size = Int.random(in: 1...700, using: &random)
      var row = (0..<size).map { _ in Float.random(in: -10...10, using: &random) }
      // Few distinct values, sorted rows, and holes are the hard cases.
      if round % 3 == 1 { row = row.map { ($0 / 4).rounded() } }
      if round % 3 == 2 { row.sort() }
      for _ in 0..<size / 10 {
        row[Int.random(in: 0..<size, using: &random)] = [-.infinity, .nan][round % 2]
      }
      let count = Int.random(in: 0...size + 2, using: &random)
      #expect(top(count, row) == sortedTop(count, row), "round \(round)")
    }
  }

  @Test func `nothing is selected from nothing`() {
    #expect(top(3, []) == [])
    #expect(top(3, [.nan, -.infinity]) == [])
    #expect(top(0, [1, 2]) == [])
    #expect(top(.max, [1, 2]) == [0, 1])
  }

  private func nucleus(_ weights: [Float], mass: Double, floor: Float = 0) -> RankedKey {
    weights.withUnsafeBufferPointer {
      Selection.nucleus(of: $0, mass: mass, floor: floor, blockMaxima: VectorMath.blockMaxima($0))
    }
  }

  @Test func `the nucleus ends at the token that reaches the mass`() {
    let weights: [Float] = [0.25, 1, 0.5, 0.75]
    #expect(nucleus(weights, mass: 0).position == 1)
    #expect(nucleus(weights, mass: 0.99).position == 1)
    #expect(nucleus(weights, mass: 1).position == 1)
    #expect(nucleus(weights, mass: 1.01).position == 3)
    #expect(nucleus(weights, mass: 1.75).position == 3)
    #expect(nucleus(weights, mass: 2).position == 2)
    #expect(nucleus(weights, mass: 2.4, floor: 0.1).position == 0)
    #expect(nucleus([Float](repeating: 1, count: 1000), mass: 300).position == 299)
    #expect(nucleus([1, 1, 1], mass: 2.5).position == 2)
  }

  @Test func `a mass beyond the whole keeps everything from the floor up`() {
    let cut = nucleus([0.25, 1, 0.5, 0], mass: 9, floor: 0.125)
    for (position, weight) in [Float(0.25), 1, 0.5].enumerated() {
      #expect(RankedKey(value: weight, position: position) >= cut)
    }
    #expect(RankedKey(value: 0, position: 3) < cut)
  }

  @Test func `the nucleus is that of a full sort`() {
    var random = SeededGenerator(seed: 12)
    for round in 0..<300 {
      var weights = (0..<Int.random(in: 1...700, using: &random)).map { _ in
        Float.random(in: 0...1, using: &random)
      }
      if round % 2 == 0 { weights = weights.map { ($0 * 8).rounded() / 8 } }
      weights[0] = 1
      let order = weights.indices.sorted { weights[$0] != weights[$1] ? weights[$0] > weights[$1] : $0 < $1 }
      // Multiples of an eighth add up exactly; the others hit no mass exactly.
      let mass = Double.random(in: 0...1, using: &random) * weights.reduce(0) { $0 + Double($1) }
      var sum = 0.0
      let expected = order.first { position in
        sum += Double(weights[position])
        return sum >= mass
      }
      #expect(nucleus(weights, mass: mass).position == expected, "round \(round)")
    }
  }

  @Test func `rows that are sorted, or all the same, do not take quadratic time`() {
    for weights in [[Float](repeating: 1, count: 150_000), (0..<150_000).map { Float($0) / 150_000 }] {
      #expect(nucleus(weights, mass: 37_000).value > 0)
      #expect(top(75_000, weights).count == 75_000)
    }
  }
}
