// Four rows of x by a block of a panel, with SMMLA: eight bytes of two rows by eight bytes of two outputs.

import _Builtin_intrinsics.arm.neon

/// The sums of sixteen outputs for four rows of x, `stride` bytes apart.
///
/// - Parameter w: the block's registers, of nibbles or of bytes.
@inline(__always)
func fourRows(_ w: UnsafeRawPointer, _ x: UnsafeRawPointer, _ stride: Int, block: Int, isNibbles: Bool)
  -> (Quad, Quad, Quad, Quad)
{
  let zero = Sums.zero
  // Rows 0 and 1, and rows 2 and 3: two outputs a register.
  var s: Eight = (zero, zero, zero, zero, zero, zero, zero, zero)
  var t = s
  @inline(__always)
  func step(_ low: (Bytes, Bytes), _ high: (Bytes, Bytes), _ v: UnsafeRawPointer) {
    @inline(__always)
    func add(_ s: inout Sums, _ t: inout Sums, _ g: Int) {
      if isNibbles {
        let weights = codes(v + 16 * g)
        let (even, odd) = (lowNibbles(weights), highNibbles(weights))
        s = vmmlaq_s32(vmmlaq_s32(s, low.0, even), high.0, odd)
        t = vmmlaq_s32(vmmlaq_s32(t, low.1, even), high.1, odd)
      } else {
        let weights = bytes(v + 16 * g)
        s = vmmlaq_s32(s, low.0, weights)
        t = vmmlaq_s32(t, low.1, weights)
      }
    }
    add(&s.0, &t.0, 0)
    add(&s.1, &t.1, 1)
    add(&s.2, &t.2, 2)
    add(&s.3, &t.3, 3)
    add(&s.4, &t.4, 4)
    add(&s.5, &t.5, 5)
    add(&s.6, &t.6, 6)
    add(&s.7, &t.7, 7)
  }
  // Low nibbles meet the first half of a block of x, high ones the second.
  for unit in 0..<block / (isNibbles ? 32 : 16) {
    let at = x + 16 * unit
    let low = pairs(at, stride)
    let high = isNibbles ? pairs(at + block / 2, stride) : low
    step(low.first, high.first, w + 256 * unit)
    step(low.second, high.second, w + 256 * unit + 128)
  }
  return (firstRow(s), secondRow(s), firstRow(t), secondRow(t))
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

@inline(__always)
private func firstRow(_ s: Eight) -> Quad {
  (
    Sums(lowHalf: s.0.lowHalf, highHalf: s.1.lowHalf), Sums(lowHalf: s.2.lowHalf, highHalf: s.3.lowHalf),
    Sums(lowHalf: s.4.lowHalf, highHalf: s.5.lowHalf), Sums(lowHalf: s.6.lowHalf, highHalf: s.7.lowHalf)
  )
}

@inline(__always)
private func secondRow(_ s: Eight) -> Quad {
  (
    Sums(lowHalf: s.0.highHalf, highHalf: s.1.highHalf), Sums(lowHalf: s.2.highHalf, highHalf: s.3.highHalf),
    Sums(lowHalf: s.4.highHalf, highHalf: s.5.highHalf), Sums(lowHalf: s.6.highHalf, highHalf: s.7.highHalf)
  )
}
