// Portable dequantization, and widening of half-precision weights.

import KernelTypes

extension Portable {
  static func unpack(_ weights: QuantizedRows, into y: Output) {
    for r in 0..<weights.count { unpackRow(weights.rows(r..<r + 1), y.base + r * y.stride) }
  }

  private static func unpackRow(_ weights: QuantizedRows, _ out: UnsafeMutablePointer<Float>) {
    let (bits, groups) = (weights.bits, weights.groups)
    let groupBytes = groups.size * bits / 8
    for group in 0..<weights.columns / groups.size {
      let scale = Lanes(repeating: Reference.element(groups.scales, groups.format, group))
      let bias = Lanes(repeating: Reference.element(groups.biases, groups.format, group))
      let source = weights.packed + group * groupBytes
      let target = out + group * groups.size
      // Eight elements are `bits` whole bytes, read as one little-endian integer.
      for eight in 0..<groups.size / 8 {
        let q = quanta(source + eight * bits, bits)
        store(Lanes(SIMD8<Int32>(truncatingIfNeeded: q)) * scale + bias, target, eight * lanes)
      }
    }
  }

  /// Eight elements of `bits` bits each.
  @inline(__always)
  private static func quanta(_ source: UnsafeRawPointer, _ bits: Int) -> SIMD8<UInt32> {
    switch bits {
    case 4:
      let word = source.loadUnaligned(as: UInt32.self)
      return (SIMD8(repeating: word) &>> SIMD8(0, 4, 8, 12, 16, 20, 24, 28)) & 15
    case 8:
      return SIMD8(truncatingIfNeeded: source.loadUnaligned(as: SIMD8<UInt8>.self))
    default:
      var word: UInt64 = 0
      for byte in 0..<bits {
        word |= UInt64(source.load(fromByteOffset: byte, as: UInt8.self)) << UInt64(8 * byte)
      }
      var q = SIMD8<UInt32>.zero
      for lane in 0..<8 { q[lane] = UInt32(truncatingIfNeeded: word >> UInt64(lane * bits)) }
      return q & SIMD8(repeating: 1 << UInt32(bits) - 1)
    }
  }

  static func unpackFloating(_ weights: FloatingRows, into y: Output) {
    for r in 0..<weights.count { unpackRow(weights.rows(r..<r + 1), y.base + r * y.stride) }
  }

  private static func unpackRow(_ weights: FloatingRows, _ out: UnsafeMutablePointer<Float>) {
    let (groupSize, bits) = (weights.mode.groupSize, weights.mode.bits)
    for group in 0..<weights.columns / groupSize {
      let scale = Reference.scale(weights, group)
      for eight in stride(from: group * groupSize, to: (group + 1) * groupSize, by: 8) {
        let q = quanta(weights.packed + eight * bits / 8, bits)
        if weights.mode == .table {
          var elements = Lanes.zero
          for lane in 0..<lanes { elements[lane] = Reference.element(weights.table, .f32, Int(q[lane])) }
          store(elements * scale, out, eight)
          continue
        }
        // Moving exponent and mantissa into place and multiplying by a power of two rebiases the exponent.
        let (signBit, magnitudeBits, signShift, shift): (UInt32, UInt32, UInt32, UInt32) =
          bits == 4 ? (8, 7, 28, 22) : (0x80, 0x7F, 24, 20)
        let rebias: Float = bits == 4 ? 0x1p126 : 0x1p120
        let sign: SIMD8<UInt32> = (q & signBit) &<< signShift
        let magnitude: SIMD8<UInt32> = (q & magnitudeBits) &<< shift
        // Swift 6.2 takes only one product of lanes and a number in an expression.
        let rebiased: Lanes = unsafeBitCast(sign | magnitude, to: Lanes.self) * rebias
        store(rebiased * scale, out, eight)
      }
    }
  }

  static func widen(
    _ source: UnsafeRawPointer, _ format: FloatFormat, _ count: Int, into out: UnsafeMutablePointer<Float>
  ) {
    var i = 0
    while i + lanes <= count {
      let bits = SIMD8<UInt32>(
        truncatingIfNeeded: source.loadUnaligned(fromByteOffset: i * 2, as: SIMD8<UInt16>.self))
      store(format == .bf16 ? unsafeBitCast(bits &<< 16, to: Lanes.self) : widenF16(bits), out, i)
      i += lanes
    }
    while i < count {
      out[i] = Reference.element(source, format, i)
      i += 1
    }
  }

  /// `float(f16:)` on eight lanes.
  @inline(__always)
  private static func widenF16(_ bits: SIMD8<UInt32>) -> Lanes {
    let sign = (bits & 0x8000) &<< 16
    let magnitude = (bits & 0x7FFF) &<< 13
    let scaled = unsafeBitCast(unsafeBitCast(magnitude, to: Lanes.self) * 0x1p112, to: SIMD8<UInt32>.self)
    let special = magnitude | 0x7F80_0000
    let value = scaled.replacing(with: special, where: magnitude .>= 0x7C00 << 13)
    return unsafeBitCast(sign | value, to: Lanes.self)
  }
}
