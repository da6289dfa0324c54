// Four rows of x by a block of a panel, with SMMLA: eight bytes of two rows by eight bytes of two outputs.

import _Builtin_intrinsics.arm.neon

/// The sums of sixteen outputs for four rows of x, `stride` bytes apart.
///
/// - Parameter w: the block's registers, of nibbles or of bytes.
@inline(__always)
func fourRows(_ w: UnsafeRawPointer, _ x: UnsafeRawPointer, _ stride: Int, block: Int, isNibbles: Bool)
  -> (PanelSums, PanelSums, PanelSums, PanelSums)
{
  // Of rows 0 and 1, and of rows 2 and 3: two outputs a register.
  var sums = registers(of: Sums.zero)
  var others = sums
  @inline(__always)
  func step(_ low: (Bytes, Bytes), _ high: (Bytes, Bytes), _ v: UnsafeRawPointer) {
    for g in 0..<8 {
      if isNibbles {
        let weights = codes(v + 16 * g)
        let (even, odd) = (lowNibbles(weights), highNibbles(weights))
        set(&sums, g, vmmlaq_s32(vmmlaq_s32(get(&sums, g), low.0, even), high.0, odd))
        set(&others, g, vmmlaq_s32(vmmlaq_s32(get(&others, g), low.1, even), high.1, odd))
      } else {
        let weights = bytes(v + 16 * g)
        set(&sums, g, vmmlaq_s32(get(&sums, g), low.0, weights))
        set(&others, g, vmmlaq_s32(get(&others, g), low.1, weights))
      }
    }
  }
  // Low nibbles meet the first half of a block of x, high ones the second.
  for unit in 0..<block / (isNibbles ? 32 : 16) {
    let at = x + 16 * unit
    let low = pairs(at, stride)
    let high = isNibbles ? pairs(at + block / 2, stride) : low
    step(low.first, high.first, w + 256 * unit)
    step(low.second, high.second, w + 256 * unit + 128)
  }
  return (
    row(&sums) { $0.lowHalf }, row(&sums) { $0.highHalf }, row(&others) { $0.lowHalf },
    row(&others) { $0.highHalf }
  )
}

/// Eight bytes of rows 0 and 1, and of rows 2 and 3; and the eight after them.
@inline(__always)
private func pairs(_ x: UnsafeRawPointer, _ stride: Int)
  -> (first: (Bytes, Bytes), second: (Bytes, Bytes))
{
  let (a, b) = (bytes(x), bytes(x + stride))
  let (c, d) = (bytes(x + 2 * stride), bytes(x + 3 * stride))
  return (
    first: (Bytes(lowHalf: a.lowHalf, highHalf: b.lowHalf), Bytes(lowHalf: c.lowHalf, highHalf: d.lowHalf)),
    second: (
      Bytes(lowHalf: a.highHalf, highHalf: b.highHalf), Bytes(lowHalf: c.highHalf, highHalf: d.highHalf)
    )
  )
}

/// A row's half of eight registers.
@inline(__always)
private func row(_ sums: inout IntegerRegisters, _ half: (Sums) -> SIMD2<Int32>) -> PanelSums {
  @inline(__always)
  func four(_ g: Int) -> Sums { Sums(lowHalf: half(get(&sums, g)), highHalf: half(get(&sums, g + 1))) }
  return (four(0), four(2), four(4), four(6))
}
