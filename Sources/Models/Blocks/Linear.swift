// Linear maps and embeddings bound to their checkpoint tensors.

import Checkpoint
import Compute

/// One or several linear maps of the same input, computed in one fork: `y = [x·W0ᵀ + b0 | x·W1ᵀ + b1 | ...]`.
struct Linear {
  private let weights: WeightStack
  private let compute: ComputeContext

  /// - Parameters:
  ///   - names: module names under `map`, in output order, with their outputs.
  ///   - columns: inputs of all of them.
  ///   - bias: whether the config promises an additive bias; one that exists is used in any case.
  init(
    _ names: KeyValuePairs<String, Int>, columns: Int, bias: Bool = false, at map: WeightMap,
    compute: ComputeContext
  ) throws(ModelError) {
    var tensors: [WeightTensors] = []
    for (name, rows) in names {
      let linear = try loading { () throws(CheckpointError) in
        try map.linear(name, rows: rows, columns: columns)
      }
      if bias && linear.bias == nil {
        throw .missingTensor(
          name: "...\(name).bias", because: "config.json says that this projection has a bias")
      }
      tensors.append(linear)
    }
    weights = try computing { () throws(ComputeError) in try WeightStack(tensors, compute: compute) }
    self.compute = compute
  }

  init(_ tensors: WeightTensors, compute: ComputeContext) throws(ModelError) {
    weights = try computing { () throws(ComputeError) in
      try WeightStack([tensors], compute: compute)
    }
    self.compute = compute
  }

  init(tied matrix: WeightMatrix, compute: ComputeContext) {
    weights = WeightStack(matrix, compute: compute)
    self.compute = compute
  }

  /// Outputs of all maps.
  var rows: Int { weights.rows }

  /// Bytes that a decode step reads.
  var byteCount: Int { weights.byteCount }

  /// x `[n, columns]` → y `[n, rows of all maps]`.
  func callAsFunction(_ x: Rows, into y: Rows) { compute.multiply(x, by: weights, into: y) }

  /// As `callAsFunction` with float32 activations in the fast mode too: a router's small error is another expert.
  func exactly(_ x: Rows, into y: Rows) { compute.multiply(x, by: weights, into: y, exactly: true) }
}
