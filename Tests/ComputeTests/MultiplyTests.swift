// Matrix products of every kernel set against the scalar reference, and against themselves to the bit.

import KernelTypes
import Support
import Testing

@testable import Compute

@Suite struct MultiplyTests {
  /// Zero to two vectors and three elements of the widest kernel set, and a longer one.
  private let sizes = Array(0...35) + [172]

  @Test func `float32 products agree with the reference for all sizes, rows and alignments`() {
    var random = SeededGenerator(seed: 1)
    for (name, kernels) in tables {
      for columns in sizes {
        for (weightRows, xRows) in [(1, 1), (2, 2), (3, 3), (4, 4), (5, 7)] {
          let w = Bytes.floats(weightRows * columns, misaligned: columns % 3, using: &random)
          let x = Bytes.floats(xRows * columns, using: &random)
          let found = Bytes.room(weightRows * xRows)
          let exact = Bytes.room(weightRows * xRows)
          for (table, y) in [(kernels, found), (.reference, exact)] {
            table.multiply(
              w.weights(weightRows, columns), x.activations(xRows, columns), y.output(weightRows))
          }
          // |w| and |x| are at most 1: every rounding is off by at most columns · ε.
          let bound = epsilon * Float(columns * (columns + 2)) + .leastNormalMagnitude
          let error = worst(found.values(weightRows * xRows), exact.values(weightRows * xRows)) { _ in bound }
          #expect(error <= 1, "\(name), \(columns) columns, \(weightRows) x \(xRows)")
          #expect(found.isIntact)
        }
      }
    }
  }

  @Test func `a product has the same bits whatever rows are computed with it`() {
    var random = SeededGenerator(seed: 2)
    for (name, kernels) in tables + [("reference", .reference)] {
      for columns in [8, 16, 19, 33, 64, 172] {
        let (weightRows, xRows) = (9, 11)
        let w = Bytes.floats(weightRows * columns, using: &random).weights(weightRows, columns)
        let x = Bytes.floats(xRows * columns, using: &random).activations(xRows, columns)
        let together = Bytes.room(weightRows * xRows)
        kernels.multiply(w, x, together.output(weightRows))
        for r in 0..<xRows {
          for o in 0..<weightRows {
            let alone = Bytes.room(1)
            kernels.multiply(w.row(o), x.row(r), alone.output(1))
            #expect(
              alone.floats[0].bitPattern == together.floats[r * weightRows + o].bitPattern,
              "\(name) \(columns)")
          }
        }
      }
    }
  }

  @Test func `products of many rows and columns, which go block by block, have the bits of single ones`() {
    var random = SeededGenerator(seed: 4)
    for (name, kernels) in tables {
      for columns in [512, 520, 1100] {
        let (weightRows, xRows) = (70, 11)
        let w = Bytes.floats(weightRows * columns, using: &random).weights(weightRows, columns)
        let x = Bytes.floats(xRows * columns, using: &random).activations(xRows, columns)
        let together = Bytes.room(weightRows * xRows)
        kernels.multiply(w, x, together.output(weightRows))
        #expect(together.isIntact)
        for r in 0..<xRows {
          let alone = Bytes.room(weightRows)
          kernels.multiply(w, x.row(r), alone.output(weightRows))
          let row = (0..<weightRows).map { together.floats[r * weightRows + $0].bitPattern }
          #expect(alone.values(weightRows).map(\.bitPattern) == row, "\(name), \(columns) columns, row \(r)")
        }
      }
    }
  }

  @Test(arguments: WeightMatrix.supportedBits, WeightMatrix.supportedGroupSizes)
  func `unpacking agrees with the reference for all scale formats and alignments`(bits: Int, group: Int) {
    var random = SeededGenerator(seed: 3)
    for (name, kernels) in tables {
      for format in [FloatFormat.f32, .f16, .bf16] {
        for offset in [0, 1, 2] {
          let count = group * 3
          let weights = AffineWeights(
            1, count, bits: bits, group: group, format: format, misaligned: (offset, offset, 2 * offset),
            using: &random)
          let found = Bytes.room(count)
          let exact = Bytes.room(count)
          kernels.unpack(weights.rows, found.output(count))
          KernelTable.reference.unpack(weights.rows, exact.output(count))
          // scale · q rounds once below 2^bits, the sum once more.
          let bound = epsilon * Float(2 << bits)
          let error = worst(found.values(count), exact.values(count)) { _ in bound }
          #expect(error <= 1, "\(name), format \(format), offset \(offset)")
          #expect(found.isIntact)
        }
      }
    }
  }

  @Test(arguments: FloatingMode.allCases)
  func `floating modes unpack exactly as the reference`(mode: FloatingMode) {
    var random = SeededGenerator(seed: 12)
    for (name, kernels) in tables {
      for offset in [0, 1] {
        let packed = Bytes.random(256, misaligned: offset, using: &random)
        let count = 256 * 8 / mode.bits
        let scales =
          mode.hasFloatScales
          ? Bytes.floats(count / 32, misaligned: offset, using: &random)
          : Bytes.random(32, misaligned: offset, using: &random)
        // Of the scale bytes, 255 is NaN in E8M0 and never written.
        for i in 0..<32
        where !mode.hasFloatScales && scales.start.load(fromByteOffset: i, as: UInt8.self) == 255 {
          scales.start.storeBytes(of: 0, toByteOffset: i, as: UInt8.self)
        }
        let table = Bytes.floats(16, misaligned: offset, using: &random)
        let found = Bytes.room(count)
        let exact = Bytes.room(count)
        var weights = FloatingRows(
          packed: packed.start, rowBytes: 256, scales: scales.start, scaleRowBytes: 32, mode: mode, count: 1,
          columns: count)
        weights.table = UnsafeRawPointer(table.start)
        for shift in mode.hasFloatScales ? [0, 1, 2, 31] : [0] {
          weights.scaleShift = shift
          kernels.unpackFloating(weights, found.output(count))
          KernelTable.reference.unpackFloating(weights, exact.output(count))
          #expect(found.values(count) == exact.values(count), "\(name)")
          #expect(found.isIntact)
        }
      }
    }
  }

  @Test func `tiny floats have the values of their formats`() {
    #expect((0..<16).map(Reference.e2m1) == [0, 0.5, 1, 1.5, 2, 3, 4, 6, -0, -0.5, -1, -1.5, -2, -3, -4, -6])
    #expect(
      [0, 1, 7, 8, 0x38, 0x7E, 0x7F, 0xB8].map(Reference.e4m3) == [
        0, 0x1p-9, 7 * 0x1p-9, 0x1p-6, 1, 448, 480, -1,
      ] as [Float])
    #expect([0, 1, 127, 130, 254].map(Reference.powerOfTwo) == [0x1p-127, 0x1p-126, 1, 8, 0x1p127])
  }

  @Test func `3-bit values are read across byte borders, lowest bits first`() {
    // 0, 1, ... 7 packed by hand: bits 111_110_101_100_011_010_001_000.
    let packed = Bytes(12)
    for (i, byte) in [0x88, 0xC6, 0xFA, 0x88, 0xC6, 0xFA, 0x88, 0xC6, 0xFA, 0x88, 0xC6, 0xFA].enumerated() {
      packed.start.storeBytes(of: UInt8(byte), toByteOffset: i, as: UInt8.self)
    }
    let one = Bytes(4)
    let zero = Bytes(4)
    one.floats[0] = 1
    zero.floats[0] = 0
    for (name, kernels) in tables + [("reference", .reference)] {
      let out = Bytes.room(32)
      let groups = Groups(scales: one.start, biases: zero.start, rowBytes: 4, format: .f32, size: 32)
      kernels.unpack(
        QuantizedRows(packed: packed.start, rowBytes: 12, bits: 3, groups: groups, count: 1, columns: 32),
        out.output(32))
      #expect(out.values(32) == (0..<32).map { Float($0 % 8) }, "\(name)")
    }
  }

  @Test func `widening is exact, subnormals, infinities and NaN included`() {
    let source = Bytes(1 << 17)
    for bits in 0..<1 << 16 {
      source.start.storeBytes(of: UInt16(bits), toByteOffset: 2 * bits, as: UInt16.self)
    }
    for (name, kernels) in tables {
      for format in [FloatFormat.f16, .bf16] {
        let out = Bytes.room(1 << 16)
        kernels.widen(source.start, format, 1 << 16, out.floats)
        let wrong = (0..<1 << 16).first { bits in
          let exact = format == .f16 ? float(f16: UInt16(bits)) : float(bf16: UInt16(bits))
          return exact.isNaN ? !out.floats[bits].isNaN : out.floats[bits].bitPattern != exact.bitPattern
        }
        #expect(wrong == nil, "\(name) format \(format)")
        for count in 0...19 {
          let short = Bytes.room(count)
          kernels.widen(source.start + 2, format, count, short.floats)
          #expect(short.isIntact && short.values(count) == Array(out.values(20)[1..<count + 1]), "\(name)")
        }
      }
    }
  }

  @Test func `fused products of packed weights have the bits of unpacking and multiplying`() throws {
    var random = SeededGenerator(seed: 4)
    for (name, kernels) in tables where kernels.fusedRows > 0 {
      for bits in [4, 8] {
        let fused = try #require(bits == 4 ? kernels.multiply4 : kernels.multiply8)
        for (group, format) in [(32, FloatFormat.f32), (64, .f16), (64, .bf16), (128, .bf16)] {
          let (columns, weightRows) = (group * 3, 3)
          let weights = AffineWeights(
            weightRows, columns, bits: bits, group: group, format: format, misaligned: (1, 2, 3),
            using: &random)
          let unpacked = Bytes.room(weightRows * columns)
          kernels.unpack(weights.rows, unpacked.output(columns))
          for xRows in 1...kernels.fusedRows {
            let x = Bytes.floats(xRows * columns, using: &random).activations(xRows, columns)
            let found = Bytes.room(weightRows * xRows)
            fused(weights.rows, x, found.output(weightRows))
            #expect(
              found.values(weightRows * xRows).map(\.bitPattern)
                == twoSteps(kernels, unpacked.weights(weightRows, columns), x),
              "\(name), \(bits) bits, group \(group), format \(format), \(xRows) rows")
            #expect(found.isIntact)
          }
        }
      }
    }
  }

  @Test(arguments: FloatingMode.allCases)
  func `fused products of floating modes have the bits of unpacking and multiplying`(mode: FloatingMode)
    throws
  {
    var random = SeededGenerator(seed: 6)
    for (name, kernels) in tables where kernels.fusedRows > 0 {
      let fused = try #require(kernels.multiplyFloating)
      let weightRows = 3
      for groups in [1, 2, 3, 7] {
        let columns = groups * mode.groupSize
        let weights = FloatingWeights(weightRows, columns, mode, using: &random)
        let unpacked = Bytes.room(weightRows * columns)
        kernels.unpackFloating(weights.rows, unpacked.output(columns))
        for xRows in 1...kernels.fusedRows {
          let x = Bytes.floats(xRows * columns, using: &random).activations(xRows, columns)
          let found = Bytes.room(weightRows * xRows)
          fused(weights.rows, x, found.output(weightRows))
          #expect(
            found.values(weightRows * xRows).map(\.bitPattern)
              == twoSteps(kernels, unpacked.weights(weightRows, columns), x),
            "\(name), mode \(mode), \(groups) groups, \(xRows) rows")
          #expect(found.isIntact)
        }
      }
    }
  }

  @Test func `fused products of half-precision weights have the bits of widening and multiplying`() throws {
    var random = SeededGenerator(seed: 5)
    for (name, kernels) in tables where kernels.fusedRows > 0 {
      let fused = try #require(kernels.multiplyHalf)
      for format in [FloatFormat.f16, .bf16] {
        for columns in sizes {
          let weightRows = 3
          let w = Bytes.floats(weightRows * columns, format: format, misaligned: 1, using: &random)
          let wide = Bytes.room(weightRows * columns)
          kernels.widen(w.start, format, weightRows * columns, wide.floats)
          for xRows in 1...kernels.fusedRows {
            let x = Bytes.floats(xRows * columns, using: &random).activations(xRows, columns)
            let found = Bytes.room(weightRows * xRows)
            fused(w.weights(weightRows, columns, format), x, found.output(weightRows))
            #expect(
              found.values(weightRows * xRows).map(\.bitPattern)
                == twoSteps(kernels, wide.weights(weightRows, columns), x),
              "\(name), format \(format), \(columns) columns, \(xRows) rows")
          }
        }
      }
    }
  }

  /// The bits of products of weights that were unpacked before.
  private func twoSteps(_ kernels: KernelTable, _ unpacked: FloatRows, _ x: Activations) -> [UInt32] {
    let y = Bytes.room(unpacked.count * x.count)
    kernels.multiply(unpacked, x, y.output(unpacked.count))
    return y.values(unpacked.count * x.count).map(\.bitPattern)
  }
}
