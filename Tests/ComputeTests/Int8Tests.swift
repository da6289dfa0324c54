// The integer kernels against their scalar twin, to the bit, and the fast mode against the exact one.

import KernelTypes
import Support
import Testing

@testable import Compute

#if arch(x86_64)
  import KernelsAMXTwin
  import KernelsVNNITwin
#endif

@Suite struct Int8Tests {
  /// How weights are stored: every width, with groups of every size and scales of every format.
  struct Storage: CustomStringConvertible {
    let bits, group: Int
    let format: FloatFormat

    static let all = WeightMatrix.supportedBits.flatMap { bits in
      [(32, FloatFormat.f32), (32, .bf16), (64, .f16), (64, .bf16), (128, .bf16)].map { group, format in
        Storage(bits: bits, group: group, format: format)
      }
    }

    /// Bytes of GGUF blocks, which only panels have in other widths (`BlockRowsTests`).
    static let sixteens = Storage(bits: 8, group: 16, format: .f32)

    var description: String { "\(bits) bits, group \(group), \(format)" }
  }

  /// Those that integer kernels take.
  private static let floatingModes = [FloatingMode.mxfp4, .nvfp4, .mxfp8, .fp8]

  /// The kernel sets of this machine that have integer kernels, AVX-VNNI's in instructions of AVX2, and AMX's in plain ones.
  private var integerTables: [(name: String, int8: Int8Kernels)] {
    var all = tables.compactMap { table in table.kernels.int8.map { (table.name, $0) } }
    #if arch(x86_64)
      if CPUFeatures.available.contains(.avx2), var int8 = KernelTable.avx2.int8 {
        int8.interleaved = InterleavedKernels(
          panelBytes: KernelsVNNITwin.int8InterleavedBytes, make: KernelsVNNITwin.interleaveInt8,
          multiply: KernelsVNNITwin.multiplyInt8Interleaved, columns: KernelsVNNITwin.panelColumns)
        all.append(("avxvnni without VNNI", int8))
      }
      if CPUFeatures.available.contains(.avx512), var int8 = KernelTable.avx512.int8 {
        int8.panelBytes = KernelsAMXTwin.int8PanelBytes
        int8.multiplyPanel = KernelsAMXTwin.multiplyInt8Panel
        int8.interleaved?.multiply = KernelsAMXTwin.multiplyInt8Interleaved
        all.append(("amx without tiles", int8))
      }
    #endif
    return all
  }

  /// Columns that fill no whole number of 16 blocks or of 64 elements.
  @Test(arguments: Storage.all + [.sixteens])
  func `integer products have the bits of the scalar twin, by rows and by panels`(storage: Storage) {
    if CPUFeatures.available.contains(.avx512) { #expect(KernelTable.table(for: .avx512).int8 != nil) }
    var random = SeededGenerator(seed: 13)
    for (name, int8) in integerTables {
      for groups in [1, 2, 3, 4, 5, 6, 7, 11, 12, 16, 19] {
        let product = Product(storage, groups: groups, random: &random)
        let exact = product.byRows(Reference.int8, xRows: 37)
        #expect(product.byRows(int8, xRows: 37) == exact, "\(name), \(groups) groups")
        // Panels take other widths repacked.
        guard storage.bits == 4 || storage.bits == 8 else { continue }
        for xRows in Array(Panel.worthwhileRows...9) + [32, 37] {
          #expect(
            product.byPanels(int8, xRows: xRows) == Array(exact.prefix(xRows * product.weightRows)),
            "\(name), \(groups) groups, \(xRows) rows")
        }
      }
    }
  }

  @Test(arguments: Storage.all)
  func `integer products of weights kept in panels have the bits of the scalar twin`(storage: Storage) {
    if CPUFeatures.available.contains(.avx512) {
      #expect(KernelTable.table(for: .avx512).int8?.interleaved != nil)
    }
    var random = SeededGenerator(seed: 18)
    for (name, int8) in integerTables {
      guard let interleaved = int8.interleaved else { continue }
      for groups in [1, 2, 3, 4, 5, 7, 12, 16, 19] {
        let product = Product(storage, groups: groups, random: &random)
        let exact = product.byRows(Reference.int8, xRows: 37)
        for xRows in [1, 2, 3, 4, 5, 7, 8, 9, 13, 32, 37] {
          #expect(
            product.inPanels(interleaved, of: int8, xRows: xRows)
              == Array(exact.prefix(xRows * product.weightRows)),
            "\(name), \(groups) groups, \(xRows) rows")
        }
      }
    }
  }

  /// Every column of a product's weights, in any order.
  private func columns(of product: Product, _ order: [UInt32], _ read: (WeightColumns) -> Void) -> [UInt32] {
    let out = Bytes.room(order.count * OutlierList.outputs)
    order.withUnsafeBufferPointer { list in
      guard let columns = list.baseAddress else { return }
      read(WeightColumns(base: out.floats, columns: columns, count: list.count))
    }
    #expect(out.isIntact)
    return order.indices.flatMap { index in
      (0..<product.weightRows).map { out.floats[index * OutlierList.outputs + $0].bitPattern }
    }
  }

  @Test(arguments: Storage.all)
  func `columns of rows and of kept panels have the bits of the scalar twin`(storage: Storage) throws {
    var random = SeededGenerator(seed: 19)
    for groups in [1, 3, 8] {
      let product = Product(storage, groups: groups, random: &random)
      let order = (0..<storage.group * groups).map { UInt32($0) }.shuffled(using: &random)
      let exact = columns(of: product, order) { Reference.columns(of: product.weights.rows, into: $0) }
      let guarded = try product.beforeGuards()
      for (name, kernels) in tables {
        let found = columns(of: product, order) { kernels.columns(guarded.weights.rows, $0) }
        #expect(found == exact, "\(name), \(groups) groups")
      }
      for (name, int8) in integerTables {
        guard let interleaved = int8.interleaved else { continue }
        let found = columns(of: product, order) { target in
          product.withPanels(interleaved, of: int8) { interleaved.columns($0, target) }
        }
        #expect(found == exact, "\(name), \(groups) groups")
      }
    }
  }

  /// A tensor may end where its file's mapping does.
  @Test(arguments: WeightMatrix.supportedBits)
  func `nothing is read after weights, scales and biases`(bits: Int) throws {
    var random = SeededGenerator(seed: 17)
    for (name, int8) in integerTables {
      for (group, groups) in [(32, 3), (32, 5), (32, 32), (64, 3), (64, 16), (64, 19), (128, 11)] {
        let storage = Storage(bits: bits, group: group, format: .bf16)
        let product = Product(storage, groups: groups, random: &random)
        let found = try product.beforeGuards().byRows(int8, xRows: 2)
        #expect(found == product.byRows(Reference.int8, xRows: 2), "\(name), \(groups) groups of \(group)")
      }
    }
  }

  @Test(arguments: Self.floatingModes)
  func `integer products of floating weights have the bits of the scalar twin`(mode: FloatingMode) {
    var random = SeededGenerator(seed: 16)
    for (name, int8) in integerTables where mode.bits == 4 || int8.wide != nil {
      for (blocks, weightRows) in [(1, 5), (2, 16), (3, 17), (17, 5), (34, 3)] {
        let columns = 32 * blocks
        let weights = FloatingWeights(weightRows, columns, mode, scaleShift: 2, using: &random)
        // The smallest power of two.
        if [.mxfp4, .mxfp8].contains(mode) { weights.scales.start.storeBytes(of: 0, as: UInt8.self) }
        // 128 rows are prepared together, where panels take them.
        let counts = [1, 2, 3, 4, 5, 8, 9, 13, 16, 20] + (blocks == 3 ? [128, 129, 131, 133] : [])
        let x = Bytes.floats(133 * columns, using: &random).activations(133, columns)
        for xRows in counts {
          let results = [int8, Reference.int8].map { kernels in
            let rows = Int8Rows(x.first(xRows), columns, mode, by: kernels)
            let y = Bytes.room(weightRows * xRows)
            kernels.multiplyFloating(weights.rows, rows.activations, y.output(weightRows))
            #expect(rows.bytes.isIntact && y.isIntact)
            return y.values(weightRows * xRows).map(\.bitPattern)
          }
          #expect(results[0] == results[1], "\(name), \(blocks) blocks, \(xRows) rows")
        }
      }
    }
  }

  @Test(arguments: Self.floatingModes)
  func `floating weights in panels have the products of the scalar twin`(mode: FloatingMode) {
    var random = SeededGenerator(seed: 19)
    for (name, int8) in integerTables {
      guard mode.bits == 4 || int8.wide != nil, let kept = int8.interleaved?.floating else { continue }
      for (blocks, weightRows) in [(1, 5), (2, 16), (3, 17), (5, 40), (16, 33), (17, 5), (34, 3)] {
        let columns = 32 * blocks
        let weights = FloatingWeights(weightRows, columns, mode, scaleShift: 2, using: &random)
        if [.mxfp4, .mxfp8].contains(mode) { weights.scales.start.storeBytes(of: 0, as: UInt8.self) }
        let panelBytes = kept.panelBytes(mode, columns)
        let count = (weightRows + Panel.width - 1) / Panel.width
        #expect(panelBytes % 64 == 0)
        let panels = Bytes(count * panelBytes)
        let scratch = Bytes(int8.panelBytes(columns, 32))
        for index in 0..<count {
          let rows = index * Panel.width..<min((index + 1) * Panel.width, weightRows)
          kept.make(weights.rows.rows(rows), panels.start + index * panelBytes, scratch.start)
        }
        #expect(panels.isIntact && scratch.isIntact)
        let all = FloatingPanelRows(
          base: panels.start, mode: mode, columns: columns, count: weightRows, aheadBytes: 0)
        let x = Bytes.floats(133 * columns, using: &random).activations(133, columns)
        for xRows in [1, 2, 3, 4, 5, 8, 9, 13, 32, 40] + (blocks == 3 ? [128, 129, 131, 133] : []) {
          let rows = Int8Rows(x.first(xRows), columns, mode, by: int8)
          let y = Bytes.room(weightRows * xRows)
          kept.multiply(all, rows.activations, y.output(weightRows))
          #expect(rows.bytes.isIntact && y.isIntact)
          let twins = Int8Rows(x.first(xRows), columns, mode, by: Reference.int8)
          let expected = Bytes.room(weightRows * xRows)
          Reference.int8.multiplyFloating(weights.rows, twins.activations, expected.output(weightRows))
          #expect(
            y.values(weightRows * xRows).map(\.bitPattern)
              == expected.values(weightRows * xRows).map(\.bitPattern),
            "\(name), \(blocks) blocks, \(weightRows) by \(xRows) rows")
        }
      }
    }
  }

  /// More rows than are multiplied before the next panel.
  @Test func `many rows of E4M3 weights have the bits of the scalar twin`() {
    var random = SeededGenerator(seed: 22)
    let (columns, xRows) = (2048, 83)
    let weights = FloatingWeights(18, columns, .mxfp8, using: &random)
    let x = Bytes.floats(xRows * columns, using: &random).activations(xRows, columns)
    for (name, int8) in integerTables where int8.wide != nil {
      let results = [int8, Reference.int8].map { kernels in
        let rows = Int8Rows(x, columns, .mxfp8, by: kernels)
        let y = Bytes.room(18 * xRows)
        kernels.multiplyFloating(weights.rows, rows.activations, y.output(18))
        return y.values(18 * xRows).map(\.bitPattern)
      }
      #expect(results[0] == results[1], "\(name)")
    }
  }

  /// What the largest elements of a block leave of the others, and twelve bits of the activations.
  @Test func `products of E4M3 weights as integers are near the exact ones`() {
    var random = SeededGenerator(seed: 21)
    let (columns, weightRows, xRows) = (1024, 40, 9)
    let weights = FloatingWeights(weightRows, columns, .mxfp8, using: &random)
    // No NaN, and in each block one of the largest elements.
    for i in 0..<weightRows * columns {
      let code = i % 32 == 0 ? 0x7E : random.next() & 0xF7
      weights.packed.start.storeBytes(of: UInt8(code), toByteOffset: i, as: UInt8.self)
    }
    let x = Bytes.floats(xRows * columns, using: &random).activations(xRows, columns)
    let unpacked = Bytes.room(weightRows * columns)
    Reference.unpackFloating(weights.rows, into: unpacked.output(columns))
    for (name, int8) in integerTables where int8.wide != nil {
      let y = Bytes.room(weightRows * xRows)
      int8.multiplyFloating(
        weights.rows, Int8Rows(x, columns, .mxfp8, by: int8).activations, y.output(weightRows))
      var (error, power) = (0.0, 0.0)
      for r in 0..<xRows {
        for o in 0..<weightRows {
          let exact = (0..<columns).reduce(0.0) {
            $0 + Double(unpacked.floats[o * columns + $1]) * Double(x.base[r * x.stride + $1])
          }
          let difference = Double(y.floats[r * weightRows + o]) - exact
          error += difference * difference
          power += exact * exact
        }
      }
      #expect((error / power).squareRoot() < 5e-4, "\(name): \((error / power).squareRoot())")
    }
  }

  @Test(arguments: Self.floatingModes)
  func `nothing is read after floating weights and their scales`(mode: FloatingMode) throws {
    var random = SeededGenerator(seed: 18)
    for (name, int8) in integerTables where mode.bits == 4 || int8.wide != nil {
      for (blocks, xRows) in [(1, 2), (3, 4), (5, 9), (19, 8)] {
        let (columns, weightRows) = (32 * blocks, 21)
        let weights = FloatingWeights(weightRows, columns, mode, scaleShift: 2, using: &random)
        let x = Bytes.floats(xRows * columns, using: &random).activations(xRows, columns)
        let expected = Bytes.room(weightRows * xRows)
        let twins = Int8Rows(x, columns, mode, by: Reference.int8)
        Reference.int8.multiplyFloating(weights.rows, twins.activations, expected.output(weightRows))
        var guarded = weights.rows
        let packed = try Bytes(beforeGuard: weights.packed)
        let scales = try Bytes(beforeGuard: weights.scales)
        (guarded.packed, guarded.scales) = (UnsafeRawPointer(packed.start), UnsafeRawPointer(scales.start))
        let rows = Int8Rows(x, columns, mode, by: int8)
        let y = Bytes.room(weightRows * xRows)
        int8.multiplyFloating(guarded, rows.activations, y.output(weightRows))
        let count = weightRows * xRows
        #expect(
          y.values(count).map(\.bitPattern) == expected.values(count).map(\.bitPattern),
          "\(name), \(blocks) blocks, \(xRows) rows")
      }
    }
  }

  @Test(arguments: [2, 3, 5, 6])
  func `weights of every width are rewritten as nibbles or bytes, whatever their alignment`(bits: Int) {
    var random = SeededGenerator(seed: 15)
    for (name, int8) in integerTables {
      for (units, misaligned) in [(1, 0), (2, 1), (5, 3)] {
        let packed = Bytes.random(4 * bits * units, misaligned: misaligned, using: &random)
        let size = 32 * units * (bits > 4 ? 2 : 1) / 2
        let results = [int8, Reference.int8].map { kernels in
          let out = Bytes(size)
          kernels.repack(packed.start, bits, 32 * units, out.start)
          #expect(out.isIntact)
          return (0..<size).map { out.start.load(fromByteOffset: $0, as: UInt8.self) }
        }
        #expect(results[0] == results[1], "\(name), \(units) units")
        // The twin itself against the drawing in WeightMatrix.
        let last = 32 * units - 1
        let stored = results[1][bits > 4 ? last : last / 2]
        #expect(Int(bits > 4 ? stored : stored >> 4) == Reference.quantum(packed.start, bits, last))
      }
    }
  }

  @Test func `rows of zeros and of one large value are quantized without loss`() {
    for (name, int8) in integerTables + [("reference", Reference.int8)] {
      var random = SeededGenerator(seed: 14)
      let one = Product(Storage(bits: 8, group: 32, format: .f32), groups: 2, random: &random)
      for i in 0..<64 { one.x.floats[i] = 0 }
      #expect(one.byRows(int8, xRows: 1).allSatisfy { $0 == 0 }, "\(name)")
      one.x.floats[5] = 127
      let weight = Reference.element(one.weights.scales.start, .f32, 0)
      let bias = Reference.element(one.weights.biases.start, .f32, 0)
      let q = Float(one.weights.packed.start.load(fromByteOffset: 5, as: UInt8.self))
      let found = Float(bitPattern: one.byRows(int8, xRows: 1)[0])
      #expect(abs(found - 127 * (weight * q + bias)) < 1e-2, "\(name)")
    }
  }

  /// Rows quantized by one set of kernels.
  private struct Int8Rows {
    let bytes: Bytes
    let activations: Int8Activations

    init(_ x: Activations, _ columns: Int, block: Int, _ order: Int8Order, by kernels: Int8Kernels) {
      self.init(x, rowBytes: kernels.rowBytes(columns, block)) {
        kernels.quantize($0, columns, block, order, $1)
      }
    }

    /// In the form that weights in a floating mode need.
    init(_ x: Activations, _ columns: Int, _ mode: FloatingMode, by kernels: Int8Kernels) {
      if mode.bits == 8, let wide = kernels.wide {
        self.init(x, rowBytes: wide.rowBytes(columns)) { wide.quantize($0, columns, $1) }
      } else {
        self.init(x, columns, block: 32, .evenOdd, by: kernels)
      }
    }

    private init(
      _ x: Activations, rowBytes: Int, quantize: (UnsafePointer<Float>, UnsafeMutableRawPointer) -> Void
    ) {
      bytes = Bytes(rowBytes * x.count)
      for r in 0..<x.count { quantize(x.base + r * x.stride, bytes.start + r * rowBytes) }
      activations = Int8Activations(base: bytes.start, rowBytes: rowBytes, count: x.count)
    }
  }

  /// Random weights and activations. Results are bit patterns, row by row.
  private struct Product {
    /// A whole panel, and a part of one.
    let weightRows = 21
    var weights: AffineWeights
    let x: Bytes

    init(_ storage: Storage, groups: Int, random: inout SeededGenerator) {
      weights = AffineWeights(
        weightRows, storage.group * groups, bits: storage.bits, group: storage.group, format: storage.format,
        using: &random)
      x = .floats(37 * weights.columns, using: &random)
    }

    /// The same with memory after the weights that cannot be read.
    func beforeGuards() throws -> Product {
      var copy = self
      copy.weights = try weights.beforeGuards()
      return copy
    }

    private var block: Int { min(weights.group, Int8Block.limit) }

    private func quantized(_ xRows: Int, by kernels: Int8Kernels) -> Int8Rows {
      Int8Rows(
        x.activations(xRows, weights.columns), weights.columns, block: block,
        weights.bits <= 4 ? .evenOdd : .natural, by: kernels)
    }

    /// The rows of each panel.
    private var panels: [QuantizedRows] {
      stride(from: 0, to: weightRows, by: Panel.width).map { first in
        weights.rows.rows(first..<min(first + Panel.width, weightRows))
      }
    }

    func byRows(_ kernels: Int8Kernels, xRows: Int) -> [UInt32] {
      let (rows, y) = (quantized(xRows, by: kernels), Bytes.room(weightRows * xRows))
      kernels.multiply(weights.rows, rows.activations, y.output(weightRows))
      #expect(rows.bytes.isIntact && y.isIntact)
      return y.values(weightRows * xRows).map(\.bitPattern)
    }

    func byPanels(_ kernels: Int8Kernels, xRows: Int) -> [UInt32] {
      let (rows, y) = (quantized(xRows, by: kernels), Bytes.room(weightRows * xRows))
      let scratch = Bytes(kernels.panelBytes(weights.columns, block))
      var (output, left) = (y.output(weightRows), weightRows)
      for panel in panels {
        left -= panel.count
        kernels.multiplyPanel(
          panel, rows.activations, output,
          PanelScratch(base: scratch.start, aheadRows: min(Panel.width, left)))
        output.base += Panel.width
      }
      #expect(rows.bytes.isIntact && y.isIntact && scratch.isIntact)
      return y.values(weightRows * xRows).map(\.bitPattern)
    }

    func inPanels(_ kernels: InterleavedKernels, of int8: Int8Kernels, xRows: Int) -> [UInt32] {
      let (rows, y) = (quantized(xRows, by: int8), Bytes.room(weightRows * xRows))
      let scratch = Bytes(int8.panelBytes(weights.columns, block))
      withPanels(kernels, of: int8) {
        kernels.multiply($0, rows.activations, y.output(weightRows), scratch.start)
      }
      #expect(rows.bytes.isIntact && y.isIntact && scratch.isIntact)
      return y.values(weightRows * xRows).map(\.bitPattern)
    }

    func withPanels(_ kernels: InterleavedKernels, of int8: Int8Kernels, _ body: (PanelRows) -> Void) {
      let shape = PanelShape(
        bits: weights.bits, groupSize: weights.group, factors: .pairs(weights.format),
        columns: weights.columns)
      let panelBytes = kernels.panelBytes(shape)
      let stored = Bytes(panels.count * panelBytes)
      let scratch = Bytes(int8.panelBytes(weights.columns, block))
      for (index, panel) in panels.enumerated() {
        let whole = repacked(panel, by: int8)
        kernels.make(whole.rows, shape, stored.start + index * panelBytes, scratch.start)
      }
      body(PanelRows(base: stored.start, shape: shape, count: weightRows, aheadBytes: 0))
      #expect(scratch.isIntact && stored.isIntact)
    }

    /// The rows of a panel as nibbles or bytes, and what holds them.
    private func repacked(_ panel: QuantizedRows, by int8: Int8Kernels) -> (rows: QuantizedRows, Bytes) {
      var whole = panel
      whole.bits = panel.bits <= 4 ? 4 : 8
      whole.rowBytes = panel.columns * whole.bits / 8
      let bytes = Bytes(panel.count * whole.rowBytes)
      if whole.bits == panel.bits {
        bytes.start.copyMemory(from: panel.packed, byteCount: bytes.count)
      } else {
        int8.repack(panel.packed, panel.bits, panel.count * panel.columns, bytes.start)
      }
      whole.packed = UnsafeRawPointer(bytes.start)
      return (whole, bytes)
    }
  }
}
