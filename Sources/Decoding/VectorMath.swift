// Maxima and exponentials over whole rows of logits, 16 lanes at a time.
//
// Own arithmetic instead of libm: it is vectorised (151 936 exponentials take 0.1 ms instead of 1 ms), and the
// same on every machine, so that a seed gives the same text everywhere the logits agree.

typealias Lanes = SIMD16<Float>

enum VectorMath {
  /// Elements of a block; rows are summarised block by block.
  static let block = 64

  /// Blocks of a row of `count` elements, the last perhaps short.
  static func blockCount(_ count: Int) -> Int { (count + block - 1) / block }

  /// The positions of the elements of a block in a row of `count`.
  @inline(__always)
  static func positions(ofBlock index: Int, of count: Int) -> Range<Int> {
    index * block..<min(count, (index + 1) * block)
  }

  /// Up to 16 elements from `start`; lanes past the end hold `filler`.
  @inline(__always)
  static func lanes(_ row: UnsafeBufferPointer<Float>, _ start: Int, filler: Float) -> Lanes {
    if start + Lanes.scalarCount <= row.count {
      return UnsafeRawBufferPointer(row).loadUnaligned(
        fromByteOffset: start * MemoryLayout<Float>.stride, as: Lanes.self)
    }
    var lanes = Lanes(repeating: filler)
    for index in start..<max(start, row.count) { lanes[index - start] = row[index] }
    return lanes
  }

  /// The largest element of each block. NaN counts as negative infinity.
  static func blockMaxima(_ row: UnsafeBufferPointer<Float>) -> [Float] {
    (0..<blockCount(row.count)).map { maximum(ofBlock: $0, of: row, nan: -.infinity) }
  }

  /// The largest element of one block, in which NaN counts as `nan`.
  @inline(__always)
  static func maximum(ofBlock index: Int, of row: UnsafeBufferPointer<Float>, nan: Float) -> Float {
    var best = Lanes(repeating: -.infinity)
    var areNumbers = SIMDMask<Lanes.MaskStorage>(repeating: true)
    for start in stride(from: index * block, to: (index + 1) * block, by: Lanes.scalarCount) {
      let next = lanes(row, start, filler: -.infinity)
      best.replace(with: next, where: next .> best)  // a comparison with NaN is false
      areNumbers .&= next .== next
    }
    return all(areNumbers) ? largest(best) : max(largest(best), nan)
  }

  /// The largest of the lanes, none of which is NaN. The standard library's `max()` goes lane by lane: it took four fifths of
  /// `blockMaxima`.
  @inline(__always)
  static func largest(_ lanes: Lanes) -> Float {
    let eight = lanes.lowHalf.replacing(with: lanes.highHalf, where: lanes.highHalf .> lanes.lowHalf)
    let four = eight.lowHalf.replacing(with: eight.highHalf, where: eight.highHalf .> eight.lowHalf)
    let two = four.lowHalf.replacing(with: four.highHalf, where: four.highHalf .> four.lowHalf)
    return max(two.x, two.y)
  }

  /// Replaces every element x by exp((x - maximum) · scale); NaN becomes 0.
  ///
  /// - Returns: the sum of the results of each block.
  static func exponentiate(
    _ row: UnsafeMutableBufferPointer<Float>, maximum: Float, scale: Float
  ) -> [Double] {
    (0..<blockCount(row.count)).map { index in
      var sum = Lanes.zero
      for start in stride(from: index * block, to: (index + 1) * block, by: Lanes.scalarCount) {
        let result = exponential(
          (lanes(UnsafeBufferPointer(row), start, filler: -.infinity) - maximum) * scale)
        sum += result
        if start + Lanes.scalarCount <= row.count {
          UnsafeMutableRawBufferPointer(row).storeBytes(
            of: result, toByteOffset: start * MemoryLayout<Float>.stride, as: Lanes.self)
        } else {
          for position in start..<max(start, row.count) { row[position] = result[position - start] }
        }
      }
      return Double(sum.sum())
    }
  }

  /// The sum of exp(x - maximum) over the row. NaN counts as negative infinity.
  static func sumOfExponentials(_ row: UnsafeBufferPointer<Float>, maximum: Float) -> Double {
    var total = 0.0
    for index in 0..<blockCount(row.count) {
      var sum = Lanes.zero
      for start in stride(from: index * block, to: (index + 1) * block, by: Lanes.scalarCount) {
        sum += exponential(lanes(row, start, filler: -.infinity) - maximum)
      }
      total += Double(sum.sum())
    }
    return total
  }

  /// Σ exp(x) · (x - y) over two rows of one length, x and y relative to the maxima given; elements with
  /// exp(x) = 0 count nothing. NaN counts as negative infinity in `p`.
  static func sumOfWeightedDifferences(
    _ p: UnsafeBufferPointer<Float>, maximum pMaximum: Float,
    _ q: UnsafeBufferPointer<Float>, maximum qMaximum: Float
  ) -> Double {
    var total = 0.0
    for index in 0..<blockCount(p.count) {
      var sum = Lanes.zero
      for start in stride(from: index * block, to: (index + 1) * block, by: Lanes.scalarCount) {
        let x = lanes(p, start, filler: -.infinity) - pMaximum
        let weight = exponential(x)
        let term = weight * (x - (lanes(q, start, filler: -.infinity) - qMaximum))
        sum += term.replacing(with: 0, where: weight .== 0)
      }
      total += Double(sum.sum())
    }
    return total
  }

  /// Sets to 0 the elements below `value`, and those equal to it after the position `lastEqual`. Blocks that
  /// have no element to keep are left as they are.
  ///
  /// - Returns: the sum of the remaining elements of each block.
  static func drop(
    _ row: UnsafeMutableBufferPointer<Float>, below value: Float, lastEqual: Int, blockMaxima: [Float]
  ) -> [Double] {
    blockMaxima.enumerated().map { index, maximum in
      guard maximum >= value else { return 0 }
      let positions = positions(ofBlock: index, of: row.count)
      var sum = Lanes.zero
      for start in stride(from: positions.lowerBound, to: positions.upperBound, by: Lanes.scalarCount) {
        let end = start + Lanes.scalarCount
        if end > row.count || start...end ~= lastEqual {
          for position in start..<min(end, row.count) {
            let isKept = row[position] > value || (row[position] == value && position <= lastEqual)
            if !isKept { row[position] = 0 }
            sum[position - start] += row[position]
          }
          continue
        }
        var next = lanes(UnsafeBufferPointer(row), start, filler: 0)
        next.replace(with: 0, where: start > lastEqual ? next .<= value : next .< value)
        sum += next
        UnsafeMutableRawBufferPointer(row).storeBytes(
          of: next, toByteOffset: start * MemoryLayout<Float>.stride, as: Lanes.self)
      }
      return Double(sum.sum())
    }
  }

  /// exp(x) for x ≤ 0, relative error below 2e-7; 0 below -87 and for NaN, 1 above 0.
  ///
  /// exp(x) = 2^n · exp(r) with n = round(x / ln 2) and |r| ≤ ln 2 / 2; the polynomial is Cephes' expf.
  @inline(__always)
  static func exponential(_ x: Lanes) -> Lanes {
    // Adding 1.5 · 2^23 rounds to an integer and leaves it in the low bits of the sum.
    let magic: Float = 12_582_912
    let inRange = x .> -87
    let x = x.replacing(with: 0, where: .!inRange .| (x .> 0))
    let shifted = x * 1.442_695_04 + magic
    let n = shifted - magic
    let r = x - n * 0.693_359_375 - n * -2.121_944_4e-4
    var p = r * 1.987_569_15e-4 + 1.398_199_95e-3
    p = p * r + 8.333_451_9e-3
    p = p * r + 4.166_579_6e-2
    p = p * r + 1.666_666_55e-1
    p = p * r + 5.000_000_1e-1
    p = p * r * r + r + 1
    let power = unsafeBitCast(shifted, to: SIMD16<UInt32>.self) &<< 23 &+ 0x3F80_0000
    return (p * unsafeBitCast(power, to: Lanes.self)).replacing(with: 0, where: .!inRange)
  }

  /// exp(x), to 1e-15; x is taken as at most 700 and at least -700. 0 where x is no number.
  static func exponential(_ x: Double) -> Double {
    guard !x.isNaN else { return 0 }
    let x = min(max(x, -700), 700)
    let n = (x * 1.442_695_040_888_963_4).rounded()
    let r = x - n * 0.693_147_180_369_123_816 - n * 1.908_214_929_270_587_7e-10
    // |r| ≤ ln 2 / 2: thirteen terms of the series reach double precision.
    var sum = 1.0
    for term in stride(from: 13.0, through: 1, by: -1) { sum = 1 + sum * r / term }
    return sum * Double(sign: .plus, exponent: Int(n), significand: 1)
  }

  /// A number from 0 to a power; 0 to the power of 0 is 1.
  static func power(_ base: Double, _ exponent: Double) -> Double {
    if exponent == 0 { return 1 }
    return base > 0 ? exponential(exponent * logarithm(base)) : 0
  }

  /// The natural logarithm of a positive, finite, normal number, to 1e-15.
  static func logarithm(_ x: Double) -> Double {
    var mantissa = x.significand
    var exponent = Double(x.exponent)
    if mantissa > 1.414_213_562_373_095 {
      mantissa /= 2
      exponent += 1
    }
    // ln m = 2 · artanh((m - 1) / (m + 1)), |argument| ≤ 0.172: eleven terms reach double precision.
    let s = (mantissa - 1) / (mantissa + 1)
    var sum = 0.0
    for odd in stride(from: 23, through: 1, by: -2) { sum = sum * s * s + 1 / Double(odd) }
    return exponent * 0.693_147_180_559_945_309 + 2 * s * sum
  }
}
