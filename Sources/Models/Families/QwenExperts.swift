// The experts of Qwen's sparse models and of OLMoE, read from config.json: `qwen2_moe`, `qwen3_moe`, `qwen3_next`,
// `qwen3_5_moe`, `olmoe`.

import Compute

/// Which layers have experts, and how they are chosen and weighted.
struct QwenExperts {
  let sizes: Experts.Sizes
  let rule: ExpertRule
  /// The width of the MLP beside the experts, whose output a gate of one number weights; nil without.
  let sharedWidth: Int?
  /// The distance of layers with experts, but for those of `dense`.
  private let step: Int
  private let dense: Set<Int>

  /// - Parameters:
  ///   - usual: whether weights of the chosen experts add up to 1 where config.json does not say it.
  ///   - width: the key of the width of an expert.
  init(
    _ config: ConfigFields, renormalizes usual: Bool = false, width: String = "moe_intermediate_size"
  ) throws(ModelError) {
    // Transformers 5 writes the second name.
    let count = config.has("num_local_experts") ? "num_local_experts" : "num_experts"
    sizes = try Experts.Sizes(
      config, count: count, perRow: "num_experts_per_tok", intermediate: width)
    let renormalizes = try config.bool("norm_topk_prob", default: usual)
    rule = ExpertRule(perRow: sizes.perRow, scores: renormalizes ? .chosen : .all)
    let shared = try config.int("shared_expert_intermediate_size", in: 0...1 << 20, default: 0)
    sharedWidth = shared > 0 ? shared : nil
    step = try config.int("decoder_sparse_step", in: 1...1024, default: 1)
    dense = Set(try config.ints("mlp_only_layers", in: 0...1024))
  }

  /// Whether a layer has experts.
  private func has(_ layer: Int) -> Bool { (layer + 1) % step == 0 && !dense.contains(layer) }

  /// The MLP of a layer.
  ///
  /// - Parameter experts: nil for a model without any.
  static func mlp(
    _ experts: QwenExperts?, layer: Int, _ sizes: DecoderSizes, _ weights: LayerLoader
  ) throws(ModelError) -> FeedForward {
    guard let experts, experts.has(layer) else {
      return .dense(try DenseMLP(sizes.hidden, sizes.intermediate, weights))
    }
    var shared: SharedExpert?
    if let width = experts.sharedWidth {
      shared = SharedExpert(
        try DenseMLP(sizes.hidden, width, weights.at("shared_expert")),
        gate: try weights.linear(["shared_expert_gate": 1], from: sizes.hidden))
    }
    return .experts(
      try Experts(
        experts.sizes, hidden: sizes.hidden, rule: experts.rule, shared: shared, weights))
  }
}
