// Activations as int8 for the integer kernels: blocks of 32 or 64 elements with a scale each.
//
//   int8 x8[columns, padded with zeros to 64] | float a[blocks, padded to 16] | float c[...] | int32 Σ x8 [...]
//
// with x ≈ a · x8 in each block and c = a · Σ x8. Bytes of weights are multiplied as signed ones, q - 128, which leaves
// 128 · Σ x8 to be added. Beside weights of up to 4 bits the elements of a block stand as [even | odd].

package import KernelTypes
import _Builtin_intrinsics.arm.neon

/// Bytes of one quantized row.
package func int8RowBytes(_ columns: Int, _ block: Int) -> Int {
  paddedColumns(columns) + 12 * paddedBlocks(columns, block)
}

/// Quantizes one row of `columns` floats, whole blocks; see the head of this file for `out`. Scalar twin:
/// `Reference.quantizeInt8`.
package func quantizeInt8(
  _ x: UnsafePointer<Float>, _ columns: Int, _ block: Int, _ order: Int8Order,
  into out: UnsafeMutableRawPointer
) {
  let (padded, blocks, used) = (paddedColumns(columns), paddedBlocks(columns, block), columns / block)
  let scales = (out + padded).assumingMemoryBound(to: Float.self)
  let sums = (out + padded + 8 * blocks).assumingMemoryBound(to: Int32.self)
  for j in used..<blocks { (scales[j], scales[blocks + j], sums[j]) = (0, 0, 0) }
  for at in stride(from: columns, to: padded, by: 16) { (out + at).storeBytes(of: .zero, as: Bytes.self) }
  for j in 0..<used {
    let (source, target) = (x + j * block, out + j * block)
    var largest = Four.zero
    for i in 0..<block / 4 { largest = vmaxq_f32(largest, vabsq_f32(four(source, 4 * i))) }
    let top = vmaxvq_f32(largest)
    let inverse = Four(repeating: top > 0 ? 127 / top : 0)
    var total = Sums.zero
    @inline(__always)
    func sixteen(_ at: Int) -> Bytes {
      let a = vcvtnq_s32_f32(four(source, at) * inverse)
      let b = vcvtnq_s32_f32(four(source, at + 4) * inverse)
      let c = vcvtnq_s32_f32(four(source, at + 8) * inverse)
      let d = vcvtnq_s32_f32(four(source, at + 12) * inverse)
      total = total &+ (a &+ b) &+ (c &+ d)
      return Bytes(
        lowHalf: vqmovn_s16(SIMD8(lowHalf: vqmovn_s32(a), highHalf: vqmovn_s32(b))),
        highHalf: vqmovn_s16(SIMD8(lowHalf: vqmovn_s32(c), highHalf: vqmovn_s32(d))))
    }
    switch order {
    case .natural:
      for at in stride(from: 0, to: block, by: 16) {
        (target + at).storeBytes(of: sixteen(at), as: Bytes.self)
      }
    case .evenOdd:
      for at in stride(from: 0, to: block, by: 32) {
        let (a, b) = (sixteen(at), sixteen(at + 16))
        (target + at / 2).storeBytes(of: vuzp1q_s8(a, b), as: Bytes.self)
        (target + block / 2 + at / 2).storeBytes(of: vuzp2q_s8(a, b), as: Bytes.self)
      }
    }
    let all = vaddvq_s32(total)
    scales[j] = top / 127
    scales[blocks + j] = top / 127 * Float(all)
    sums[j] = all
  }
}
