// A norm of the residual stream, as a family has it.

import Compute

/// `(x - mean) / √(variance + ε) · gain + bias`, or without mean and bias `x / √(mean(x²) + ε) · gain`.
struct Norm {
  enum Kind {
    case rms
    /// The bias is used where the checkpoint has one.
    case layer
  }

  private let kind: Kind
  private let gain: [Float]
  private let bias: [Float]
  private let epsilon: Float

  /// Binds `<name>.weight`, and of a layer norm `<name>.bias`.
  init(
    _ name: String, _ count: Int, kind: Kind = .rms, epsilon: Float, _ weights: LayerLoader
  ) throws(ModelError) {
    (self.kind, self.epsilon) = (kind, epsilon)
    gain = try weights.norm(name, count)
    bias = kind == .layer && weights.has(name + ".bias") ? try weights.vector(name + ".bias", count) : []
  }

  /// out may be x.
  func callAsFunction(_ x: Rows, into out: Rows, _ compute: ComputeContext) {
    switch kind {
    case .rms: compute.rmsNorm(x, gain: gain, epsilon: epsilon, into: out)
    case .layer:
      compute.layerNorm(x, gain: gain, epsilon: epsilon, into: out)
      if !bias.isEmpty { compute.addToRows(bias, out) }
    }
  }
}
