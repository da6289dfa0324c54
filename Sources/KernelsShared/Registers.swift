// Registers by number: sums that a kernel keeps over a loop. Inner loops over the numbers are unrolled, and then each is a register
// of its own and those that are not used are gone. InlineArray, which does the same, needs macOS 26, and a type of our own would
// bring weak symbols (docs/kernels/layouts.md).

/// Sixteen registers of floats, of which a loop may use some.
typealias FloatRegisters = (
  Floats, Floats, Floats, Floats, Floats, Floats, Floats, Floats, Floats, Floats, Floats, Floats, Floats,
  Floats, Floats, Floats
)

/// All the same.
@inline(__always)
func registers(of r: Floats) -> FloatRegisters { (r, r, r, r, r, r, r, r, r, r, r, r, r, r, r, r) }

/// - Parameter index: a constant once loops are unrolled.
@inline(__always)
func get(_ registers: inout FloatRegisters, _ index: Int) -> Floats {
  _withUnprotectedUnsafeMutableBytes(of: &registers) {
    $0.load(fromByteOffset: index * MemoryLayout<Floats>.stride, as: Floats.self)
  }
}

@inline(__always)
func set(_ registers: inout FloatRegisters, _ index: Int, _ value: Floats) {
  _withUnprotectedUnsafeMutableBytes(of: &registers) {
    $0.storeBytes(of: value, toByteOffset: index * MemoryLayout<Floats>.stride, as: Floats.self)
  }
}

/// Sixteen registers of integers, of which a loop may use some.
typealias IntegerRegisters = (
  Integers, Integers, Integers, Integers, Integers, Integers, Integers, Integers, Integers, Integers,
  Integers, Integers, Integers, Integers, Integers, Integers
)

/// All the same.
@inline(__always)
func registers(of r: Integers) -> IntegerRegisters { (r, r, r, r, r, r, r, r, r, r, r, r, r, r, r, r) }

/// - Parameter index: a constant once loops are unrolled.
@inline(__always)
func get(_ registers: inout IntegerRegisters, _ index: Int) -> Integers {
  _withUnprotectedUnsafeMutableBytes(of: &registers) {
    $0.load(fromByteOffset: index * MemoryLayout<Integers>.stride, as: Integers.self)
  }
}

@inline(__always)
func set(_ registers: inout IntegerRegisters, _ index: Int, _ value: Integers) {
  _withUnprotectedUnsafeMutableBytes(of: &registers) {
    $0.storeBytes(of: value, toByteOffset: index * MemoryLayout<Integers>.stride, as: Integers.self)
  }
}
