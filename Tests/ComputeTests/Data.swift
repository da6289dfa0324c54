// Seeded random kernel inputs at chosen misalignments, and error bounds.

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
    _ count: Int, format: Int = FloatFormat.f32, misaligned offset: Int = 0,
    using random: inout SeededGenerator
  ) -> Bytes {
    let bytes = Bytes(count * (format == FloatFormat.f32 ? 4 : 2), misaligned: offset)
    for i in 0..<count {
      let value = Float.random(in: -1...1, using: &random)
      switch format {
      case FloatFormat.f16:
        // Sign, an exponent in 2^-14...2^-1, any mantissa.
        let bits =
          UInt16.random(in: 0...1, using: &random) << 15
          | UInt16.random(in: 1 << 10..<15 << 10, using: &random)
        bytes.start.storeBytes(of: bits, toByteOffset: 2 * i, as: UInt16.self)
      case FloatFormat.bf16:
        bytes.start.storeBytes(of: UInt16(value.bitPattern >> 16), toByteOffset: 2 * i, as: UInt16.self)
      default: bytes.start.storeBytes(of: value, toByteOffset: 4 * i, as: Float.self)
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
