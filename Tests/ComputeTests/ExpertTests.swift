// Experts against the plain formula, one row and one expert at a time.

import Support
import Testing

@testable import Compute

@Suite struct ExpertTests {
  private let experts = 6
  private let hidden = 64
  private let width = 32

  /// Owns bytes that tensors point into.
  private final class Owner {}

  private func dense(_ rows: Int, _ columns: Int, _ random: inout SeededGenerator) -> WeightTensors {
    let bytes = Bytes.floats(rows * columns, using: &random)
    let view = TensorView(
      name: "w", dtype: .f32, shape: [rows, columns],
      bytes: UnsafeRawBufferPointer(start: bytes.start, count: bytes.count), owner: Owner())
    return WeightTensors(weight: view, rows: rows, columns: columns)
  }

  private func rows(_ count: Int, _ columns: Int, _ random: inout SeededGenerator) -> Rows {
    Rows(
      base: Bytes.floats(count * columns, using: &random).floats, count: count, columns: columns,
      stride: columns)
  }

  private func elements(_ rows: Rows) -> [[Float]] { (0..<rows.count).map { rows.values(ofRow: $0) } }

  @Test func `a row's result is the weighted sum over its own experts`() throws {
    var random = SeededGenerator(seed: 31)
    let (gates, ups, downs) = (
      (0..<experts).map { _ in dense(width, hidden, &random) },
      (0..<experts).map { _ in dense(width, hidden, &random) },
      (0..<experts).map { _ in dense(hidden, width, &random) }
    )
    let stack = try ExpertStack(gates: gates, ups: ups, downs: downs, activation: .silu)
    let x = rows(9, hidden, &random)
    let scores = rows(9, experts, &random)
    for isa in CPUFeatures.available {
      for threads in [1, 3] {
        let compute = try ComputeContext(threads: threads, isa: isa)
        let routing = ExpertRouting()
        routing.choose(scores, by: ExpertRule(perRow: 2, scores: .chosen))
        let y = ScratchBuffer.leaked.rows(9, hidden)
        compute.multiply(x, by: stack, routing: routing, into: y)
        for row in 0..<9 {
          var wanted = [Double](repeating: 0, count: hidden)
          for choice in 0..<2 {
            let expert = routing.experts[2 * row + choice]
            let result = plain(gates[expert], ups[expert], downs[expert], x.values(ofRow: row))
            for c in 0..<hidden { wanted[c] += Double(routing.weights[2 * row + choice]) * result[c] }
          }
          let error = worst(y.values(ofRow: row), wanted.map(Float.init)) { _ in 1e-4 }
          #expect(error <= 1, "\(isa), \(threads) threads, row \(row)")
          // Alone, with the same bits.
          let alone = ExpertRouting()
          alone.choose(scores.rows(from: row, count: 1), by: ExpertRule(perRow: 2, scores: .chosen))
          let z = ScratchBuffer.leaked.rows(1, hidden)
          compute.multiply(x.rows(from: row, count: 1), by: stack, routing: alone, into: z)
          #expect(z.values(ofRow: 0).map(\.bitPattern) == y.values(ofRow: row).map(\.bitPattern))
        }
      }
    }
  }

  private func plain(
    _ gate: WeightTensors, _ up: WeightTensors, _ down: WeightTensors, _ x: [Float]
  ) -> [Double] {
    func product(_ tensors: WeightTensors, _ x: [Double]) -> [Double] {
      (0..<tensors.rows).map { row in
        (0..<tensors.columns).reduce(0.0) { sum, column in
          let at = 4 * (row * tensors.columns + column)
          return sum + Double(tensors.weight.bytes.loadUnaligned(fromByteOffset: at, as: Float.self))
            * x[column]
        }
      }
    }
    let x = x.map(Double.init)
    let hidden = zip(product(gate, x), product(up, x)).map { g, u in g / (1 + exponential(-g)) * u }
    return product(down, hidden)
  }

  @Test func `the likeliest are chosen, of equals the first, with shares of all or of the chosen`() {
    let scores = ScratchBuffer.leaked.rows(1, 5)
    for (index, score) in [1, 3, 2, 3, -1].enumerated() { scores.row(0)[index] = Float(score) }
    let routing = ExpertRouting()
    routing.choose(scores, by: ExpertRule(perRow: 3, scores: .chosen))
    #expect(routing.experts == [1, 3, 2])
    // 1 / (1 + 1 + e^-1), and e^-1 of that.
    #expect(abs(routing.weights[0] - 0.422_318_8) < 1e-6 && routing.weights[0] == routing.weights[1])
    #expect(abs(routing.weights[2] - 0.155_362_4) < 1e-6)
    var rule = ExpertRule(perRow: 1, scores: .all)
    rule.expertScales = [1, 10, 1, 1, 1]
    routing.choose(scores, by: rule)
    #expect(routing.experts == [1] && abs(routing.weights[0] - 3.965_845_6) < 1e-5)
    #expect(routing.groups.map(\.expert) == [1] && routing.groups[0].count == 1)
  }

  private func chosen(_ scores: [Float], by rule: ExpertRule) -> (experts: [Int], weights: [Float]) {
    let rows = ScratchBuffer.leaked.rows(1, scores.count)
    for (index, score) in scores.enumerated() { rows.row(0)[index] = score }
    let routing = ExpertRouting()
    routing.choose(rows, by: rule)
    return (routing.experts, routing.weights)
  }

  @Test func `a selection bias decides who is chosen, and not with which weight`() {
    var rule = ExpertRule(perRow: 2, scores: .sigmoid)
    // Sigmoids: 0.5, 0.731, 0.269, 0.881.
    #expect(chosen([0, 1, -1, 2], by: rule).experts == [3, 1])
    rule.selectionBias = [0, 0, 1, -1]
    var found = chosen([0, 1, -1, 2], by: rule)
    #expect(found.experts == [2, 1])
    #expect(distance(found.weights, [0.268_941_4, 0.731_058_6]) < 1e-6)
    rule.renormalizing = 1e-20
    rule.scale = 2.5
    found = chosen([0, 1, -1, 2], by: rule)
    #expect(distance(found.weights, [2.5 * 0.268_941_4, 2.5 * 0.731_058_6] as [Float]) < 1e-6)
    // ERNIE: shares of a softmax, chosen with a bias, weighted among the chosen.
    var ernie = ExpertRule(perRow: 2, scores: .chosen)
    ernie.selectionBias = [5, 0, 5, 0]
    found = chosen([0, 1, -1, 2], by: ernie)
    #expect(found.experts == [0, 2] && distance(found.weights, [0.731_058_6, 0.268_941_4]) < 1e-6)
  }

  @Test func `experts of groups that were not kept are out, however low the others' scores are`() {
    var rule = ExpertRule(perRow: 2, scores: .sigmoid)
    rule.groups = .init(count: 3, kept: 1, leaders: 2)
    // The best expert is in the first group, the best pair in the second.
    #expect(chosen([3, -9, 1, 1, 0, 0], by: rule).experts == [2, 3])
    rule.groups = .init(count: 3, kept: 1, leaders: 1)
    #expect(chosen([3, -9, 1, 1, 0, 0], by: rule).experts == [0, 1])
    // Negative selections of the kept group beat those of a lost one, which would be zero in mlx-lm.
    rule.selectionBias = [-1, -1, -2, -2, -2, -2]
    #expect(chosen([3, -9, 1, 1, 0, 0], by: rule).experts == [0, 1])
    rule.groups = .init(count: 3, kept: 2, leaders: 1)
    #expect(chosen([0, 0, 0, 0, 0, 0], by: rule).experts == [0, 1])
  }

  @Test func `experts of two matrices, and weights that multiply the input`() throws {
    var random = SeededGenerator(seed: 33)
    let ups = (0..<3).map { _ in dense(width, hidden, &random) }
    let downs = (0..<3).map { _ in dense(hidden, width, &random) }
    let stack = try ExpertStack(gates: [], ups: ups, downs: downs, activation: .squaredReLU)
    let (x, scores) = (rows(4, hidden, &random), rows(4, 3, &random))
    let compute = try ComputeContext(threads: 2)
    let routing = ExpertRouting()
    routing.choose(scores, by: ExpertRule(perRow: 1, scores: .sigmoid))
    let (after, before) = (ScratchBuffer.leaked.rows(4, hidden), ScratchBuffer.leaked.rows(4, hidden))
    compute.multiply(x, by: stack, routing: routing, into: after)
    compute.multiply(x, by: stack, routing: routing, weighsInput: true, into: before)
    for row in 0..<4 {
      // max(0, w·u)² = w² · max(0, u)²
      let weight = routing.weights[row]
      let scaled = after.values(ofRow: row).map { $0 * weight }
      #expect(distance(scaled, before.values(ofRow: row)) < 1e-3)
      #expect(after.values(ofRow: row).contains { $0.magnitude > 1e-3 })
    }
  }

  private func distance(_ a: [Float], _ b: [Float]) -> Float {
    zip(a, b).reduce(a.count == b.count ? 0 : .infinity) { max($0, ($1.0 - $1.1).magnitude) }
  }

  @Test func `scores that are not numbers still choose as many experts as asked for`() {
    let scores = ScratchBuffer.leaked.rows(2, 4)
    for column in 0..<4 {
      scores.row(0)[column] = .nan
      scores.row(1)[column] = column == 2 ? .infinity : .nan
    }
    let routing = ExpertRouting()
    routing.choose(scores, by: ExpertRule(perRow: 3, scores: .chosen))
    #expect(routing.experts.count == 6 && Set(routing.experts[..<3]).count == 3)
    #expect(Set(routing.experts[3...]).count == 3)
  }

  @Test func `experts of different shape are refused`() {
    var random = SeededGenerator(seed: 32)
    let gates = [dense(32, 64, &random), dense(32, 64, &random)]
    let downs = [dense(64, 32, &random), dense(64, 16, &random)]
    #expect(throws: ComputeError.self) {
      try ExpertStack(gates: gates, ups: gates, downs: downs, activation: .silu)
    }
    #expect(throws: ComputeError.self) {
      try ExpertStack(gates: [], ups: [], downs: [], activation: .silu)
    }
    // Gates that the activation has no use for.
    #expect(throws: ComputeError.self) {
      try ExpertStack(gates: gates, ups: gates, downs: [downs[0], downs[0]], activation: .squaredReLU)
    }
  }
}

@Suite struct RowMathTests {
  private func rows(_ values: [[Float]]) -> Rows {
    let rows = ScratchBuffer.leaked.rows(values.count, values[0].count)
    for (r, row) in values.enumerated() { for (c, value) in row.enumerated() { rows.row(r)[c] = value } }
    return rows
  }

  @Test func `streams mix by the row's coefficients and are corrected by its factors`() throws {
    let compute = try ComputeContext(threads: 1)
    let streams = [rows([[1, 2]]), rows([[10, 20]])]
    let mixed = [rows([[0, 0]]), rows([[0, 0]])]
    compute.mix(streams, by: rows([[1, 0.5, 0, 2]]), into: mixed)
    #expect(mixed[0].values(ofRow: 0) == [7, 14] && mixed[1].values(ofRow: 0) == [30, 60])
    compute.correct(mixed, toward: rows([[8, 16]]), by: rows([[1, 2]]))
    // Twice and three times what was found beyond the first stream: 1 and 2.
    #expect(mixed[0].values(ofRow: 0) == [9, 18] && mixed[1].values(ofRow: 0) == [33, 66])
  }

  @Test func `only what exceeds the mean by enough deviations is kept`() throws {
    let x = rows([[0, 0, 0, 4]])
    try ComputeContext(threads: 1).keepOutliers(x, beyond: 1)
    // Mean 1, deviation √3.
    #expect(x.values(ofRow: 0)[..<3] == [0, 0, 0] && abs(x.values(ofRow: 0)[3] - 1.267_949_2) < 1e-6)
  }

  @Test func `magnitudes are matched row by row, above a floor`() throws {
    let x = rows([[3, -3], [0, 0]])
    try ComputeContext(threads: 1).matchMagnitude(x, to: rows([[6, 6], [1, 1]]), floor: 1e-5)
    #expect(x.values(ofRow: 0) == [6, -6] && x.values(ofRow: 1) == [0, 0])
  }
}

extension ScratchBuffer {
  /// One that lives on: tests keep bare rows of it.
  fileprivate static var leaked: ScratchBuffer {
    let buffer = ScratchBuffer()
    _ = Unmanaged.passRetained(buffer)
    return buffer
  }
}
