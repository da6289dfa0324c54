// Rotary position embedding: pairs of each head turn by position · frequency i, the pairs (i, i + R/2), or in some
// families neighbours, (2i, 2i + 1).
//
// Angles of a step are computed once in float64 (a float32 angle at position 100 000 is off by 4e-3 rad)
// and used by all layers; nothing is tabulated per position, so there is no limit on the context.

import Platform

/// One way to turn positions into angles; a family may hold several (Phi's short and long variants).
package struct RoPEFrequencies: Sendable {
  /// Radians per position of each pair; half the rotated width.
  package var inverse: [Double]
  /// Multiplies the rotated elements (attention factor of longrope and yarn); 1 otherwise.
  package var magnitude: Double

  package init(inverse: [Double], magnitude: Double = 1) {
    (self.inverse, self.magnitude) = (inverse, magnitude)
  }
}

/// Cosines and sines of a step's rows. Engine thread only.
package final class RoPE {
  /// All of the same width.
  private let variants: [RoPEFrequencies]
  /// Pairs per head; elements from 2 · half on pass through.
  package let half: Int
  /// Whether a pair is two neighbours.
  let isInterleaved: Bool
  /// Which of three coordinates turns each pair; empty where rows have a position alone.
  private let axes: [Int]
  private let buffer = ScratchBuffer()
  private var angles: Rows

  /// - Precondition: at least one variant, all of the same width; axes 0 to 2, none or one for each pair.
  package init(variants: [RoPEFrequencies], interleaved: Bool = false, axes: [Int] = []) {
    (self.variants, self.axes) = (variants, axes)
    isInterleaved = interleaved
    half = variants.first?.inverse.count ?? 0
    angles = buffer.rows(0, 2 * half)
    precondition(variants.allSatisfy { $0.inverse.count == half }, "RoPE variants of different width")
    precondition(axes.isEmpty || axes.count == half && axes.allSatisfy { 0...2 ~= $0 }, "RoPE axes")
  }

  /// Computes the angles of all rows of a step.
  package func prepare(_ layout: StepLayout) {
    angles = buffer.rows(layout.rows, 2 * half)
    for span in layout.spans {
      let variant = variants[span.ropeVariant]
      let hasPlaces = !axes.isEmpty && !span.places.isEmpty
      for r in 0..<span.count {
        if hasPlaces {
          turn(span.row + r, variant) { Double(span.places[r][axes[$0]]) }
        } else {
          turn(span.row + r, variant) { _ in Double(span.start + r) }
        }
      }
    }
  }

  /// Computes the angles of rows at any positions: row i stands at `positions[i]`.
  package func prepare(positions: [Int]) {
    angles = buffer.rows(positions.count, 2 * half)
    for (row, position) in positions.enumerated() { turn(row, variants[0]) { _ in Double(position) } }
  }

  /// Computes the angles of rows at places with three coordinates, by the axes.
  ///
  /// - Precondition: there are axes.
  package func prepare(places: [SIMD3<Int32>]) {
    angles = buffer.rows(places.count, 2 * half)
    for (row, place) in places.enumerated() { turn(row, variants[0]) { Double(place[axes[$0]]) } }
  }

  private func turn(_ row: Int, _ variant: RoPEFrequencies, _ position: (_ pair: Int) -> Double) {
    let target = angles.row(row)
    for i in 0..<half {
      let angle = position(i) * variant.inverse[i]
      target[i] = Float(cos(angle) * variant.magnitude)
      target[half + i] = Float(sin(angle) * variant.magnitude)
    }
  }

  /// The prepared `[cosines | sines]` of a row.
  func angles(ofRow row: Int) -> UnsafeMutablePointer<Float> { angles.row(row) }
}

extension ComputeContext {
  /// Rotates every head of every row of x, `[rows, heads · headDim]`, in place.
  ///
  /// - Parameters:
  ///   - offset: the first element of a head that turns.
  ///   - rope: prepared for the step that x belongs to.
  package func rotate(_ x: Rows, headDim: Int, from offset: Int = 0, by rope: RoPE) {
    let half = rope.half
    precondition(
      offset >= 0 && offset + 2 * half <= headDim && x.columns % headDim == 0, "rotate: shapes differ")
    let heads = x.columns / headDim
    forEachRow(x.count, work: x.columns) { range in
      for r in range {
        let angles = rope.angles(ofRow: r)
        for head in 0..<heads {
          let start = x.row(r) + head * headDim + offset
          if rope.isInterleaved {
            Self.rotateNeighbours(start, angles, half)
          } else {
            kernels.rotate(start, angles, angles + half, half)
          }
        }
      }
    }
  }

  private static func rotateNeighbours(
    _ x: UnsafeMutablePointer<Float>, _ angles: UnsafeMutablePointer<Float>, _ half: Int
  ) {
    for i in 0..<half {
      let (a, b) = (x[2 * i], x[2 * i + 1])
      x[2 * i] = a * angles[i] - b * angles[half + i]
      x[2 * i + 1] = b * angles[i] + a * angles[half + i]
    }
  }
}
