// The experts of Gemma 4's larger sizes, beside the MLP that every row goes through.
//
//   m = norm1(mlp(norm(x))) + norm2(experts(norm(x)))        then as without experts, x += norm(m)
//
// The router reads the residual stream itself: normalised without a gain of its own, scaled, and divided by √hidden.

import Compute

/// A layer's router and experts.
final class Gemma4Experts {
  private let mlpNorm, inputNorm, outputNorm: [Float]  // [hidden]
  private let routerScale: [Float]  // [hidden], divided by √hidden
  private let router: Linear  // [hidden] → [experts]
  private let stack: ExpertStack
  private let adapted: AdaptedExperts?
  private let rule: ExpertRule
  private let epsilon: Float
  private let compute: ComputeContext

  init(
    _ sizes: Experts.Sizes, _ decoder: DecoderSizes, _ weights: LayerLoader
  ) throws(ModelError) {
    let (weights, hidden) = (weights.given(sizes.named), decoder.hidden)
    mlpNorm = try weights.norm("post_feedforward_layernorm_1", hidden)
    inputNorm = try weights.norm("pre_feedforward_layernorm_2", hidden)
    outputNorm = try weights.norm("post_feedforward_layernorm_2", hidden)
    routerScale = try weights.vector("router.scale", hidden).map { $0 / Float(hidden).squareRoot() }
    var rule = ExpertRule(perRow: sizes.perRow, scores: .chosen)
    rule.expertScales = try weights.vector("router.per_expert_scale", sizes.count)
    router = try weights.linear(["router.proj": sizes.count], from: hidden)
    stack = try Experts.stacked(
      sizes, hidden: hidden, activation: .gelu,
      weights.at(weights.has("experts.gate_up_proj") ? "experts" : "experts.switch_glu"))
    adapted = weights.shelf?.makeExperts(
      stack, at: weights.prefix + ".experts.switch_glu", names: DenseMLP.Names())
    self.rule = rule
    epsilon = decoder.epsilon
    compute = weights.compute
  }

  /// Bytes that a decode step reads: the router and the chosen experts.
  var byteCount: Int { router.byteCount + rule.perRow * stack.bytesPerExpert }

  /// `m = norm1(m) + norm2(experts(norm(x)))`.
  ///
  /// - Parameters:
  ///   - m: the MLP's output.
  ///   - scratch: as large as x.
  func add(_ x: Rows, to m: Rows, scratch h: Rows, scores: Rows, routing: ExpertRouting) {
    compute.rmsNorm(m, gain: mlpNorm, epsilon: epsilon, into: m)
    compute.rmsNorm(x, gain: routerScale, epsilon: epsilon, into: h)
    router.exactly(h, into: scores)
    routing.choose(scores, by: rule)
    compute.rmsNorm(x, gain: inputNorm, epsilon: epsilon, into: h)
    compute.multiply(
      h, by: stack, routing: routing, adapted: adapted?.additions(among: h.count), into: h)
    compute.rmsNorm(h, gain: outputNorm, epsilon: epsilon, into: h)
    compute.add(h, to: m)
  }

  var count: Int { stack.count }
}
