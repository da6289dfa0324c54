// What adapters add to products, compared with sums in double precision.

import Compute
import Testing

@Suite struct LowRankTests {
  private static func numbers(_ count: Int, seed: Int) -> [Float] {
    (0..<count).map { Float((($0 + 7 * seed) * 7919) % 2001 - 1000) / 1000 }
  }

  private static func tensor(_ name: String, _ shape: [Int], seed: Int) -> TensorView {
    TensorView(name: name, shape: shape, floats: numbers(shape.reduce(1, *), seed: seed))
  }

  @Test(arguments: CPUFeatures.available, [1, 3, 16, 33, 100])
  func addsBothProducts(_ isa: ISA, rank: Int) throws {
    let compute = try ComputeContext(threads: 2, isa: isa)
    // More than one stretch of outputs, and a rest of one that no vector fills.
    let (rows, columns) = (519, 72)
    let weight = Self.tensor("w", [rows, columns], seed: 1)
    let stack = try WeightStack([WeightTensors(dense: weight)])
    let down = Self.tensor("a", [rank, columns], seed: 2)
    let up = Self.tensor("b", [rows, rank], seed: 3)
    let magnitude = Self.tensor("m", [rows], seed: 4)
    for (magnitude, strength) in [(nil, 1), (nil, 0.5), (magnitude, 1)] as [(TensorView?, Float)] {
      let tensors = LowRankTensors(
        down: down, isDownTurned: false, up: up, isUpTurned: false, magnitude: magnitude, factor: 0.3)
      let pairs = try #require(try compute.makeLowRank([(stack, nil)], [tensors]))
      let (buffer, out) = (ScratchBuffer(), ScratchBuffer())
      for count in [1, 2, 5, 70] {
        let x = buffer.rows(count, columns)
        let y = out.rows(count, rows)
        for r in 0..<count { x.set(r, to: Self.numbers(columns, seed: 5 + r)[...]) }
        compute.multiply(x, by: stack, into: y)
        compute.add(pairs, of: x, strength: strength, to: y)
        for r in 0..<count {
          let wanted = Self.product(
            weight, down, up, magnitude, Self.numbers(columns, seed: 5 + r), 0.3 * Double(strength), rank)
          for (found, wanted) in zip(y.values(ofRow: r), wanted) {
            #expect(abs(Double(found) - wanted) < 2e-4 * max(1, abs(wanted)))
          }
        }
      }
    }
  }

  /// The same in double precision, from the merged matrix.
  private static func product(
    _ weight: TensorView, _ down: TensorView, _ up: TensorView, _ magnitude: TensorView?, _ x: [Float],
    _ factor: Double, _ rank: Int
  ) -> [Double] {
    let (w, a, b) = ((try? weight.floats()) ?? [], (try? down.floats()) ?? [], (try? up.floats()) ?? [])
    let m = (try? magnitude?.floats()) ?? []
    return (0..<weight.shape[0]).map { o in
      let row = x.indices.map { c in
        Double(w[o * x.count + c])
          + factor * (0..<rank).reduce(0.0) { $0 + Double(b[o * rank + $1]) * Double(a[$1 * x.count + c]) }
      }
      let sum = zip(row, x).reduce(0.0) { $0 + $1.0 * Double($1.1) }
      guard !m.isEmpty else { return sum }
      return Double(m[o]) / row.reduce(0.0) { $0 + $1 * $1 }.squareRoot() * sum
    }
  }
}
