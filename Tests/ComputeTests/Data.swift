// Seeded random kernel inputs at chosen misalignments, and error bounds.

import KernelTypes
import Platform
import Support
import Testing

@testable import Compute

/// Bytes whose start has a chosen distance from a 64-byte boundary, between guard bytes.
///
/// Never freed: tests pass bare pointers on, which do not keep an object alive.
final class Bytes {
  let start: UnsafeMutableRawPointer
  let count: Int
  private let base: UnsafeMutableRawPointer

  init(_ count: Int, misaligned offset: Int = 0) {
    base = .allocate(byteCount: count + 192, alignment: 64)
    base.initializeMemory(as: UInt8.self, repeating: 0xA5, count: count + 192)
    start = base + 64 + offset
    self.count = count
  }

  /// A copy that ends where a page begins that cannot be read.
  init(beforeGuard bytes: Bytes) throws {
    let page = Int(getpagesize())
    let pages = (bytes.count + page - 1) / page
    let memory = mmap(nil, (pages + 1) * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0)
    base = try #require(memory != MAP_FAILED ? memory : nil)
    try #require(mprotect(base + pages * page, page, PROT_NONE) == 0)
    count = bytes.count
    start = base + pages * page - count
    start.copyMemory(from: bytes.start, byteCount: count)
  }

  /// Whether nothing has been written outside.
  var isIntact: Bool {
    let before = start - base
    return (0..<before).allSatisfy { base.load(fromByteOffset: $0, as: UInt8.self) == 0xA5 }
      && (before + count..<count + 192).allSatisfy { base.load(fromByteOffset: $0, as: UInt8.self) == 0xA5 }
  }

  static func random(_ count: Int, misaligned offset: Int = 0, using random: inout SeededGenerator) -> Bytes {
    let bytes = Bytes(count, misaligned: offset)
    for i in 0..<count {
      bytes.start.storeBytes(of: UInt8.random(in: 0...255, using: &random), toByteOffset: i, as: UInt8.self)
    }
    return bytes
  }

  /// Floats in -1...1, stored in a format.
  static func floats(
    _ count: Int, format: FloatFormat = .f32, misaligned offset: Int = 0,
    using random: inout SeededGenerator
  ) -> Bytes {
    let bytes = Bytes(count * format.bytes, misaligned: offset)
    for i in 0..<count {
      let value = Float.random(in: -1...1, using: &random)
      switch format {
      case .f16:
        // Sign, an exponent in 2^-14...2^-1, any mantissa.
        let bits =
          UInt16.random(in: 0...1, using: &random) << 15
          | UInt16.random(in: 1 << 10..<15 << 10, using: &random)
        bytes.start.storeBytes(of: bits, toByteOffset: 2 * i, as: UInt16.self)
      case .bf16:
        bytes.start.storeBytes(of: UInt16(value.bitPattern >> 16), toByteOffset: 2 * i, as: UInt16.self)
      case .f32: bytes.start.storeBytes(of: value, toByteOffset: 4 * i, as: Float.self)
      }
    }
    return bytes
  }

  /// `count` floats of room, filled with NaN: an element nobody writes is found.
  static func room(_ count: Int) -> Bytes {
    let bytes = Bytes(count * 4)
    for i in 0..<count { bytes.floats[i] = .nan }
    return bytes
  }

  var floats: UnsafeMutablePointer<Float> { start.assumingMemoryBound(to: Float.self) }
  func values(_ count: Int) -> [Float] {
    (0..<count).map { start.loadUnaligned(fromByteOffset: 4 * $0, as: Float.self) }
  }
}

// MARK: Operands

extension Bytes {
  /// Rows of dense weights, one after the other.
  func weights(_ count: Int, _ columns: Int, _ format: FloatFormat = .f32) -> FloatRows {
    FloatRows(
      base: start, rowBytes: columns * format.bytes, format: format, count: count, columns: columns)
  }

  /// Rows of floats, one after the other.
  func activations(_ count: Int, _ columns: Int) -> Activations {
    Activations(base: floats, stride: columns, count: count)
  }

  /// Rows of results, one after the other.
  func output(_ columns: Int) -> Output { Output(base: floats, stride: columns) }
}

extension FloatRows {
  /// Row `index` alone.
  func row(_ index: Int) -> FloatRows {
    FloatRows(base: base + index * rowBytes, rowBytes: rowBytes, format: format, count: 1, columns: columns)
  }
}

extension Activations {
  /// Row `index` alone.
  func row(_ index: Int) -> Activations { Activations(base: base + index * stride, stride: stride, count: 1) }

  /// The first `count` rows.
  func first(_ count: Int) -> Activations { Activations(base: base, stride: stride, count: count) }
}

/// Random affine weights: packed rows, scales and biases, each at a misalignment of its own.
struct AffineWeights {
  var packed, scales, biases: Bytes
  let bits, group, count, columns: Int
  let format: FloatFormat

  init(
    _ count: Int, _ columns: Int, bits: Int, group: Int, format: FloatFormat,
    misaligned: (packed: Int, scales: Int, biases: Int) = (1, 3, 2), using random: inout SeededGenerator
  ) {
    (self.count, self.columns, self.bits, self.group, self.format) = (count, columns, bits, group, format)
    let groups = count * columns / group
    packed = .random(count * columns * bits / 8, misaligned: misaligned.packed, using: &random)
    scales = .floats(groups, format: format, misaligned: misaligned.scales, using: &random)
    biases = .floats(groups, format: format, misaligned: misaligned.biases, using: &random)
  }

  var rows: QuantizedRows {
    let groups = Groups(
      scales: scales.start, biases: biases.start, rowBytes: columns / group * format.bytes, format: format,
      size: group)
    return QuantizedRows(
      packed: packed.start, rowBytes: columns * bits / 8, bits: bits, groups: groups, count: count,
      columns: columns)
  }

  /// The same with memory after the weights that cannot be read.
  func beforeGuards() throws -> AffineWeights {
    var copy = self
    copy.packed = try Bytes(beforeGuard: packed)
    copy.scales = try Bytes(beforeGuard: scales)
    copy.biases = try Bytes(beforeGuard: biases)
    return copy
  }
}

/// Random weights in a floating mode, whose scales are near one: 2^(code - 127), or E4M3 below 2 in nvfp4. Float32 scales
/// are for 2^`scaleShift` groups each.
struct FloatingWeights {
  let packed, scales, table: Bytes
  let mode: FloatingMode
  let count, columns: Int
  private let scaleRowBytes, scaleShift: Int

  init(
    _ count: Int, _ columns: Int, _ mode: FloatingMode, scaleShift: Int = 1,
    using random: inout SeededGenerator
  ) {
    (self.count, self.columns, self.mode) = (count, columns, mode)
    self.scaleShift = mode.hasFloatScales ? scaleShift : 0
    let groups = columns / mode.groupSize
    scaleRowBytes = mode.hasFloatScales ? 4 * (((groups - 1) >> scaleShift) + 1) : groups
    packed = .random(count * columns * mode.bits / 8, misaligned: 1, using: &random)
    table = .floats(16, misaligned: 1, using: &random)
    guard !mode.hasFloatScales else {
      scales = .floats(count * scaleRowBytes / 4, misaligned: 1, using: &random)
      return
    }
    scales = Bytes(count * columns / mode.groupSize)
    for i in 0..<scales.count {
      let code = mode == .nvfp4 ? random.next() & 0xBF : 117 + random.next() % 20
      scales.start.storeBytes(of: UInt8(truncatingIfNeeded: code), toByteOffset: i, as: UInt8.self)
    }
  }

  var rows: FloatingRows {
    var rows = FloatingRows(
      packed: packed.start, rowBytes: columns * mode.bits / 8, scales: scales.start,
      scaleRowBytes: scaleRowBytes, mode: mode, count: count, columns: columns)
    rows.table = UnsafeRawPointer(table.start)
    rows.scaleShift = scaleShift
    return rows
  }
}

/// All kernel sets of this machine with their names.
let tables: [(name: String, kernels: KernelTable)] =
  CPUFeatures.available.map { ($0.rawValue, KernelTable.table(for: $0)) }

/// The largest error of `found` against `exact`, in units of the bound of its element; NaN counts as infinite.
func worst(_ found: [Float], _ exact: [Float], bound: (Int) -> Float) -> Float {
  var worst: Float = found.count == exact.count ? 0 : .infinity
  for i in 0..<min(found.count, exact.count) {
    let error = abs(found[i] - exact[i]) / bound(i)
    worst = error.isNaN && found[i] != exact[i] ? .infinity : max(worst, error)
  }
  return worst
}

/// Half a unit in the last place of 1.
let epsilon: Float = 0x1p-24
