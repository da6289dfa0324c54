// Columns of weights as floats, eight outputs at a time.

package import KernelTypes
import _Builtin_intrinsics.intel

/// Some columns of at most `OutlierList.outputs` rows, `scale · q + bias`. Scalar twin: `Reference.columns`.
package func rowColumns(_ weights: QuantizedRows, into out: WeightColumns) {
  let (bits, groups) = (weights.bits, weights.groups)
  let mask: UInt32 = 1 &<< UInt32(bits) - 1
  let groupShift = groups.size.trailingZeroBitCount
  /// The same place of eight rows.
  @inline(__always)
  func eight<T>(_ base: UnsafeRawPointer, _ stride: Int, as: T.Type) -> SIMD8<T> {
    @inline(__always)
    func one(_ i: Int) -> T { (base + i * stride).loadUnaligned(as: T.self) }
    return SIMD8(one(0), one(1), one(2), one(3), one(4), one(5), one(6), one(7))
  }
  @inline(__always)
  func factors(_ base: UnsafeRawPointer) -> SIMD8<Float> {
    guard groups.format != .f32 else { return eight(base, groups.rowBytes, as: Float.self) }
    let halves = eight(base, groups.rowBytes, as: UInt16.self)
    return widen(unsafeBitCast(halves, to: __m128i.self), groups.format)
  }
  for index in 0..<out.count {
    let column = Int(out.columns[index])
    // The last word of a row begins four bytes before its end.
    let byte = min(column * bits / 8, weights.rowBytes - 4)
    let shift = UInt32(truncatingIfNeeded: column * bits - 8 * byte)
    let (group, target) = (column &>> groupShift, out.base + index * OutlierList.outputs)
    var (packed, at) = (weights.packed + byte, group * groups.format.bytes)
    var row = 0
    while row + 8 <= weights.count {
      let words = eight(packed, weights.rowBytes, as: UInt32.self)
      // Integers below 2^23, as the lowest bits of floats from 2^23 on.
      let bits = words &>> SIMD8(repeating: shift) & SIMD8(repeating: mask) | SIMD8(repeating: 0x4B00_0000)
      let q = unsafeBitCast(bits, to: SIMD8<Float>.self) - SIMD8(repeating: 0x1p23)
      let value = factors(groups.scales + at) * q + factors(groups.biases + at)
      UnsafeMutableRawPointer(target + row).storeBytes(of: value, as: SIMD8<Float>.self)
      packed += 8 * weights.rowBytes
      at += 8 * groups.rowBytes
      row += 8
    }
    while row < weights.count {
      let q = Float(packed.loadUnaligned(as: UInt32.self) &>> shift & mask)
      target[row] =
        scalar(groups.scales + at, groups.format, 0) * q + scalar(groups.biases + at, groups.format, 0)
      packed += weights.rowBytes
      at += groups.rowBytes
      row += 1
    }
  }
}
