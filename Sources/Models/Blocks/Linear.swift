// Linear maps bound to their weights; `LayerLoader` makes them.

import Compute

/// One or several linear maps of the same input, computed in one fork: `y = [x·W0ᵀ + b0 | x·W1ᵀ + b1 | ...]`.
struct Linear {
  private let weights: WeightStack
  private let compute: ComputeContext

  init(_ weights: WeightStack, compute: ComputeContext) {
    self.weights = weights
    self.compute = compute
  }

  /// Outputs of all maps.
  var rows: Int { weights.rows }

  /// Bytes that a decode step reads.
  var byteCount: Int { weights.byteCount }

  /// x `[n, columns]` → y `[n, rows of all maps]`.
  func callAsFunction(_ x: Rows, into y: Rows) { compute.multiply(x, by: weights, into: y) }

  /// Rows of the maps as vectors, `[ids, columns]`.
  func gather(_ ids: [Int32], into y: Rows) { compute.gather(ids, of: weights, into: y) }

  /// As `callAsFunction` with float32 activations in the fast mode too: a router's small error is another expert.
  func exactly(_ x: Rows, into y: Rows) { compute.multiply(x, by: weights, into: y, exactly: true) }
}
