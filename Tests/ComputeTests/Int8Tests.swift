// The integer kernels against their scalar twin, to the bit, and the fast mode against the exact one.

import Support
import Testing

@testable import Compute

@Suite struct Int8Tests {
  /// Every width, group and format, with columns that fill no whole number of 16 blocks or of 64 elements.
  @Test func `integer products have the bits of the scalar twin, by rows and by panels`() {
    if CPUFeatures.best == .avx512 { #expect(KernelTable.table(for: .avx512).int8 != nil) }
    var random = SeededGenerator(seed: 13)
    for (name, kernels) in tables {
      guard let int8 = kernels.int8 else { continue }
      for bits in QuantizedMatrix.supportedBits {
        for (group, format) in [(32, 0), (32, 2), (64, 1), (64, 2), (128, 2)] {
          for groups in [1, 2, 3, 4, 5, 6, 7, 11, 12, 16, 19] {
            let shape = Case(bits: bits, group: group, format: format, groups: groups, random: &random)
            let exact = shape.run(Reference.int8, xRows: 9, byPanel: false)
            let context = "\(name), \(bits) bits, group \(group), format \(format), \(groups) groups"
            #expect(shape.run(int8, xRows: 9, byPanel: false) == exact, "\(context)")
            // Panels take other widths repacked.
            guard bits == 4 || bits == 8 else { continue }
            #expect(shape.run(int8, xRows: 9, byPanel: true) == exact, "\(context), panel")
            for xRows in Int8Kernels.panelRows...8 {
              #expect(
                shape.run(int8, xRows: xRows, byPanel: true) == Array(exact.prefix(xRows * shape.weightRows)),
                "\(context), \(xRows) rows")
            }
          }
        }
      }
    }
  }

  @Test func `integer products of weights kept in panels have the bits of the scalar twin`() {
    if CPUFeatures.best == .avx512 { #expect(KernelTable.table(for: .avx512).int8?.interleaved != nil) }
    var random = SeededGenerator(seed: 18)
    for (name, kernels) in tables {
      guard let int8 = kernels.int8, let interleaved = int8.interleaved else { continue }
      for bits in QuantizedMatrix.supportedBits {
        for (group, format) in [(32, 0), (32, 2), (64, 1), (64, 2), (128, 2)] {
          for groups in [1, 2, 3, 4, 5, 7, 12, 16, 19] {
            let shape = Case(bits: bits, group: group, format: format, groups: groups, random: &random)
            let exact = shape.run(Reference.int8, xRows: 37, byPanel: false)
            for xRows in [1, 2, 3, 4, 5, 7, 8, 9, 13, 37] {
              #expect(
                shape.run(interleaved, of: int8, xRows: xRows)
                  == Array(exact.prefix(xRows * shape.weightRows)),
                "\(name), \(bits) bits, group \(group), format \(format), \(groups) groups, \(xRows) rows")
            }
          }
        }
      }
    }
  }

  /// A tensor may end where its file's mapping does.
  @Test func `nothing is read behind weights, scales and biases`() throws {
    var random = SeededGenerator(seed: 17)
    for (name, kernels) in tables {
      guard let int8 = kernels.int8 else { continue }
      for bits in QuantizedMatrix.supportedBits {
        for (group, groups) in [(32, 3), (32, 5), (32, 32), (64, 3), (64, 16), (64, 19), (128, 11)] {
          let shape = Case(bits: bits, group: group, format: 2, groups: groups, random: &random)
          let found = try shape.beforeGuards().run(int8, xRows: 2, byPanel: false)
          #expect(
            found == shape.run(Reference.int8, xRows: 2, byPanel: false),
            "\(name), \(bits) bits, \(groups) groups of \(group)")
        }
      }
    }
  }

  @Test(arguments: [false, true])
  func `integer products of E2M1 weights have the bits of the scalar twin`(isNVFP4: Bool) {
    var random = SeededGenerator(seed: 16)
    for (name, kernels) in tables {
      guard let int8 = kernels.int8 else { continue }
      for blocks in [1, 2, 3, 17] {
        let (columns, weightRows) = (32 * blocks, 5)
        let packed = Bytes.random(weightRows * columns / 2, misaligned: 1, using: &random)
        let scaleBytes = blocks * (isNVFP4 ? 2 : 1)
        let scales = Bytes(weightRows * scaleBytes)
        for i in 0..<weightRows * scaleBytes {
          // Near one in mxfp4, and its smallest; any but NaN in nvfp4.
          let code = isNVFP4 ? random.next() & 0xBF : i == 0 ? 0 : 117 + random.next() % 20
          scales.start.storeBytes(of: UInt8(truncatingIfNeeded: code), toByteOffset: i, as: UInt8.self)
        }
        let x = Bytes.floats(9 * columns, using: &random)
        for xRows in [1, 2, 3, 4, 5, 9] {
          let results = [int8, Reference.int8].map { kernels in
            let bytes = kernels.rowBytes(columns, 32)
            let rows = Bytes(bytes * xRows)
            for r in 0..<xRows {
              kernels.quantize(x.floats + r * columns, columns, 32, true, rows.start + r * bytes)
            }
            let y = Bytes.room(weightRows * xRows)
            kernels.multiplyFloating(
              packed.start, columns / 2, scales.start, scaleBytes, isNVFP4, weightRows, rows.start, bytes,
              xRows,
              columns, y.floats, weightRows)
            #expect(rows.isIntact && y.isIntact)
            return y.values(weightRows * xRows).map(\.bitPattern)
          }
          #expect(results[0] == results[1], "\(name), \(blocks) blocks, \(xRows) rows")
        }
      }
    }
  }

  @Test func `weights of every width are rewritten as nibbles or bytes, whatever their alignment`() {
    var random = SeededGenerator(seed: 15)
    for (name, kernels) in tables {
      guard let int8 = kernels.int8 else { continue }
      for bits in [2, 3, 5, 6] {
        for (units, misaligned) in [(1, 0), (2, 1), (5, 3)] {
          let packed = Bytes.random(4 * bits * units, misaligned: misaligned, using: &random)
          let results = [int8, Reference.int8].map { kernels in
            let out = Bytes(32 * units * (bits > 4 ? 2 : 1) / 2)
            kernels.repack(packed.start, bits, 32 * units, out.start)
            #expect(out.isIntact)
            return (0..<32 * units * (bits > 4 ? 2 : 1) / 2).map {
              out.start.load(fromByteOffset: $0, as: UInt8.self)
            }
          }
          #expect(results[0] == results[1], "\(name), \(bits) bits, \(units) units")
          // The twin itself against the drawing in QuantizedMatrix.
          let last = 32 * units - 1
          let stored = results[1][bits > 4 ? last : last / 2]
          #expect(Int(bits > 4 ? stored : stored >> 4) == Reference.quantum(packed.start, bits, last))
        }
      }
    }
  }

  @Test func `rows of zeros and of one large value are quantized without loss`() {
    for (name, kernels) in tables + [("reference", .reference)] {
      guard let int8 = kernels.int8 else { continue }
      var random = SeededGenerator(seed: 14)
      let one = Case(bits: 8, group: 32, format: 0, groups: 2, random: &random)
      for i in 0..<64 { one.x.floats[i] = 0 }
      #expect(one.run(int8, xRows: 1, byPanel: false).allSatisfy { $0 == 0 }, "\(name)")
      one.x.floats[5] = 127
      let weight = Reference.element(one.scales.start, 0, 0)
      let bias = Reference.element(one.biases.start, 0, 0)
      let q = Float(one.packed.start.load(fromByteOffset: 5, as: UInt8.self))
      let found = Float(bitPattern: one.run(int8, xRows: 1, byPanel: false)[0])
      #expect(abs(found - 127 * (weight * q + bias)) < 1e-2, "\(name)")
    }
  }

  /// Random weights and activations in one shape.
  private struct Case {
    let bits, group, format, columns: Int
    /// A whole panel, and a part of one.
    let weightRows = 21
    var packed, scales, biases: Bytes
    let x: Bytes

    init(bits: Int, group: Int, format: Int, groups: Int, random: inout SeededGenerator) {
      (self.bits, self.group, self.format, columns) = (bits, group, format, group * groups)
      packed = .random(weightRows * columns * bits / 8, misaligned: 1, using: &random)
      scales = .floats(weightRows * groups, format: format, misaligned: 3, using: &random)
      biases = .floats(weightRows * groups, format: format, misaligned: 2, using: &random)
      x = .floats(37 * columns, using: &random)
    }

    /// The same with memory behind the weights that cannot be read.
    func beforeGuards() throws -> Case {
      var copy = self
      copy.packed = try Bytes(beforeGuard: packed)
      copy.scales = try Bytes(beforeGuard: scales)
      copy.biases = try Bytes(beforeGuard: biases)
      return copy
    }

    /// As `run` by way of panels.
    func run(_ kernels: InterleavedKernels, of int8: Int8Kernels, xRows: Int) -> [UInt32] {
      let block = min(group, 64)
      let bytes = int8.rowBytes(columns, block)
      let rows = Bytes(bytes * xRows)
      for r in 0..<xRows {
        int8.quantize(x.floats + r * columns, columns, block, bits <= 4, rows.start + r * bytes)
      }
      let wide = bits <= 4 ? 4 : 8
      let (rowBytes, wideBytes) = (columns * bits / 8, columns * wide / 8)
      let scaleBytes = columns / group * (format == FloatFormat.f32 ? 4 : 2)
      let panelBytes = kernels.panelBytes(columns, bits, group, format)
      let panels = Bytes((weightRows + 15) / 16 * panelBytes)
      let scratch = Bytes(int8.panelBytes(columns, block))
      for first in stride(from: 0, to: weightRows, by: 16) {
        let count = min(16, weightRows - first)
        var repacked = Bytes(count * wideBytes)
        if bits == wide {
          repacked = Bytes(count * rowBytes)
          repacked.start.copyMemory(from: packed.start + first * rowBytes, byteCount: count * rowBytes)
        } else {
          int8.repack(packed.start + first * rowBytes, bits, count * columns, repacked.start)
        }
        kernels.make(
          repacked.start, wideBytes, scales.start + first * scaleBytes, biases.start + first * scaleBytes,
          scaleBytes,
          format, bits, group, count, columns, panels.start + first / 16 * panelBytes, scratch.start)
      }
      let y = Bytes.room(weightRows * xRows)
      kernels.multiply(
        panels.start, format, bits, group, weightRows, rows.start, bytes, xRows, columns, y.floats,
        weightRows,
        scratch.start, 0)
      #expect(panels.isIntact && scratch.isIntact && rows.isIntact && y.isIntact)
      return y.values(weightRows * xRows).map(\.bitPattern)
    }

    /// The bit patterns of all results, row by row.
    func run(_ kernels: Int8Kernels, xRows: Int, byPanel: Bool) -> [UInt32] {
      let block = min(group, 64)
      let bytes = kernels.rowBytes(columns, block)
      let rows = Bytes(bytes * xRows)
      for r in 0..<xRows {
        kernels.quantize(x.floats + r * columns, columns, block, bits <= 4, rows.start + r * bytes)
      }
      let (rowBytes, scaleBytes) = (columns * bits / 8, columns / group * (format == FloatFormat.f32 ? 4 : 2))
      let y = Bytes.room(weightRows * xRows)
      if byPanel {
        let scratch = Bytes(kernels.panelBytes(columns, block))
        for first in stride(from: 0, to: weightRows, by: 16) {
          let count = min(16, weightRows - first)
          kernels.multiplyPanel(
            packed.start + first * rowBytes, rowBytes, scales.start + first * scaleBytes,
            biases.start + first * scaleBytes, scaleBytes, format, bits, group, count, rows.start, bytes,
            xRows,
            columns, y.floats + first, weightRows, scratch.start,
            min(16, weightRows - first - count))
        }
        #expect(scratch.isIntact)
      } else {
        kernels.multiply(
          packed.start, rowBytes, scales.start, biases.start, scaleBytes, format, bits, group, weightRows,
          rows.start,
          bytes, xRows, columns, y.floats, weightRows)
      }
      #expect(rows.isIntact && y.isIntact)
      return y.values(weightRows * xRows).map(\.bitPattern)
    }
  }
}
