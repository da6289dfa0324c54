// Elements that tower over their row: multiplied in float32, with the bits of the slow twin.

import KernelTypes
import Support
import Testing

@testable import Compute

@Suite struct OutlierTests {
  private static let columns = 192

  /// Two parts of 8 bits and one of 4.
  private func stack(
    using random: inout SeededGenerator, arena: PanelArena? = nil
  ) throws -> WeightStack {
    func view(_ bytes: Bytes, _ dtype: DType, _ shape: [Int]) -> TensorView {
      TensorView(
        name: "t", dtype: dtype, shape: shape,
        bytes: UnsafeRawBufferPointer(start: bytes.start, count: shape.reduce(dtype.size, *)), owner: bytes)
    }
    let groups = Self.columns / 64
    return try WeightStack(
      [(37, 8, DType.f32), (16, 4, .f16), (21, 8, .bf16)].map { rows, bits, dtype in
        let format: FloatFormat = dtype == .f32 ? .f32 : dtype == .f16 ? .f16 : .bf16
        return WeightTensors(
          weight: view(
            .random(rows * Self.columns * bits / 8, using: &random), .u32, [rows, Self.columns * bits / 32]),
          scales: view(.floats(groups * rows, format: format, using: &random), dtype, [rows, groups]),
          biases: view(.floats(groups * rows, format: format, using: &random), dtype, [rows, groups]),
          quantization: Quantization(bits: bits, groupSize: 64), rows: rows, columns: Self.columns)
      }, arena: arena)
  }

  /// Rows in -1...1, each with some elements of up to 40 at places of its own.
  private func rows(_ count: Int, using random: inout SeededGenerator) -> [[Float]] {
    (0..<count).map { number in
      var row = (0..<Self.columns).map { _ in Float.random(in: -1...1, using: &random) }
      for _ in 0..<number % 4 {
        row[Int.random(in: 0..<Self.columns, using: &random)] = 40 - Float(number % 7)
      }
      return row
    }
  }

  private func products(
    _ rows: [[Float]], _ stack: WeightStack, _ context: ComputeContext, sparing: Bool = true,
    exactly: Bool = false
  ) -> [[Float]] {
    let (input, output) = (ScratchBuffer(), ScratchBuffer())
    let x = input.rows(rows.count, Self.columns)
    for (index, row) in rows.enumerated() { for (c, value) in row.enumerated() { x.row(index)[c] = value } }
    let y = output.rows(rows.count, stack.rows)
    if sparing {
      context.multiply(x, by: stack, into: y)
    } else {
      context.multiply(x, exactly ? nil : context.quantize(x, for: stack), by: stack, into: y)
    }
    return withExtendedLifetime((input, output)) { rows.indices.map { y.values(ofRow: $0) } }
  }

  /// The rest of a row by the fast mode, then one outlier after the other.
  private func slow(_ row: [Float], _ stack: WeightStack, _ context: ComputeContext) -> [Float] {
    // The order of the sum is that of eight lanes.
    var lanes = [Float](repeating: 0, count: 8)
    for (c, value) in row.enumerated() { lanes[c % 8] += value * value }
    for half in [4, 2, 1] { for lane in 0..<half { lanes[lane] += lanes[lane + half] } }
    let bound = lanes[0] / 32  // rows are short
    var rest = row
    for c in row.indices where row[c] * row[c] > bound { rest[c] = 0 }
    var y = products([rest], stack, context, sparing: false)[0]
    for c in row.indices where row[c] * row[c] > bound {
      var unit = [Float](repeating: 0, count: Self.columns)
      unit[c] = 1
      // A row of one element is that column of the weights, exactly.
      let column = products([unit], stack, context, sparing: false, exactly: true)[0]
      for index in y.indices { y[index] += row[c] * column[index] }
    }
    return y
  }

  @Test func `outliers add what they would alone, in any batch and on any number of threads`() throws {
    var random = SeededGenerator(seed: 41)
    let stack = try stack(using: &random)
    let rows = rows(40, using: &random)
    var all: [[[Float]]] = []
    for threads in [1, 2] {
      let context = try ComputeContext(threads: threads, mode: .fast)
      let batch = products(rows, stack, context)
      #expect(rows.map { products([$0], stack, context)[0] } == batch)
      if context.activeInt8 != nil {
        // The exact products add a column's elements in another order.
        for (row, found) in zip(rows, batch) {
          for (a, b) in zip(slow(row, stack, context), found) { #expect(abs(a - b) < 1e-3 * max(1, abs(a))) }
        }
      }
      all.append(batch)
    }
    #expect(all[0] == all[1])
  }

  @Test func `kernels split rows and add outliers with the bits of the scalar twins`() {
    var random = SeededGenerator(seed: 45)
    for (name, kernels) in tables {
      for number in 0..<12 {
        let x = Bytes.floats(Self.columns, using: &random)
        for _ in 0..<number {
          x.floats[Int.random(in: 0..<Self.columns, using: &random)] = 50 - Float(number)
        }
        if number == 10 { x.floats[17] = .infinity }
        if number == 11 { x.floats[17] = -.nan }
        let split = [kernels, .reference].map { table in
          let (rest, list) = (Bytes.room(Self.columns), Bytes.room(OutlierList.length))
          list.floats.update(repeating: 0, count: OutlierList.length)
          table.splitOutliers(
            x.floats, Self.columns, rest.floats, list.start.assumingMemoryBound(to: UInt32.self))
          #expect(rest.isIntact && list.isIntact)
          return [rest.values(Self.columns), list.values(OutlierList.length)].map { $0.map(\.bitPattern) }
        }
        #expect(split[0] == split[1], "\(name), \(number)")
      }
      let weights = Bytes.floats(40 * OutlierList.outputs, using: &random)
      let lists: [UInt32] = (0..<5).flatMap { row in
        let values = (0..<OutlierList.limit).map { _ in Float.random(in: -9...9, using: &random).bitPattern }
        let places = (0..<OutlierList.limit).map { _ in UInt32.random(in: 0..<40, using: &random) }
        return [UInt32(row * 3)] + places + values
      }
      let bias = Bytes.floats(OutlierList.outputs, using: &random)
      for (number, outputs) in [1, 7, 8, 15, 16, 17, 40, 63, 64, 64].enumerated() {
        let before = Bytes.floats(5 * outputs, using: &random)
        let sums = [kernels, .reference].map { table in
          let y = Bytes.room(5 * outputs)
          for i in 0..<5 * outputs { y.floats[i] = before.floats[i] }
          lists.withUnsafeBufferPointer { lists in
            guard let base = lists.baseAddress else { return }
            table.addOutliers(
              OutlierRows(base: base, count: 5), weights.floats, number % 3 == 0 ? nil : bias.floats, outputs,
              y.output(outputs))
          }
          #expect(y.isIntact)
          return y.values(5 * outputs).map(\.bitPattern)
        }
        #expect(sums[0] == sums[1], "\(name), \(outputs) outputs")
      }
    }
  }

  @Test func `norms and sums of rows have the bits of the portable forms`() {
    var random = SeededGenerator(seed: 47)
    for (name, kernels) in tables {
      for count in [1, 2, 7, 8, 9, 15, 16, 17, 31, 40, 64, 100, 384] {
        let (x, gain) = (Bytes.floats(count, using: &random), Bytes.floats(count, using: &random))
        let results = [kernels, .portable].map { table in
          let out = Bytes.room(count)
          table.layerNorm(x.floats, gain.floats, 1e-12, count, out.floats)
          table.add(gain.floats, count, out.floats)
          table.scale(0.3, count, out.floats)
          #expect(out.isIntact)
          return out.values(count).map(\.bitPattern)
        }
        #expect(results[0] == results[1], "\(name), \(count)")
      }
    }
  }

  @Test func `weights in panels and weights in their file give the same bits`() throws {
    var random = SeededGenerator(seed: 46)
    let context = try ComputeContext(threads: 1, mode: .fast)
    let plain = try stack(using: &random)
    random = SeededGenerator(seed: 46)
    let kept = try stack(using: &random, arena: context.makeArena(identity: []))
    let rows = rows(20, using: &random)
    context.copyBudget = 1 << 24
    #expect(products(rows, kept, context) == products(rows, plain, context))
    #expect(products(rows, kept, context) == products(rows, plain, context))
    if context.activeInt8?.interleaved != nil { #expect(kept.parts.allSatisfy { $0.copiedRows > 0 }) }
  }

  @Test func `a column of outliers for every row gives the same bits`() throws {
    var random = SeededGenerator(seed: 42)
    let stack = try stack(using: &random)
    let context = try ComputeContext(threads: 1, mode: .fast)
    let rows = (0..<150).map { number in
      (0..<Self.columns).map {
        $0 == number ? Float(9 + number % 3) : Float.random(in: -0.1...0.1, using: &random)
      }
    }
    let batch = products(rows, stack, context)
    #expect(rows.map { products([$0], stack, context)[0] } == batch)
    #expect(batch == products(rows, stack, context))
  }

  @Test func `a row with an outlier errs by a fifth of what it did`() throws {
    var random = SeededGenerator(seed: 43)
    let stack = try stack(using: &random)
    let context = try ComputeContext(threads: 1, mode: .fast)
    guard context.activeInt8 != nil else { return }
    var row = (0..<Self.columns).map { _ in Float.random(in: -1...1, using: &random) }
    for c in [3, 70, 150] { row[c] = 30 }
    let exact = products([row], stack, context, sparing: false, exactly: true)[0]
    func error(_ found: [Float]) -> Float {
      zip(found, exact).reduce(0) { $0 + ($1.0 - $1.1) * ($1.0 - $1.1) }.squareRoot()
    }
    let before = error(products([row], stack, context, sparing: false)[0])
    let after = error(products([row], stack, context)[0])
    #expect(after < before / 5)
  }

  @Test func `numbers that are none stay in their own row`() throws {
    var random = SeededGenerator(seed: 44)
    let stack = try stack(using: &random)
    let context = try ComputeContext(threads: 1, mode: .fast)
    var rows = rows(3, using: &random)
    let before = products(rows, stack, context)
    rows[1][5] = .infinity
    rows[1][6] = .nan
    let after = products(rows, stack, context)
    #expect(after[0] == before[0] && after[2] == before[2])
  }
}
