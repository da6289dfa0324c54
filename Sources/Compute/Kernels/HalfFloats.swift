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

/// The nearest half, ties to even: exact for what comes from halves by a power of two.
func halfBits(_ value: Float) -> UInt16 {
  let sign = UInt16(truncatingIfNeeded: value.bitPattern >> 16) & 0x8000
  let magnitude = value.bitPattern & 0x7FFF_FFFF
  // At 65,520 and above, and for what is not a number.
  if magnitude >= 0x477F_F000 { return sign | (magnitude > 0x7F80_0000 ? 0x7E00 : 0x7C00) }
  // Below 2⁻¹⁴: a sum with 0.5 has the last place that subnormals have.
  if magnitude < 0x3880_0000 {
    let sum = (Float(bitPattern: magnitude) + 0.5).bitPattern
    return sign | UInt16(truncatingIfNeeded: sum - Float(0.5).bitPattern)
  }
  let rounded = magnitude - 0x3800_0000 + 0xFFF + (magnitude >> 13 & 1)
  return sign | UInt16(truncatingIfNeeded: rounded >> 13)
}
