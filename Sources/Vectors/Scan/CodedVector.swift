// One vector's direction as bytes, for what looks at few of them.

/// `x ≈ scale · (code - 128)`.
package struct CodedVector: Sendable, Equatable {
  package let codes: [UInt8]
  package let scale: Float

  package init(codes: [UInt8], scale: Float) { (self.codes, self.scale) = (codes, scale) }

  /// The direction of a vector; zeros of one that has none.
  package init(directionOf vector: [Float]) {
    let unit = RowCode.normalized(vector) ?? [Float](repeating: 0, count: vector.count)
    var codes = [UInt8](repeating: 128, count: RowCode.stride(of: unit.count))
    scale = unit.withUnsafeBufferPointer { unit in
      codes.withUnsafeMutableBufferPointer { codes in
        codes.baseAddress.map { RowCode.encode(unit, into: $0).scale } ?? 0
      }
    }
    self.codes = Array(codes.prefix(unit.count))
  }

  /// What the codes say: of length 1, up to their rounding.
  package var vector: [Float] { codes.map { scale * Float(Int($0) - 128) } }
}
