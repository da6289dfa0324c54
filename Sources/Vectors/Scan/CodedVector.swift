// One vector as bytes, for what looks at few of them: how near it is to a query, and how far that may be off.

/// `x ≈ scale · (code - 128)`.
package struct CodedVector: Sendable, Equatable {
  package let codes: [UInt8]
  package let scale: Float
  /// A bound of the distance between the vector and what the codes say.
  package let error: Float

  package init(codes: [UInt8], scale: Float, error: Float) {
    (self.codes, self.scale, self.error) = (codes, scale, error)
  }

  package init(_ vector: [Float]) {
    var codes = [UInt8](repeating: 128, count: RowCode.stride(of: vector.count))
    (scale, error) = vector.withUnsafeBufferPointer { vector in
      codes.withUnsafeMutableBufferPointer { codes in
        codes.baseAddress.map { RowCode.encode(vector, into: $0) } ?? (0, 0)
      }
    }
    self.codes = Array(codes.prefix(vector.count))
  }

  /// The direction of a vector; zeros of one that has none.
  package init(directionOf vector: [Float]) {
    self.init(RowCode.normalized(vector) ?? [Float](repeating: 0, count: vector.count))
  }

  /// What the codes say.
  package var vector: [Float] { codes.map { scale * Float(Int($0) - 128) } }

  /// The cosine of the direction and a query, computed in float32, lies between these: by Cauchy and Schwarz.
  ///
  /// - Parameter query: of length 1.
  package func cosine(_ query: [Float]) -> ClosedRange<Float> {
    let near = ExactScore.dot(query, vector)
    // Both vectors have the length 1 up to 10⁻⁵; the rest is what sums of so many products are rounded by.
    let bound = 1.001 * error + 4e-5 + Float(codes.count / 16 + 32) * 0x1p-22
    // Numbers that no vector gives say nothing.
    guard near.isFinite else { return -.infinity ... .infinity }
    return near - bound...near + bound
  }
}
