// Element types of stored tensors.

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
  /// A float of eight bits, four of them its exponent.
  case f8e4m3 = "F8_E4M3"
  /// A power of two, its exponent plus 127.
  case f8e8m0 = "F8_E8M0"

  /// Bytes of one element.
  package var size: Int {
    switch self {
    case .f64, .i64, .u64: 8
    case .f32, .i32, .u32: 4
    case .f16, .bf16, .i16, .u16: 2
    case .i8, .u8, .bool, .f8e4m3, .f8e8m0: 1
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
