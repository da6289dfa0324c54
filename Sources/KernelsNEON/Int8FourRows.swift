// Four rows of x by a block of a panel, with products of four bytes of four outputs (`dot`).

/// The sums of sixteen outputs for four rows of x, `stride` bytes apart.
///
/// - Parameter w: the block's registers, of nibbles or of bytes.
@inline(__always)
func fourRows(_ w: UnsafeRawPointer, _ x: UnsafeRawPointer, _ stride: Int, block: Int, isNibbles: Bool)
  -> (PanelSums, PanelSums, PanelSums, PanelSums)
{
  let none: PanelSums = (.zero, .zero, .zero, .zero)
  // Sums of a register of four outputs, a row each.
  var (g0, g1, g2, g3) = (none, none, none, none)
  /// Four registers by the lanes of four rows.
  @inline(__always)
  func multiply(_ lanes: (Bytes, Bytes, Bytes, Bytes), _ a: Bytes, _ b: Bytes, _ c: Bytes, _ d: Bytes) {
    add(&g0, a, lanes)
    add(&g1, b, lanes)
    add(&g2, c, lanes)
    add(&g3, d, lanes)
  }
  @inline(__always)
  func step(_ low: PanelSums, _ high: PanelSums, _ lane: Int, _ v: UnsafeRawPointer) {
    let lows = lanes(low, lane)
    if isNibbles {
      let (a, b, c, d) = (codes(v), codes(v + 16), codes(v + 32), codes(v + 48))
      multiply(lows, lowNibbles(a), lowNibbles(b), lowNibbles(c), lowNibbles(d))
      multiply(lanes(high, lane), highNibbles(a), highNibbles(b), highNibbles(c), highNibbles(d))
    } else {
      multiply(lows, bytes(v), bytes(v + 16), bytes(v + 32), bytes(v + 48))
    }
  }
  // Low nibbles meet the first half of a block of x, high ones the second.
  for unit in 0..<block / (isNibbles ? 32 : 16) {
    let at = x + 16 * unit
    let low = sixteen(at, stride)
    let high = isNibbles ? sixteen(at + block / 2, stride) : low
    let v = w + 256 * unit
    step(low, high, 0, v)
    step(low, high, 1, v + 64)
    step(low, high, 2, v + 128)
    step(low, high, 3, v + 192)
  }
  return (
    (g0.0, g1.0, g2.0, g3.0), (g0.1, g1.1, g2.1, g3.1), (g0.2, g1.2, g2.2, g3.2), (g0.3, g1.3, g2.3, g3.3)
  )
}

@inline(__always)
private func add(_ s: inout PanelSums, _ weights: Bytes, _ x: (Bytes, Bytes, Bytes, Bytes)) {
  s.0 = dot(s.0, weights, x.0)
  s.1 = dot(s.1, weights, x.1)
  s.2 = dot(s.2, weights, x.2)
  s.3 = dot(s.3, weights, x.3)
}

/// Sixteen bytes of each of four rows.
@inline(__always)
private func sixteen(_ x: UnsafeRawPointer, _ stride: Int) -> PanelSums {
  (
    x.loadUnaligned(as: Sums.self), (x + stride).loadUnaligned(as: Sums.self),
    (x + 2 * stride).loadUnaligned(as: Sums.self), (x + 3 * stride).loadUnaligned(as: Sums.self)
  )
}

/// Four bytes of each row in all lanes: an operand by element.
@inline(__always)
private func lanes(_ x: PanelSums, _ lane: Int) -> (Bytes, Bytes, Bytes, Bytes) {
  (
    unsafeBitCast(Sums(repeating: x.0[lane]), to: Bytes.self),
    unsafeBitCast(Sums(repeating: x.1[lane]), to: Bytes.self),
    unsafeBitCast(Sums(repeating: x.2[lane]), to: Bytes.self),
    unsafeBitCast(Sums(repeating: x.3[lane]), to: Bytes.self)
  )
}
