// A vector as one bit for each component: what a search of very many rows reads first.
//
// Gao and Long, "RaBitQ", 2024 (arXiv:2405.12497): y is the vector without the mean of all, turned; s are its signs. A
// query's product with y is about ‖y‖² / ⟨s, y⟩ times its product with s, without a bias. Turning spreads what a few large
// components hold over all of them.

import KernelTypes

/// Turns vectors: signs changed and components mixed, twice. Lengths and products stay what they were.
struct SignTurn {
  let dimensions: Int
  /// Components of a turned vector: whole blocks of 64.
  let width: Int
  /// Components that are mixed at once: the largest power of two that divides the width.
  private let block: Int
  private let flips: [Float]

  init(dimensions: Int) {
    self.dimensions = dimensions
    width = RowCode.stride(of: dimensions)
    block = width & -width
    var state: UInt64 = 0x5EED
    flips = (0..<2 * width).map { _ in
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return state >> 63 == 0 ? 1 : -1
    }
  }

  /// Bytes of a row of signs.
  var rowBytes: Int { width / 8 }

  /// Turns `x - mean`, or `x` without a mean.
  func callAsFunction(_ x: UnsafeBufferPointer<Float>, minus mean: [Float]?) -> [Float] {
    var turned = [Float](repeating: 0, count: width)
    for index in 0..<min(x.count, dimensions) { turned[index] = x[index] - (mean?[index] ?? 0) }
    mix(&turned, round: 0)
    // Neighbours of one block go to different blocks.
    let blocks = width / block
    var spread = turned
    for index in 0..<width { spread[index % block * blocks + index / block] = turned[index] }
    mix(&spread, round: 1)
    return spread
  }

  /// Hadamard's transform of every block.
  private func mix(_ x: inout [Float], round: Int) {
    let factor = 1 / Float(block).squareRoot()
    x.withUnsafeMutableBufferPointer { x in
      for index in 0..<width { x[index] *= flips[round * width + index] * factor }
      var half = 1
      while half < block {
        for start in stride(from: 0, to: width, by: 2 * half) {
          for index in start..<start + half {
            let (a, b) = (x[index], x[index + half])
            x[index] = a + b
            x[index + half] = a - b
          }
        }
        half *= 2
      }
    }
  }
}

/// Signs of the rows of a segment.
enum SignCode {
  /// A segment of fewer rows has none: it is read as bytes in less than a millisecond.
  static let leastRows = 4_096
  /// Rows that lie side by side.
  static let blockRows = 32

  /// Bytes of the signs of a segment.
  static func byteCount(rows: Int, dimensions: Int) -> Int {
    (rows + blockRows - 1) / blockRows * blockRows * (RowCode.stride(of: dimensions) / 8)
  }

  /// Writes the signs of a row that was turned.
  ///
  /// - Parameter block: of 32 rows, zero where the row goes.
  /// - Returns: ‖y‖² / ⟨s, y⟩, 0 for a row that is the mean.
  static func encode(_ y: [Float], row: Int, of block: inout [UInt8]) -> Float {
    var (square, size) = (0.0, 0.0)
    for (index, value) in y.enumerated() {
      square += Double(value) * Double(value)
      size += Double(abs(value))
      if value >= 0 { block[index / 8 * blockRows + row] |= 1 << UInt8(index % 8) }
    }
    return size > 0 ? Float(square / size) : 0
  }
}

/// A query as tables that the signs of four components are looked up in.
struct SignQuery {
  /// `[rowBytes][2][16]`.
  let tables: [UInt8]
  private let vector: [Float]
  /// A row's product with the signs is `step · sum + start`.
  private let step: Float
  private let start: Float

  init(_ query: [Float], _ turn: SignTurn) {
    vector = query
    let turned = query.withUnsafeBufferPointer { turn($0, minus: nil) }
    var (least, range): (Float, Float) = (0, 0)
    for at in stride(from: 0, to: turn.width, by: 4) {
      let lowest = Self.lowest(turned, at)
      least += lowest
      range = max(range, -2 * lowest)
    }
    let step = range > 0 ? range / 127 : 1
    // What 16 patterns of four signs add: twice those that are set, less all of them.
    var tables: [UInt8] = []
    tables.reserveCapacity(4 * turn.width)
    for at in stride(from: 0, to: turn.width, by: 4) {
      var sums = SIMD16<Float>(repeating: -Self.lowest(turned, at))
      for index in 0..<4 { sums += turned[at + index] * Self.signs[index] }
      let codes = (sums / step).rounded(.toNearestOrEven).clamped(
        lowerBound: .zero, upperBound: .init(repeating: 127))
      // What is no number is nothing.
      for pattern in 0..<16 { tables.append(codes[pattern] >= 0 ? UInt8(codes[pattern]) : 0) }
    }
    (self.tables, self.step) = (tables, step)
    start = least
  }

  /// The sign that each of four components has in each of 16 patterns.
  private static let signs = (0..<4).map { index in
    var signs = SIMD16<Float>(repeating: -1)
    for pattern in 0..<16 where pattern >> index & 1 == 1 { signs[pattern] = 1 }
    return signs
  }

  /// The least that four components can add.
  private static func lowest(_ turned: [Float], _ at: Int) -> Float {
    (at..<at + 4).reduce(Float(0)) { $0 - abs(turned[$1]) }
  }

  /// Deviations between a row's estimate and its upper bound: the true product is above it once in a hundred rows.
  static let deviations: Float = 2.33
  /// √(1 - 2/π), by which a row of factor 1 errs: the deviation of |x| where that of x is 1.
  static let deviation: Float = 0.6028

  /// The upper bounds of eight rows' products with the query.
  ///
  /// - Parameter offset: of their segment.
  @inline(__always)
  func uppers(_ rows: SignSums, _ offset: Float) -> SIMD8<Float> {
    offset + rows.factors * (step * rows.sums + (start + Self.deviations * Self.deviation))
  }

  /// What the mean of a segment adds to every product.
  func offset(_ mean: UnsafePointer<Float>) -> Float { ExactScore.dot(vector, mean) }
}

/// What was looked up of eight rows.
struct SignSums {
  let sums: SIMD8<Float>
  let factors: SIMD8<Float>

  /// - Parameter count: rows, at most eight; the others are none.
  @inline(__always)
  init(_ sums: UnsafePointer<Int32>, _ factors: UnsafePointer<Float>, _ count: Int) {
    if count == 8 {
      self.sums = SIMD8<Float>(UnsafeRawPointer(sums).loadUnaligned(as: SIMD8<Int32>.self))
      self.factors = UnsafeRawPointer(factors).loadUnaligned(as: SIMD8<Float>.self)
      return
    }
    var (some, their) = (SIMD8<Float>.zero, SIMD8<Float>.zero)
    for index in 0..<count {
      some[index] = Float(sums[index])
      their[index] = factors[index]
    }
    self.sums = some
    self.factors = their
  }
}
