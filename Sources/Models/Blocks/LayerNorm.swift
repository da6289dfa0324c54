// A layer norm bound to its tensors.

import Compute

/// `(x - mean) / √(variance + ε) · weight + bias` of every row.
struct LayerNorm {
  private let gain: [Float]
  private let bias: [Float]
  private let epsilon: Float
  private let compute: ComputeContext

  /// - Parameter bias: whether the checkpoint must have one; without, it is zero.
  init(
    _ name: String, _ count: Int, epsilon: Float, bias hasBias: Bool = true, _ weights: LayerLoader
  ) throws(ModelError) {
    // The first BERT checkpoints call them gamma and beta.
    let isOld = !weights.has(name + ".weight") && weights.has(name + ".gamma")
    gain = try weights.vector(name + (isOld ? ".gamma" : ".weight"), count)
    let biasName = name + (isOld ? ".beta" : ".bias")
    bias =
      hasBias || weights.has(biasName)
      ? try weights.vector(biasName, count) : [Float](repeating: 0, count: count)
    self.epsilon = epsilon
    compute = weights.compute
  }

  /// x and out `[n, count]`; out may be x.
  func callAsFunction(_ x: Rows, into out: Rows) {
    compute.layerNorm(x, gain: gain, bias: bias, epsilon: epsilon, into: out)
  }
}
