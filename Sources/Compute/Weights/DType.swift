// Element types of stored tensors, and conversions of the half-width floats.

import KernelTypes

/// The element type of a tensor in a checkpoint; raw values are the names safetensors uses.
package enum DType: String, Sendable, CaseIterable {
  case f64 = "F64"
  case f32 = "F32"
  case f16 = "F16"
  case bf16 = "BF16"
  case i64 = "I64"
  case i32 = "I32"
  case i16 = "I16"
  case i8 = "I8"
  case u64 = "U64"
  case u32 = "U32"
  case u16 = "U16"
  case u8 = "U8"
  case bool = "BOOL"

  /// Bytes of one element.
  package var size: Int {
    switch self {
    case .f64, .i64, .u64: 8
    case .f32, .i32, .u32: 4
    case .f16, .bf16, .i16, .u16: 2
    case .i8, .u8, .bool: 1
    }
  }

  /// The format in which kernels read it; nil when it is no float that they read.
  var floatFormat: FloatFormat? {
    switch self {
    case .f32: .f32
    case .f16: .f16
    case .bf16: .bf16
    default: nil
    }
  }
}

/// bfloat16 is the upper half of a float32.
package func float(bf16 bits: UInt16) -> Float { Float(bitPattern: UInt32(bits) << 16) }

/// IEEE 754 binary16 to float32, exact, in integer arithmetic: baseline x86-64 has no instruction for it.
package func float(f16 bits: UInt16) -> Float {
  let sign = UInt32(bits & 0x8000) << 16
  let magnitude = UInt32(bits & 0x7FFF)
  if magnitude >= 0x7C00 {  // infinity and NaN
    return Float(bitPattern: sign | 0x7F80_0000 | (magnitude & 0x3FF) << 13)
  }
  // Shifting the exponent into place and multiplying by 2^112 rebias it; subnormals come out right too.
  let scaled = Float(bitPattern: magnitude << 13) * 0x1p112
  return Float(bitPattern: sign | scaled.bitPattern)
}
