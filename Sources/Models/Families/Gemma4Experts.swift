// The experts of Gemma 4's larger sizes, beside the MLP that every row goes through.
//
//   m = norm1(mlp(norm(x))) + norm2(experts(norm(x)))        then as without experts, x += norm(m)
//
// The router reads the residual stream itself: normalised without a gain of its own, scaled, and divided by √hidden.

import Checkpoint
import Compute

/// A layer's router and experts.
final class Gemma4Experts {
  private let mlpNorm, inputNorm, outputNorm: [Float]  // [hidden]
  private let routerScale: [Float]  // [hidden], divided by √hidden
  private let expertScales: [Float]  // [experts]
  private let router: Linear  // [hidden] → [experts]
  private let stack: ExpertStack
  private let perRow: Int
  private let epsilon: Float
  private let compute: ComputeContext

  init(
    _ sizes: Experts.Sizes, _ decoder: DecoderSizes, at map: WeightMap, compute: ComputeContext
  ) throws(ModelError) {
    let (map, hidden) = (map.given(sizes.named), decoder.hidden)
    func vector(_ name: String, _ count: Int) throws(ModelError) -> [Float] {
      try DecoderFrame.vector(name, count: count, at: map)
    }
    mlpNorm = try vector("post_feedforward_layernorm_1.weight", hidden)
    inputNorm = try vector("pre_feedforward_layernorm_2.weight", hidden)
    outputNorm = try vector("post_feedforward_layernorm_2.weight", hidden)
    routerScale = try vector("router.scale", hidden).map { $0 / Float(hidden).squareRoot() }
    expertScales = try vector("router.per_expert_scale", sizes.count)
    router = try Linear(["router.proj": sizes.count], columns: hidden, at: map, compute: compute)
    stack = try Experts.stacked(
      sizes, hidden: hidden, at: map.at(map.has("experts.gate_up_proj") ? "experts" : "experts.switch_glu"),
      compute: compute)
    perRow = sizes.perRow
    epsilon = decoder.epsilon
    self.compute = compute
  }

  /// Bytes that a decode step reads: the router and the chosen experts.
  var byteCount: Int { router.byteCount + perRow * stack.bytesPerExpert }

  /// `m = norm1(m) + norm2(experts(norm(x)))`.
  ///
  /// - Parameters:
  ///   - m: the MLP's output.
  ///   - scratch: as large as x.
  func add(_ x: Rows, to m: Rows, scratch h: Rows, scores: Rows, routing: ExpertRouting) {
    compute.rmsNorm(m, gain: mlpNorm, epsilon: epsilon, into: m)
    compute.rmsNorm(x, gain: routerScale, epsilon: epsilon, into: h)
    router.exactly(h, into: scores)
    routing.choose(scores, perRow: perRow, weighting: .chosen, scales: expertScales)
    compute.rmsNorm(x, gain: inputNorm, epsilon: epsilon, into: h)
    compute.multiply(h, by: stack, routing: routing, activation: .gelu, into: h)
    compute.rmsNorm(h, gain: outputNorm, epsilon: epsilon, into: h)
    compute.add(h, to: m)
  }

  var count: Int { stack.count }
}
