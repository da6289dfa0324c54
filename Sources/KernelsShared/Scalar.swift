// Scales and biases one by one, at the levels of x86.

import KernelTypes
import _Builtin_intrinsics.intel

/// Element `index` of an array of scales or biases.
@inline(__always)
func scalar(_ base: UnsafeRawPointer, _ format: FloatFormat, _ index: Int) -> Float {
  switch format {
  case .f32: return base.loadUnaligned(fromByteOffset: 4 * index, as: Float.self)
  case .f16:
    let bits = base.loadUnaligned(fromByteOffset: 2 * index, as: UInt16.self)
    return _mm_cvtph_ps(_mm_cvtsi32_si128(Int32(bits)))[0]
  case .bf16:
    let bits = base.loadUnaligned(fromByteOffset: 2 * index, as: UInt16.self)
    return Float(bitPattern: UInt32(bits) << 16)
  }
}
