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
  var row = row
  return row.withUnsafeMutableBufferPointer {
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

  @Test func `the nucleus ends at the key that reaches the mass`() {
    let keys = [0.1, 0.4, 0.2, 0.3].enumerated().map { RankedKey(value: Float($1), position: $0) }
    #expect(Selection.nucleus(keys, mass: 0).position == 1)
    #expect(Selection.nucleus(keys, mass: 0.39).position == 1)
    #expect(Selection.nucleus(keys, mass: 0.5).position == 3)
    #expect(Selection.nucleus(keys, mass: 0.75).position == 2)
    #expect(Selection.nucleus(keys, mass: 0.95).position == 0)
    #expect(Selection.nucleus(keys, mass: 2).position == 0)
    let equal = (0..<1000).map { RankedKey(value: 1, position: $0) }
    #expect(Selection.nucleus(equal, mass: 300).position == 299)
  }
}
