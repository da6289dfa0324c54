// The experts of DeepSeek, GLM-4.5 and what follows them, read from config.json: dense layers first, then experts chosen by
// sigmoids and a bias, in groups, beside an MLP that all rows go through.

import Compute

/// Which layers have experts, and how they are chosen and weighted.
struct RoutedExperts {
  let sizes: Experts.Sizes
  var rule: ExpertRule
  var options = Experts.Options()
  /// The width of the MLP beside the experts; 0 without.
  let sharedWidth: Int
  /// Layers before the first with experts, and the distance of those that follow.
  private let firstDense, step: Int
  /// Which layers have experts, where config.json lists them.
  var sparseLayers: [Bool]?

  /// Keys of config.json, as DeepSeek's configs have them.
  struct Keys {
    var count = "n_routed_experts"
    var shared = "n_shared_experts"
    var firstDense = "first_k_dense_replace"
    var scores = "scoring_func"
    var renormalizes = "norm_topk_prob"
    var scale = "routed_scaling_factor"
  }

  /// - Parameters:
  ///   - usual: what the family takes where the kind of scores is not said.
  ///   - renormalizes: whether weights add up to 1 where that is not said.
  init(
    _ config: ConfigFields, _ keys: Keys = Keys(), scores usual: String = "sigmoid", renormalizes: Bool = true
  ) throws(ModelError) {
    sizes = try Experts.Sizes(
      config, count: keys.count, perRow: "num_experts_per_tok", intermediate: "moe_intermediate_size")
    // Ling's shared experts may have a width of their own.
    let width = try config.int(
      "moe_shared_expert_intermediate_size", in: 1...1 << 20, default: sizes.intermediate)
    sharedWidth = width * (try config.int(keys.shared, in: 0...256, default: 0))
    firstDense = try config.int(keys.firstDense, in: 0...1024, default: 0)
    step = try config.int("moe_layer_freq", in: 1...1024, default: 1)
    rule = try Self.rule(config, keys, usual: usual, renormalizes: renormalizes, sizes)
    if rule.scores == .sigmoid { options.names.selectionBias = "gate.e_score_correction_bias" }
    // DeepSeek V2 compares groups by their best expert, and its small sizes not at all.
    switch try config.string("topk_method") ?? "noaux_tc" {
    case "greedy": rule.groups = nil
    case "group_limited_greedy": rule.groups?.leaders = 1
    case "noaux_tc": break
    case let method:
      throw .unsupportedSetting(
        key: "topk_method", value: method, supported: "greedy, group_limited_greedy, noaux_tc")
    }
  }

  private static func rule(
    _ config: ConfigFields, _ keys: Keys, usual: String, renormalizes: Bool, _ sizes: Experts.Sizes
  ) throws(ModelError) -> ExpertRule {
    var rule: ExpertRule
    switch try config.string(keys.scores) ?? usual {
    // dots.llm1 repeats the method of the choice, which takes sigmoids.
    case "sigmoid", "noaux_tc": rule = ExpertRule(perRow: sizes.perRow, scores: .sigmoid)
    case "softmax": rule = ExpertRule(perRow: sizes.perRow, scores: .all)
    case let other: throw .unsupportedSetting(key: keys.scores, value: other, supported: "sigmoid, softmax")
    }
    if try config.bool(keys.renormalizes, default: renormalizes) { rule.renormalizing = 1e-20 }
    rule.scale = Float(try config.double(keys.scale, in: 1e-6...1e6, default: 1))
    let groups = try config.int("n_group", in: 1...sizes.count, default: 1)
    guard sizes.count % groups == 0 else {
      throw .invalidValue(key: "n_group", found: "\(groups)", expected: "a divisor of \(sizes.count) experts")
    }
    let kept = try config.int("topk_group", in: 1...groups, default: 1)
    guard kept * (sizes.count / groups) >= sizes.perRow else {
      throw .invalidValue(
        key: "topk_group", found: "\(kept)", expected: "groups of at least \(sizes.perRow) experts")
    }
    if groups > 1 { rule.groups = .init(count: groups, kept: kept, leaders: 2) }
    return rule
  }

  /// The MLP of a layer.
  ///
  /// - Parameter weights: the tensors under `mlp`.
  func mlp(
    layer: Int, _ decoder: DecoderSizes, bias: Bool = false, _ weights: LayerLoader
  ) throws(ModelError) -> FeedForward {
    guard sparseLayers?[layer] ?? (layer >= firstDense && layer % step == 0) else {
      return .dense(try DenseMLP(decoder.hidden, decoder.intermediate, bias: bias, weights))
    }
    let shared =
      sharedWidth == 0
      ? nil : SharedExpert(try DenseMLP(decoder.hidden, sharedWidth, weights.at("shared_experts")))
    return .experts(
      try Experts(sizes, hidden: decoder.hidden, rule: rule, options, shared: shared, weights))
  }
}
