// Weights copied into panels: the same products, memory that is asked for and given back.

import Platform
import Support
import Testing

@testable import Compute

@Suite struct WeightPanelsTests {
  /// Parts of several widths, one of them without kernels for panels.
  private func stack(_ arena: PanelArena?, using random: inout SeededGenerator) throws -> WeightStack {
    func view(_ bytes: Bytes, _ dtype: DType, _ shape: [Int]) -> TensorView {
      TensorView(
        name: "t", dtype: dtype, shape: shape,
        bytes: UnsafeRawBufferPointer(start: bytes.start, count: shape.reduce(dtype.size, *)), owner: bytes)
    }
    var parts: [WeightTensors] = []
    for (rows, bits) in [(37, 4), (16, 8), (301, 6), (5, 3), (33, nil)] {
      guard let bits else {
        let dense = view(.floats(rows * 192, using: &random), .f32, [rows, 192])
        parts.append(WeightTensors(weight: dense, rows: rows, columns: 192))
        continue
      }
      parts.append(
        WeightTensors(
          weight: view(.random(rows * 24 * bits, using: &random), .u32, [rows, 6 * bits]),
          scales: view(.floats(3 * rows, using: &random), .f32, [rows, 3]),
          biases: view(.floats(3 * rows, using: &random), .f32, [rows, 3]),
          quantization: Quantization(bits: bits, groupSize: 64), rows: rows, columns: 192))
    }
    for (rows, mode, group) in [(45, Quantization.Mode.mxfp4, 32), (18, .nvfp4, 16), (21, .mxfp8, 32)] {
      let bits = mode == .mxfp8 ? 8 : 4
      let scales = Bytes(rows * 192 / group)
      for i in 0..<scales.count {
        scales.start.storeBytes(
          of: UInt8(mode == .nvfp4 ? 40 + i % 9 : 120 + i % 9), toByteOffset: i, as: UInt8.self)
      }
      parts.append(
        WeightTensors(
          weight: view(.random(rows * 24 * bits, using: &random), .u32, [rows, 6 * bits]),
          scales: view(scales, .u8, [rows, 192 / group]), biases: nil,
          quantization: Quantization(mode: mode, bits: bits, groupSize: group), rows: rows, columns: 192))
    }
    parts.append(
      WeightTensors(
        weight: view(.random(19 * 192, using: &random), .u32, [19, 48]),
        scales: view(.floats(2 * 19, using: &random), .f32, [19, 2]), biases: nil,
        quantization: Quantization(mode: .fp8, bits: 8, groupSize: 128), rows: 19, columns: 192))
    return try WeightStack(parts, arena: arena)
  }

  /// The same weights twice: left where they are, and to be copied.
  private func stacks(_ context: ComputeContext) throws -> (mapped: WeightStack, copied: WeightStack) {
    var random = SeededGenerator(seed: 31)
    let mapped = try stack(nil, using: &random)
    random = SeededGenerator(seed: 31)
    return (mapped, try stack(context.makeArena(identity: []), using: &random))
  }

  /// Results of `count` random rows, row by row.
  private func products(_ context: ComputeContext, _ stack: WeightStack, _ count: Int) -> [[Float]] {
    var random = SeededGenerator(seed: UInt64(count))
    let (input, output) = (ScratchBuffer(), ScratchBuffer())
    let x = input.rows(count, 192)
    for r in 0..<count { for c in 0..<192 { x.row(r)[c] = Float.random(in: -1...1, using: &random) } }
    let y = output.rows(count, stack.rows)
    context.multiply(x, by: stack, into: y)
    return withExtendedLifetime((input, output)) { (0..<count).map { y.values(ofRow: $0) } }
  }

  @Test func `the fine mode errs by a hundredth of the fast one's error, alone and in a batch`() throws {
    var random = SeededGenerator(seed: 32)
    let (input, output) = (ScratchBuffer(), ScratchBuffer())
    let x = input.rows(140, 192)
    for r in 0..<x.count { for c in 0..<192 { x.row(r)[c] = Float.random(in: -1...1, using: &random) } }
    var every: [[ArraySlice<Float>]] = []
    for isa in CPUFeatures.available {
      let context = try ComputeContext(threads: 2, isa: isa, mode: .fine)
      guard context.activeInt8 != nil else { continue }
      let (mapped, copied) = try stacks(context)
      func products(_ context: ComputeContext, _ stack: WeightStack, _ x: Rows) -> [[Float]] {
        let y = output.rows(x.count, stack.rows)
        context.multiply(x, by: stack, into: y)
        return (0..<x.count).map { y.values(ofRow: $0) }
      }
      let fine = products(context, mapped, x)
      let alone = (0..<x.count).flatMap { products(context, mapped, x.rows(from: $0, count: 1)) }
      #expect(alone == fine, "\(isa)")
      context.copyBudget = 1 << 20
      #expect(products(context, copied, x) == fine && products(context, copied, x) == fine, "\(isa)")
      let exact = products(try ComputeContext(threads: 2, isa: isa), mapped, x)
      let fast = products(try ComputeContext(threads: 2, isa: isa, mode: .fast), mapped, x)
      // Affine weights, and MXFP4 with NVFP4; those between are dense, and those behind have activations of twelve bits.
      for outputs in [0..<359, 392..<455] {
        func error(_ found: [[Float]]) -> Float {
          zip(found, exact).reduce(0) { sum, rows in
            outputs.reduce(sum) { $0 + (rows.0[$1] - rows.1[$1]) * (rows.0[$1] - rows.1[$1]) }
          }.squareRoot()
        }
        #expect(error(fine) < error(fast) / 100, "\(isa), \(outputs): \(error(fine)), \(error(fast))")
      }
      // Portable sums have an order of their own.
      if isa != .portable { every.append(fine.map { $0[0..<359] + $0[392..<455] }) }
    }
    #expect(every.allSatisfy { $0 == every.first })
    withExtendedLifetime((input, output)) {}
  }

  @Test func `a stack is copied once, and its products stay as they are`() throws {
    for threads in [1, 2] {
      let context = try ComputeContext(threads: threads, mode: .fast)
      let (mapped, copied) = try stacks(context)
      context.copyBudget = 1 << 20
      for count in [1, 3, 9, 40] {
        #expect(products(context, mapped, count) == products(context, copied, count), "\(count) rows")
      }
      #expect(!copied.isCopying)
      let hasKernels = context.activeInt8?.interleaved != nil
      let hasFloating = context.activeInt8?.interleaved?.floating != nil
      #expect(mapped.parts.allSatisfy { $0.panels == nil })
      #expect(
        copied.parts.map { $0.panels != nil }
          == [
            hasKernels, hasKernels, hasKernels, hasKernels, false, hasFloating, hasFloating, hasFloating,
            hasFloating,
          ])
    }
  }

  @Test func `a stack that is copied a little in each step keeps its products on the way`() throws {
    let context = try ComputeContext(threads: 2, mode: .fast)
    let (mapped, copied) = try stacks(context)
    let wanted = products(context, mapped, 5)
    context.copiedAtOnce = 1
    var steps = 0
    while copied.isCopying, steps < 100 {
      // One panel: 37, 16, 301 and 5 rows are 3, 1, 19 and 1 of them, 45, 18, 21 and 19 of floating weights 3, 2, 2 and 2.
      context.copyBudget = 1
      #expect(products(context, copied, 5) == wanted, "step \(steps)")
      steps += 1
    }
    let kernels = context.activeInt8?.interleaved
    #expect(steps == (kernels == nil ? 0 : kernels?.floating == nil ? 24 : 33))
  }

  @Test func `a stack that is copied over two nodes of memory keeps its products on the way`() throws {
    // The same processors twice: what is asked of the system is possible on any machine.
    let nodes = [Topology.here.nodes[0], Topology.here.nodes[0]]
    let context = try ComputeContext(threads: 5, mode: .fast, nodes: nodes)
    #expect(context.pool.nodes == 2)
    let (mapped, copied) = try stacks(context)
    context.copiedAtOnce = 1
    for count in [1, 3, 9, 40] {
      context.copyBudget = 20_000
      #expect(products(context, mapped, count) == products(context, copied, count), "\(count) rows")
    }
    context.copyBudget = 1 << 20
    #expect(products(context, mapped, 8) == products(context, copied, 8))
    #expect(!copied.isCopying || context.activeInt8?.interleaved == nil)
  }

  @Test func `more threads than tiles of weights share rows of x, with the same products`() throws {
    let one = try ComputeContext(threads: 1, mode: .fast)
    let many = try ComputeContext(threads: 40, mode: .fast)
    let (mapped, copied) = try stacks(one)
    let tiles = many.tiles(
      of: mapped, tileRows: many.tileRows(outputs: mapped.rows, columns: 192, xRows: 257))
    #expect(ComputeContext.shares(of: 257, besides: tiles, threads: 40) == 3)
    for count in [127, 128, 257] {
      let expected = products(one, mapped, count)
      #expect(products(many, mapped, count) == expected)
      #expect(products(many, copied, count) == expected)
    }
  }

  @Test(arguments: [
    // Rows, tiles, threads, shares.
    (512, 64, 2, 1), (512, 64, 16, 1), (512, 64, 32, 1), (512, 64, 64, 2), (512, 64, 128, 4),
    (512, 256, 128, 1),
    (127, 16, 128, 1), (128, 16, 128, 2), (1, 1, 128, 1), (0, 0, 4, 1),
  ])
  func `rows of x are shared where tiles are few beside the threads`(
    rows: Int, tiles: Int, threads: Int, shares: Int
  ) {
    #expect(ComputeContext.shares(of: rows, besides: tiles, threads: threads) == shares)
  }

  @Test func `pieces are aligned, apart and zero, and go with their arena`() throws {
    let sizes = [1, 100, 64, 5000, 3 << 20, 1000, 5 << 20, 20 << 20, 2 << 20]
    var arena: PanelArena? = PanelArena { _ in true }
    var starts: [(UnsafeMutableRawPointer, Int)] = []
    for size in sizes {
      let start = try #require(arena?.allocate(size))
      #expect(Int(bitPattern: start) % 64 == 0 && start.load(as: UInt8.self) == 0)
      (start + size - 1).storeBytes(of: 1, as: UInt8.self)
      starts.append((start, size))
    }
    starts.sort { $0.0 < $1.0 }
    for (one, next) in zip(starts, starts.dropFirst()) { #expect(one.0 + one.1 <= next.0) }
    weak let gone = arena
    arena = nil
    #expect(gone == nil)
  }

  @Test func `without memory nothing is taken`() {
    let arena = PanelArena { $0 <= 1000 }
    #expect(arena.allocate(1 << 20) == nil)
    #expect(arena.allocate(900) != nil)
    #expect(arena.allocate(1 << 20) == nil)
    #expect(arena.allocate(60) != nil)
  }
}
