// The inverse cosine transform of libjpeg's default, "islow": 13-bit constants, two passes, the same rounding.
//
// Source: Loeffler, Ligtenberg and Moschytz (ICASSP 1989), in the arrangement that libjpeg documents.

struct InverseDCT {
  private var work = [Int](repeating: 0, count: 64)

  /// Bits of the constants after the point, and what the first pass keeps of them.
  private static let bits = 13
  private static let kept = 2

  init() {}

  /// Eight numbers through one dimension; sums are rounded by `shift` bits.
  @inline(__always)
  private static func pass(
    _ s: (Int, Int, Int, Int, Int, Int, Int, Int), shift: Int
  ) -> (Int, Int, Int, Int, Int, Int, Int, Int) {
    let rounding = 1 << (shift - 1)
    // Even part.
    let z1 = (s.2 &+ s.6) &* 4433
    let t2 = z1 &- s.6 &* 15137
    let t3 = z1 &+ s.2 &* 6270
    let t0 = (s.0 &+ s.4) &<< bits
    let t1 = (s.0 &- s.4) &<< bits
    let (e0, e3, e1, e2) = (t0 &+ t3, t0 &- t3, t1 &+ t2, t1 &- t2)
    // Odd part.
    let y5 = (s.7 &+ s.3 &+ s.5 &+ s.1) &* 9633
    let y1 = (s.7 &+ s.1) &* -7373
    let y2 = (s.5 &+ s.3) &* -20995
    let y3 = (s.7 &+ s.3) &* -16069 &+ y5
    let y4 = (s.5 &+ s.1) &* -3196 &+ y5
    let o0 = s.7 &* 2446 &+ y1 &+ y3
    let o1 = s.5 &* 16819 &+ y2 &+ y4
    let o2 = s.3 &* 25172 &+ y2 &+ y3
    let o3 = s.1 &* 12299 &+ y1 &+ y4
    return (
      (e0 &+ o3 &+ rounding) >> shift, (e1 &+ o2 &+ rounding) >> shift, (e2 &+ o1 &+ rounding) >> shift,
      (e3 &+ o0 &+ rounding) >> shift, (e3 &- o0 &+ rounding) >> shift, (e2 &- o1 &+ rounding) >> shift,
      (e1 &- o2 &+ rounding) >> shift, (e0 &- o3 &+ rounding) >> shift
    )
  }

  /// Writes the 8 x 8 samples of a block.
  ///
  /// - Parameters:
  ///   - block: holds the coefficients from `start` on, in natural order.
  ///   - at: the first sample's place in `out`.
  mutating func run(
    _ block: [Int16], from start: Int, steps: [Int32], into out: inout [UInt8], at: Int, stride: Int
  ) {
    for column in 0..<8 {
      func value(_ row: Int) -> Int { Int(block[start + row * 8 + column]) &* Int(steps[row * 8 + column]) }
      let r = Self.pass(
        (value(0), value(1), value(2), value(3), value(4), value(5), value(6), value(7)),
        shift: Self.bits - Self.kept)
      work[column] = r.0
      work[8 + column] = r.1
      work[16 + column] = r.2
      work[24 + column] = r.3
      work[32 + column] = r.4
      work[40 + column] = r.5
      work[48 + column] = r.6
      work[56 + column] = r.7
    }
    for row in 0..<8 {
      let w = row * 8
      let r = Self.pass(
        (
          work[w], work[w + 1], work[w + 2], work[w + 3], work[w + 4], work[w + 5], work[w + 6], work[w + 7]
        ), shift: Self.bits + Self.kept + 3)
      let target = at + row * stride
      out[target] = Self.sample(r.0)
      out[target + 1] = Self.sample(r.1)
      out[target + 2] = Self.sample(r.2)
      out[target + 3] = Self.sample(r.3)
      out[target + 4] = Self.sample(r.4)
      out[target + 5] = Self.sample(r.5)
      out[target + 6] = Self.sample(r.6)
      out[target + 7] = Self.sample(r.7)
    }
  }

  @inline(__always)
  private static func sample(_ value: Int) -> UInt8 {
    UInt8(truncatingIfNeeded: max(0, min(255, value &+ 128)))
  }
}

extension JPEGComponent {
  /// With the samples of its coefficients.
  func transformed() -> JPEGComponent {
    var result = self
    result.coefficients = []
    var transform = InverseDCT()
    for block in 0..<blockColumns * blockRows {
      let at = block / blockColumns * 8 * stride + block % blockColumns * 8
      transform.run(
        coefficients, from: block * 64, steps: steps, into: &result.samples, at: at, stride: stride)
    }
    return result
  }
}
