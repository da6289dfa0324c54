// Rows of blocks in the forms of kernels, set against a decoder that takes one number at a time.

import KernelTypes
import Support
import Testing

@testable import Compute

@Suite struct BlockRowsTests {
  @Test(arguments: BlockFormat.allCases)
  func `rows of blocks have the values of a decoder that takes one number at a time`(format: BlockFormat)
    throws
  {
    var random = SeededGenerator(seed: UInt64(format.rawValue))
    for (count, headRows) in [(1, 0), (3, 0), (7, 0), (6, 6)] {
      for blocks in [1, 3] {
        let columns = blocks * format.values
        let bytes = Blocks.random(format, count * blocks, using: &random)
        let rows = BlockRows(
          base: try Bytes(beforeGuard: bytes).start, format: format, count: count, columns: columns,
          headRows: headRows)
        let range = count / 3..<count
        let expected = range.flatMap { row in
          Blocks.values(format, UnsafeRawPointer(rows.source(row)), columns)
        }
        let buffer = ScratchBuffer()
        let exact = try unpacked(rows.readable(range, exactly: true, buffer.scratch))
        #expect(exact == expected, "\(count) rows of \(columns)")
        let fast = try unpacked(rows.readable(range, exactly: false, buffer.scratch))
        #expect(fast == expected, "\(count) rows of \(columns), fast")
      }
    }
  }

  @Test(arguments: BlockFormat.allCases)
  func `exact products with blocks have the bits of products with their values`(format: BlockFormat) throws {
    var random = SeededGenerator(seed: 100 + UInt64(format.rawValue))
    // More rows than are read at a time for few rows of x, and no whole number of fours.
    let (rows, columns) = (75, 768)
    let bytes = Blocks.random(format, rows * columns / format.values, using: &random)
    let blocks = try stack(format, bytes, rows, columns)
    let values = Bytes.room(rows * columns)
    for (i, value) in Blocks.values(format, UnsafeRawPointer(bytes.start), rows * columns).enumerated() {
      values.floats[i] = value
    }
    let dense = try WeightStack([WeightTensors(dense: view(values, .f32, [rows, columns]))])
    for isa in CPUFeatures.available {
      let context = try ComputeContext(threads: 2, isa: isa)
      for count in [1, 2, 3, 4, 5, 9] {
        let (input, found, expected) = (ScratchBuffer(), ScratchBuffer(), ScratchBuffer())
        let x = input.rows(count, columns)
        for r in 0..<count { for c in 0..<columns { x.row(r)[c] = .random(in: -1...1, using: &random) } }
        let (y, z) = (found.rows(count, rows), expected.rows(count, rows))
        context.multiply(x, by: blocks, into: y)
        context.multiply(x, by: dense, into: z)
        for r in 0..<count {
          let isSame = (0..<rows).allSatisfy { y.row(r)[$0].bitPattern == z.row(r)[$0].bitPattern }
          #expect(isSame, "\(isa), row \(r) of \(count)")
        }
      }
    }
  }

  @Test(arguments: BlockFormat.allCases)
  func `products in integers with blocks have the bits of the scalar twin, in panels and out of them`(
    format: BlockFormat
  ) throws {
    var random = SeededGenerator(seed: 200 + UInt64(format.rawValue))
    let rows = 83
    // Heads of panels that are not full, and sums whose slots have as many blocks as the others or not.
    for columns in [96, 256, 512, 768].filter({ $0 % format.values == 0 && $0 % 32 == 0 }) {
      let bytes = Blocks.random(format, rows * columns / format.values, using: &random)
      let x = (0..<40).map { row in
        // Outliers, which are multiplied with columns of the weights.
        (0..<columns).map { Float.random(in: -1...1, using: &random) * ($0 % 61 == row % 7 ? 30 : 1) }
      }
      let twin = try ComputeContext(threads: 1, mode: .fast, useReference: true)
      let expected = products(x, try stack(format, bytes, rows, columns), twin)
      for isa in CPUFeatures.available {
        let context = try ComputeContext(threads: 2, isa: isa, mode: .fast)
        guard let int8 = context.activeInt8 else { continue }
        let plain = try stack(format, bytes, rows, columns)
        #expect(products(x, plain, context) == expected, "\(isa), \(columns) columns")
        let kept = try stack(format, bytes, rows, columns, context.makeArena(identity: []))
        for count in [1, 2, 3, 4, 7, 8, 9, 31, 40] {
          let found = products(Array(x[..<count]), kept, context)
          #expect(found == Array(expected[..<count]), "\(isa), \(columns) columns, \(count) rows")
        }
        let shape = kept.parts[0].matrix.panelShape
        let isKept = shape == nil ? int8.interleaved?.floating != nil : int8.interleaved != nil
        #expect((kept.parts[0].copiedRows == rows) == isKept)
      }
    }
  }

  @Test func `panels take what the file does, and at most 3 % more where they have its own scales`() {
    let larger = BlockFormat.allCases.filter { $0.panelBits > 1.03 * $0.fileBits }
    #expect(
      larger.map(\.name) == ["Q3_K", "IQ4_NL", "IQ4_XS", "TQ1_0", "TQ2_0", "Q1_0", "Q2_0"])
    #expect(BlockFormat.q4K.panelBits == 4.625 && BlockFormat.q6K.panelBits == 6.625)
  }

  private func view(_ bytes: Bytes, _ type: DType, _ shape: [Int]) -> TensorView {
    TensorView(
      name: "w", dtype: type, shape: shape,
      bytes: UnsafeRawBufferPointer(start: bytes.start, count: bytes.count), owner: bytes)
  }

  private func stack(
    _ format: BlockFormat, _ bytes: Bytes, _ rows: Int, _ columns: Int, _ arena: PanelArena? = nil
  ) throws -> WeightStack {
    var tensors = WeightTensors(
      weight: view(bytes, .u8, [rows, bytes.count / rows]), rows: rows, columns: columns)
    tensors.blocks = format
    return try WeightStack([tensors], arena: arena)
  }

  /// The bits of products with some rows.
  private func products(_ x: [[Float]], _ weights: WeightStack, _ context: ComputeContext) -> [[UInt32]] {
    let (input, output) = (ScratchBuffer(), ScratchBuffer())
    let (rows, y) = (input.rows(x.count, weights.columns), output.rows(x.count, weights.rows))
    for (r, values) in x.enumerated() { for (c, value) in values.enumerated() { rows.row(r)[c] = value } }
    context.multiply(rows, by: weights, into: y)
    return withExtendedLifetime((input, output)) {
      (0..<x.count).map { y.values(ofRow: $0).map(\.bitPattern) }
    }
  }

  private func unpacked(_ matrix: WeightMatrix) throws -> [Float] {
    let out = Bytes.room(matrix.rows * matrix.columns)
    switch matrix {
    case .affine(let rows): Reference.unpack(rows, into: out.output(matrix.columns))
    case .floating(let rows): Reference.unpackFloating(rows, into: out.output(matrix.columns))
    case .dense, .blocks: Issue.record("no kernel reads this")
    }
    return out.values(matrix.rows * matrix.columns)
  }
}

/// Blocks as llama.cpp lays them out.
private enum Blocks {
  /// Blocks of any bytes, with scales of moderate size.
  static func random(_ format: BlockFormat, _ count: Int, using random: inout SeededGenerator) -> Bytes {
    let bytes = Bytes.random(count * format.bytes, using: &random)
    let scales =
      switch format {
      case .q40, .q50, .q80, .iq4NL, .iq4XS, .q10, .q20: [0]
      case .q41, .q51, .q4K, .q5K: [0, 2]
      case .q2K: [80, 82]
      case .q3K: [108]
      case .q6K: [208]
      case .tq10: [52]
      case .tq20: [64]
      case .mxfp4: [Int]()
      }
    for block in 0..<count {
      let start = bytes.start + block * format.bytes
      for place in scales {
        // Any sign and mantissa, 2^-10 to 2^-1: sums of products are no subnormals, and halves have room for 32 of them.
        let half =
          UInt16.random(in: 0...1, using: &random) << 15 | .random(in: 5 << 10..<15 << 10, using: &random)
        start.storeBytes(of: half, toByteOffset: place, as: UInt16.self)
      }
      if format == .mxfp4 { start.storeBytes(of: .random(in: 110...130, using: &random), as: UInt8.self) }
    }
    return bytes
  }

  static func values(_ format: BlockFormat, _ row: UnsafeRawPointer, _ count: Int) -> [Float] {
    (0..<count).map { i in
      Block(start: row + i / format.values * format.bytes).value(format, i % format.values)
    }
  }
}

private struct Block {
  let start: UnsafeRawPointer

  private func byte(_ at: Int) -> Int { Int(start.load(fromByteOffset: at, as: UInt8.self)) }
  private func half(_ at: Int) -> Float { float(f16: UInt16(byte(at) | byte(at + 1) << 8)) }
  private func bits(_ at: Int, _ shift: Int, _ count: Int) -> Int { byte(at) >> shift & (1 << count - 1) }

  /// The number i of 32 whose first half are the low halves of sixteen bytes.
  private func nibble(_ at: Int, _ i: Int) -> Int { bits(at + i % 16, i / 16 * 4, 4) }
  /// The number i of 256 whose quarters of each half are the fields of 32 bytes.
  private func pair(_ at: Int, _ i: Int) -> Int { bits(at + i / 128 * 32 + i % 32, i % 128 / 32 * 2, 2) }

  private static let table = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113]

  func value(_ format: BlockFormat, _ i: Int) -> Float {
    switch format {
    case .q40: return half(0) * Float(nibble(2, i) - 8)
    case .q41: return half(0) * Float(nibble(4, i)) + half(2)
    case .q50: return half(0) * Float((nibble(6, i) | bits(2 + i / 8, i % 8, 1) << 4) - 16)
    case .q51: return half(0) * Float(nibble(8, i) | bits(4 + i / 8, i % 8, 1) << 4) + half(2)
    case .q80: return half(0) * Float(Int8(truncatingIfNeeded: byte(2 + i)))
    case .q2K:
      let (scale, least) = (half(80) * Float(bits(i / 16, 0, 4)), half(82) * Float(bits(i / 16, 4, 4)))
      return scale * Float(pair(16, i)) - least
    case .q3K:
      let group = i / 16
      let scale = bits(96 + group % 8, group / 8 * 4, 4) | bits(104 + group % 4, group / 4 * 2, 2) << 4
      return half(108) * Float((scale - 32) * (pair(32, i) - 4 * (1 - bits(i % 32, i / 32, 1))))
    case .q4K, .q5K:
      let group = i / 32
      let low = bits((format == .q4K ? 16 : 48) + group / 2 * 32 + i % 32, group % 2 * 4, 4)
      let number = format == .q4K ? low : low | bits(16 + i % 32, group, 1) << 4
      let place = 4 + group % 4
      let (scale, least) =
        group < 4
        ? (bits(place, 0, 6), bits(place + 4, 0, 6))
        : (bits(place + 8, 0, 4) | bits(place, 6, 2) << 4, bits(place + 8, 4, 4) | bits(place + 4, 6, 2) << 4)
      return half(0) * Float(scale) * Float(number) - half(2) * Float(least)
    case .q6K:
      let (part, quarter) = (i / 128, i % 128 / 32)
      let low = bits(64 * part + i % 32 + quarter % 2 * 32, quarter / 2 * 4, 4)
      let scale = Int(Int8(truncatingIfNeeded: byte(192 + i / 16)))
      return half(208) * Float(scale * ((low | pair(128, i) << 4) - 32))
    case .iq4NL: return half(0) * Float(Self.table[nibble(2, i)])
    case .iq4XS:
      let group = i / 32
      let scale = bits(4 + group / 2, group % 2 * 4, 4) | bits(2 + group / 4, group % 4 * 2, 2) << 4
      return half(0) * Float((scale - 32) * Self.table[nibble(8 + 16 * group, i % 32)])
    case .tq10:
      let (at, digit) =
        i < 160
        ? (i % 32, i / 32) : i < 240 ? (32 + i % 16, (i - 160) / 16) : (48 + i % 4, (i - 240) / 4)
      let fraction = byte(at) * [1, 3, 9, 27, 81][digit] & 255
      return half(52) * Float(fraction * 3 / 256 - 1)
    case .tq20: return half(64) * Float(pair(0, i) - 1)
    case .mxfp4: return Reference.e2m1(nibble(1, i)) * Reference.powerOfTwo(byte(0))
    case .q10: return half(0) * Float(2 * bits(2 + i / 8, i % 8, 1) - 1)
    case .q20: return half(0) * Float(bits(2 + i / 4, i % 4 * 2, 2) - 1)
    }
  }
}
