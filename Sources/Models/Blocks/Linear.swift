// Linear maps bound to their weights; `LayerLoader` makes them.

import Compute

/// One or several linear maps of the same input, computed in one fork: `y = [x·W0ᵀ + b0 | x·W1ᵀ + b1 | ...]`.
struct Linear {
  /// Maps whose weights expect their inputs in one order.
  struct Part {
    let weights: WeightStack
    /// As `WeightTensors.order`.
    let order: [Int32]?
  }

  private let parts: [Part]
  private let compute: ComputeContext
  /// What adapters add; nil for maps that none changes.
  private let adapted: AdaptedMaps?
  /// Outputs of all maps.
  let rows: Int
  /// Bytes that a decode step reads.
  let byteCount: Int

  init(_ parts: [Part], compute: ComputeContext, adapted: AdaptedMaps? = nil) {
    (self.parts, self.compute, self.adapted) = (parts, compute, adapted)
    rows = parts.reduce(0) { $0 + $1.weights.rows }
    byteCount = parts.reduce(0) { $0 + $1.weights.byteCount }
  }

  /// x `[n, columns]` → y `[n, rows of all maps]`.
  func callAsFunction(_ x: Rows, into y: Rows) {
    multiply(x, into: y) { x, weights, y in compute.multiply(x, by: weights, into: y) }
  }

  /// Rows of the only map, `[ids, columns]`, by way of `buffer`; an element for each input.
  func vectors(_ ids: [Int32], by buffer: Rows) -> [[Float]] {
    guard let part = parts.first else { return [] }
    compute.gather(ids, of: part.weights, into: buffer)
    let stored = ids.indices.map { buffer.values(ofRow: $0) }
    guard let order = part.order else { return stored }
    return stored.map { row in
      var vector = row
      for (index, input) in order.enumerated() { vector[Int(input)] = row[index] }
      return vector
    }
  }

  /// As `callAsFunction` with float32 activations in the fast mode too: a router's small error is another expert.
  func exactly(_ x: Rows, into y: Rows) {
    multiply(x, into: y) { x, weights, y in compute.multiply(x, by: weights, into: y, exactly: true) }
  }

  private func multiply(_ x: Rows, into y: Rows, by product: (Rows, WeightStack, Rows) -> Void) {
    precondition(y.columns == rows, "linear: shapes differ")
    var start = 0
    for part in parts {
      let count = part.weights.rows
      product(
        part.order.map { compute.reordered(x, by: $0) } ?? x, part.weights,
        y.columns(from: start, count: count))
      start += count
    }
    adapted?.add(x, to: y, compute)
  }
}
