// A vector as bytes with a scale of its own, and how far the bytes may be off.

import KernelTypes

/// `x ≈ scale · (code - 128)`, one byte for each component.
package enum RowCode {
  /// Bytes of a row of codes: whole cache lines.
  package static func stride(of dimensions: Int) -> Int { (dimensions + 63) & ~63 }

  /// Writes the codes of a row.
  ///
  /// - Parameter out: `stride(of:)` bytes; those beyond the components become 128, which is zero.
  /// - Returns: the scale, and a bound of ‖x - scale · (code - 128)‖.
  package static func encode(
    _ x: UnsafeBufferPointer<Float>, into out: UnsafeMutablePointer<UInt8>
  ) -> (scale: Float, error: Float) {
    var largest: Float = 0
    for value in x { largest = max(largest, abs(value)) }
    let scale = largest / 127
    let inverse = scale > 0 ? 1 / scale : 0
    var error = 0.0
    for (index, value) in x.enumerated() {
      let code = max(-127, min(127, (value * inverse).rounded(.toNearestOrEven)))
      out[index] = UInt8(truncatingIfNeeded: Int(code) + 128)
      let rest = Double(value) - Double(scale) * Double(code)
      error += rest * rest
    }
    for index in x.count..<stride(of: x.count) { out[index] = 128 }
    return (scale, Float(error.squareRoot() * 1.000_001).nextUp)
  }

  /// A vector of length 1 in the direction of `x`; nil when it has none.
  package static func normalized(_ x: [Float]) -> [Float]? {
    var sum = 0.0
    for value in x { sum += Double(value) * Double(value) }
    guard sum.isFinite, sum > 1e-30 else { return nil }
    let factor = 1 / sum.squareRoot()
    // One that is unit already keeps its bits.
    guard abs(sum - 1) > 1e-5 else { return x }
    return x.map { Float(Double($0) * factor) }
  }
}

/// A query as planes of bytes for the scan, with what its products may be off.
final class QueryCode {
  /// The query itself.
  let vector: [Float]
  let stride: Int
  private let memory: UnsafeMutableRawPointer
  private let scale: Float
  private let sums: (high: Int32, low: Int32)
  private let norm: Float
  /// A bound of the distance between the query and its planes.
  private let error: Float
  /// What rounding adds to a product and to an exact score.
  private let slack: Float

  /// Of a finite vector of length 1.
  init(_ query: [Float]) {
    vector = query
    stride = RowCode.stride(of: query.count)
    memory = .allocate(byteCount: 2 * stride, alignment: 64)
    memory.initializeMemory(as: Int8.self, repeating: 0, count: 2 * stride)
    let high = memory.assumingMemoryBound(to: Int8.self)
    let low = high + stride
    let largest = query.reduce(0) { max($0, abs($1)) }
    // 63 · 128 + 63: a high plane of six bits and a sign lets kernels add two products in sixteen bits.
    scale = largest / 8_127
    var sums: (Int32, Int32) = (0, 0)
    var (error, norm) = (0.0, 0.0)
    for (index, value) in query.enumerated() {
      let whole = scale > 0 ? Int32((value / scale).rounded(.toNearestOrEven)) : 0
      let code = max(-8_127, min(8_127, whole))
      let upper = (code &+ 64) >> 7
      let lower = code &- upper << 7
      high[index] = Int8(truncatingIfNeeded: upper)
      low[index] = Int8(truncatingIfNeeded: lower)
      sums.0 &+= upper
      sums.1 &+= lower
      let rest = Double(value) - Double(scale) * Double(code)
      error += rest * rest
      norm += Double(value) * Double(value)
    }
    self.sums = sums
    self.error = Float(error.squareRoot() * 1.001).nextUp
    self.norm = Float(norm.squareRoot()).nextUp
    slack = Float(query.count / 16 + 32) * 0x1p-23
  }

  deinit { memory.deallocate() }

  var planes: QueryPlanes {
    let high = memory.assumingMemoryBound(to: Int8.self)
    return QueryPlanes(
      high: high, low: high + stride, highSum: sums.high, lowSum: sums.low, scale: scale)
  }

  /// How far a row's exact score may be from the scanned one, by Cauchy and Schwarz.
  ///
  /// - Parameter rowError: the row's own bound.
  @inline(__always)
  func bound(_ rowError: Float) -> Float { norm * rowError + error * (1.001 + rowError) + slack }

  /// The same for eight rows.
  @inline(__always)
  func bound(_ rowErrors: SIMD8<Float>) -> SIMD8<Float> {
    norm * rowErrors + error * (1.001 + rowErrors) + slack
  }

  /// The score of a row in float32: sixteen sums, added in one order on every machine.
  func exact(_ row: UnsafeBufferPointer<Float>) -> Float {
    guard row.count == vector.count, let start = row.baseAddress else { return -.infinity }
    return ExactScore.dot(vector, start)
  }
}

/// The products that results are ordered by.
package enum ExactScore {
  /// Σ a · b of two vectors of one size; 0 of others.
  package static func dot(_ a: [Float], _ b: [Float]) -> Float {
    guard a.count == b.count else { return 0 }
    return b.withUnsafeBufferPointer { b in b.baseAddress.map { dot(a, $0) } ?? 0 }
  }

  /// Σ a · b over all of `a`.
  package static func dot(_ a: [Float], _ b: UnsafePointer<Float>) -> Float {
    var sums = SIMD16<Float>.zero
    a.withUnsafeBufferPointer { a in
      guard let start = a.baseAddress else { return }
      var at = 0
      while at + 16 <= a.count {
        let x = UnsafeRawPointer(start + at).loadUnaligned(as: SIMD16<Float>.self)
        let y = UnsafeRawPointer(b + at).loadUnaligned(as: SIMD16<Float>.self)
        sums += x * y
        at += 16
      }
      for index in at..<a.count { sums[index - at] += a[index] * b[index] }
    }
    let eight = sums.lowHalf + sums.highHalf
    let four = eight.lowHalf + eight.highHalf
    return (four[0] + four[2]) + (four[1] + four[3])
  }
}
