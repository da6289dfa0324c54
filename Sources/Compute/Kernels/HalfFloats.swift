// The half-width floats as float32.

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
