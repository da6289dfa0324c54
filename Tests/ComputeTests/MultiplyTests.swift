// Matrix products of every kernel set against the scalar reference, and against themselves to the bit.

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
              w.start, columns * 4, weightRows, x.floats, columns, xRows, columns, y.floats, weightRows)
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
        let w = Bytes.floats(weightRows * columns, using: &random)
        let x = Bytes.floats(xRows * columns, using: &random)
        let together = Bytes.room(weightRows * xRows)
        kernels.multiply(
          w.start, columns * 4, weightRows, x.floats, columns, xRows, columns, together.floats, weightRows)
        for r in 0..<xRows {
          for o in 0..<weightRows {
            let alone = Bytes.room(1)
            kernels.multiply(
              w.start + o * columns * 4, columns * 4, 1, x.floats + r * columns, columns, 1, columns,
              alone.floats, 1)
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
        let w = Bytes.floats(weightRows * columns, using: &random)
        let x = Bytes.floats(xRows * columns, using: &random)
        let together = Bytes.room(weightRows * xRows)
        kernels.multiply(
          w.start, columns * 4, weightRows, x.floats, columns, xRows, columns, together.floats, weightRows)
        #expect(together.isIntact)
        for r in 0..<xRows {
          let alone = Bytes.room(weightRows)
          kernels.multiply(
            w.start, columns * 4, weightRows, x.floats + r * columns, columns, 1, columns, alone.floats,
            weightRows)
          let row = (0..<weightRows).map { together.floats[r * weightRows + $0].bitPattern }
          #expect(alone.values(weightRows).map(\.bitPattern) == row, "\(name), \(columns) columns, row \(r)")
        }
      }
    }
  }

  @Test func `unpacking agrees with the reference for all widths, groups, scale formats and alignments`() {
    var random = SeededGenerator(seed: 3)
    for (name, kernels) in tables {
      for bits in QuantizedMatrix.supportedBits {
        for group in QuantizedMatrix.supportedGroupSizes {
          for format in [FloatFormat.f32, FloatFormat.f16, FloatFormat.bf16] {
            for offset in [0, 1, 2] {
              let count = group * 3
              let packed = Bytes.random(count * bits / 8, misaligned: offset, using: &random)
              let scales = Bytes.floats(3, format: format, misaligned: offset, using: &random)
              let biases = Bytes.floats(3, format: format, misaligned: 2 * offset, using: &random)
              let found = Bytes.room(count)
              let exact = Bytes.room(count)
              for (table, out) in [(kernels, found), (.reference, exact)] {
                table.unpack(packed.start, scales.start, biases.start, format, bits, group, count, out.floats)
              }
              // scale · q rounds once below 2^bits, the sum once more.
              let bound = epsilon * Float(2 << bits)
              let error = worst(found.values(count), exact.values(count)) { _ in bound }
              #expect(error <= 1, "\(name), \(bits) bits, group \(group), format \(format), offset \(offset)")
              #expect(found.isIntact)
            }
          }
        }
      }
    }
  }

  @Test(arguments: [FloatingMode.mxfp4, FloatingMode.mxfp8, FloatingMode.nvfp4])
  func `floating modes unpack exactly as the reference`(mode: Int) {
    var random = SeededGenerator(seed: 12)
    for (name, kernels) in tables {
      for offset in [0, 1] {
        let packed = Bytes.random(256, misaligned: offset, using: &random)
        let scales = Bytes.random(32, misaligned: offset, using: &random)
        let count = mode == FloatingMode.mxfp8 ? 256 : 512
        // Of the scale bytes, 255 is NaN in E8M0 and never written.
        for i in 0..<32 where scales.start.load(fromByteOffset: i, as: UInt8.self) == 255 {
          scales.start.storeBytes(of: 0, toByteOffset: i, as: UInt8.self)
        }
        let found = Bytes.room(count)
        let exact = Bytes.room(count)
        kernels.unpackFloating(packed.start, scales.start, mode, count, found.floats)
        KernelTable.reference.unpackFloating(packed.start, scales.start, mode, count, exact.floats)
        #expect(found.values(count) == exact.values(count), "\(name)")
        #expect(found.isIntact)
      }
    }
  }

  @Test func `tiny floats have the values of their formats`() {
    #expect((0..<16).map(Reference.e2m1) == [0, 0.5, 1, 1.5, 2, 3, 4, 6, -0, -0.5, -1, -1.5, -2, -3, -4, -6])
    #expect(
      [0, 1, 7, 8, 0x38, 0x7E, 0x7F, 0xB8].map(Reference.e4m3) == [
        0, 0x1p-9, 7 * 0x1p-9, 0x1p-6, 1, 448, 480, -1,
      ])
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
      kernels.unpack(packed.start, one.start, zero.start, FloatFormat.f32, 3, 32, 32, out.floats)
      #expect(out.values(32) == (0..<32).map { Float($0 % 8) }, "\(name)")
    }
  }

  @Test func `widening is exact, subnormals, infinities and NaN included`() {
    let source = Bytes(1 << 17)
    for bits in 0..<1 << 16 {
      source.start.storeBytes(of: UInt16(bits), toByteOffset: 2 * bits, as: UInt16.self)
    }
    for (name, kernels) in tables {
      for format in [FloatFormat.f16, FloatFormat.bf16] {
        let out = Bytes.room(1 << 16)
        kernels.widen(source.start, format, 1 << 16, out.floats)
        let wrong = (0..<1 << 16).first { bits in
          let exact = format == FloatFormat.f16 ? float(f16: UInt16(bits)) : float(bf16: UInt16(bits))
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
        for (group, format) in [(32, 0), (64, 1), (64, 2), (128, 2)] {
          let columns = group * 3
          let weightRows = 3
          let rowBytes = columns * bits / 8
          let scaleBytes = 3 * (format == FloatFormat.f32 ? 4 : 2)
          let packed = Bytes.random(weightRows * rowBytes, misaligned: 1, using: &random)
          let scales = Bytes.floats(weightRows * 3, format: format, misaligned: 2, using: &random)
          let biases = Bytes.floats(weightRows * 3, format: format, misaligned: 3, using: &random)
          for xRows in 1...kernels.fusedRows {
            let x = Bytes.floats(xRows * columns, using: &random)
            let found = Bytes.room(weightRows * xRows)
            fused(
              packed.start, rowBytes, scales.start, biases.start, scaleBytes, format, group, weightRows,
              x.floats,
              columns, xRows, columns, found.floats, weightRows)
            let unpacked = Bytes.room(weightRows * columns)
            for o in 0..<weightRows {
              kernels.unpack(
                packed.start + o * rowBytes, scales.start + o * scaleBytes, biases.start + o * scaleBytes,
                format,
                bits, group, columns, unpacked.floats + o * columns)
            }
            #expect(
              found.values(weightRows * xRows).map(\.bitPattern)
                == twoSteps(kernels, unpacked, weightRows, x, xRows, columns),
              "\(name), \(bits) bits, group \(group), format \(format), \(xRows) rows")
            #expect(found.isIntact)
          }
        }
      }
    }
  }

  @Test(arguments: [FloatingMode.mxfp4, FloatingMode.mxfp8, FloatingMode.nvfp4])
  func `fused products of floating modes have the bits of unpacking and multiplying`(mode: Int) throws {
    var random = SeededGenerator(seed: 6)
    for (name, kernels) in tables where kernels.fusedRows > 0 {
      let fused = try #require(kernels.multiplyFloating)
      let (weightRows, group) = (3, mode == FloatingMode.nvfp4 ? 16 : 32)
      for groups in [1, 2, 3, 7] {
        let columns = groups * group
        let rowBytes = mode == FloatingMode.mxfp8 ? columns : columns / 2
        let packed = Bytes.random(weightRows * rowBytes, misaligned: 1, using: &random)
        // Scales near one: 2^(code - 127), or E4M3 below 2 in nvfp4.
        let scales = Bytes(weightRows * groups)
        for i in 0..<weightRows * groups {
          let code = mode == FloatingMode.nvfp4 ? random.next() & 0xBF : 117 + random.next() % 20
          scales.start.storeBytes(of: UInt8(truncatingIfNeeded: code), toByteOffset: i, as: UInt8.self)
        }
        let unpacked = Bytes.room(weightRows * columns)
        for o in 0..<weightRows {
          kernels.unpackFloating(
            packed.start + o * rowBytes, scales.start + o * groups, mode, columns,
            unpacked.floats + o * columns)
        }
        for xRows in 1...kernels.fusedRows {
          let x = Bytes.floats(xRows * columns, using: &random)
          let found = Bytes.room(weightRows * xRows)
          fused(
            packed.start, rowBytes, scales.start, groups, mode, weightRows, x.floats, columns, xRows, columns,
            found.floats, weightRows)
          #expect(
            found.values(weightRows * xRows).map(\.bitPattern)
              == twoSteps(kernels, unpacked, weightRows, x, xRows, columns),
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
      for format in [FloatFormat.f16, FloatFormat.bf16] {
        for columns in sizes {
          let weightRows = 3
          let w = Bytes.floats(weightRows * columns, format: format, misaligned: 1, using: &random)
          let wide = Bytes.room(weightRows * columns)
          kernels.widen(w.start, format, weightRows * columns, wide.floats)
          for xRows in 1...kernels.fusedRows {
            let x = Bytes.floats(xRows * columns, using: &random)
            let found = Bytes.room(weightRows * xRows)
            fused(
              w.start, columns * 2, format, weightRows, x.floats, columns, xRows, columns, found.floats,
              weightRows)
            #expect(
              found.values(weightRows * xRows).map(\.bitPattern)
                == twoSteps(kernels, wide, weightRows, x, xRows, columns),
              "\(name), format \(format), \(columns) columns, \(xRows) rows")
          }
        }
      }
    }
  }

  /// The bits of products of weights that were unpacked before.
  private func twoSteps(
    _ kernels: KernelTable, _ unpacked: Bytes, _ weightRows: Int, _ x: Bytes, _ xRows: Int, _ columns: Int
  ) -> [UInt32] {
    let y = Bytes.room(weightRows * xRows)
    kernels.multiply(
      unpacked.start, columns * 4, weightRows, x.floats, columns, xRows, columns, y.floats, weightRows)
    return y.values(weightRows * xRows).map(\.bitPattern)
  }
}
