// Weights of 2, 3, 5 and 6 bits rewritten as nibbles or bytes.
//
// A table lookup gives each 16-bit lane the two bytes in which its element lies, and a shift by lane moves it down.

import _Builtin_intrinsics.arm.neon

/// Sixteen elements of `bits` bits, whose first is bit 0 of byte `from` of the register.
@inline(__always)
private func sixteen(_ source: Codes, _ bits: Int, _ from: Int) -> Codes {
  @inline(__always)
  func eight(_ first: Int) -> SIMD8<UInt8> {
    var places = Codes.zero
    var shifts = SIMD8<UInt16>.zero
    for lane in 0..<8 {
      let bit = 8 * from + (first + lane) * bits
      places[2 * lane] = UInt8(truncatingIfNeeded: bit / 8)
      places[2 * lane + 1] = UInt8(truncatingIfNeeded: bit / 8 + 1)
      shifts[lane] = UInt16(truncatingIfNeeded: bit % 8)
    }
    let words = unsafeBitCast(vqtbl1q_u8(source, places), to: SIMD8<UInt16>.self) &>> shifts
    return vmovn_u16(words & SIMD8(repeating: 1 << UInt16(truncatingIfNeeded: bits) - 1))
  }
  return Codes(lowHalf: eight(0), highHalf: eight(8))
}

/// 32 elements as bytes; nothing outside of their `4 · bits` bytes is read.
@inline(__always)
private func thirtyTwo(_ w: UnsafeRawPointer, _ bits: Int) -> (Codes, Codes) {
  switch bits {
  case 2, 3:
    let last = bits == 2 ? 0 : UInt64((w + 8).loadUnaligned(as: UInt32.self))
    let all = unsafeBitCast(SIMD2(w.loadUnaligned(as: UInt64.self), last), to: Codes.self)
    return (sixteen(all, bits, 0), sixteen(all, bits, 2 * bits))
  default:
    // The last sixteen bytes hold the upper half.
    let (first, last) = (codes(w), codes(w + 4 * bits - 16))
    return (sixteen(first, bits, 0), sixteen(last, bits, 16 - 2 * bits))
  }
}

/// Rewrites weights of 2, 3, 5 and 6 bits. Scalar twin: `Reference.repack`.
///
/// - Parameters:
///   - packed: `count` elements from a unit of 32 on; `count` is a multiple of 32.
///   - out: nibbles, low one first, for up to 4 bits, bytes for more; `count / 2` or `count` bytes.
package func repack(
  _ packed: UnsafeRawPointer, _ bits: Int, _ count: Int, into out: UnsafeMutableRawPointer
) {
  switch bits {
  case 2: rewrite(packed, 2, count, out)
  case 3: rewrite(packed, 3, count, out)
  case 5: rewrite(packed, 5, count, out)
  default: rewrite(packed, 6, count, out)
  }
}

@inline(__always)
private func rewrite(
  _ packed: UnsafeRawPointer, _ bits: Int, _ count: Int, _ out: UnsafeMutableRawPointer
) {
  for i in 0..<count / 32 {
    let (a, b) = thirtyTwo(packed + 4 * bits * i, bits)
    if bits <= 4 {
      let nibbles = vuzp1q_u8(a, b) | vuzp2q_u8(a, b) &<< 4
      (out + 16 * i).storeBytes(of: nibbles, as: Codes.self)
    } else {
      (out + 32 * i).storeBytes(of: a, as: Codes.self)
      (out + 32 * i + 16).storeBytes(of: b, as: Codes.self)
    }
  }
}
