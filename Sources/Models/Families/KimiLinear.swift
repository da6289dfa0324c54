// Kimi Linear: the delta rule with decays of channels in three of four layers, latent attention without positions in the
// others, and experts.
//
// Source: arXiv:2510.26692; names as MLX stores them.

import Compute

/// Pre-norm decoders with layers of two kinds.
enum KimiLinear {
  static func decoder(_ config: ConfigFields, _ checkpoint: LayerLoader) throws(ModelError) -> Decoder {
    let context = try config.int("model_max_length", in: 1...1 << 27, default: 4096)
    let sizes = try DecoderSizes(config, contextLength: context, tied: false)
    guard let linear = try config.object("linear_attn_config") else {
      throw .missingKey("linear_attn_config")
    }
    let full = try fullLayers(linear, sizes)
    guard try config.bool("mla_use_nope", default: false) else {
      throw .unsupportedSetting(key: "mla_use_nope", value: "false", supported: "true")
    }
    let latent = try LatentSizes(config, sizes: sizes, epsilon: sizes.epsilon)
    let delta = (
      heads: try linear.int("num_heads", in: 1...1024), headDim: try linear.int("head_dim", in: 1...1024),
      taps: try linear.int("short_conv_kernel_size", in: 2...16, default: 4)
    )
    let experts = try KimiExperts(config)
    let rope = try RoPEScaling(config, sizes: sizes, theta: 10_000, headDim: latent.rope)
    let frame = try DecoderFrame(sizes, rope: rope, checkpoint)
    let layers = try frame.layers { index, weights throws(ModelError) in
      // Each kind counts the layers of its own cache.
      let before = full[..<index].count { $0 == full[index] }
      let attention = weights.at("self_attn")
      return DecoderLayer(
        attentionNorms: try .before("input_layernorm", sizes, weights),
        attention: full[index]
          ? .latent(
            try LatentAttention(latent, layer: before, rope: nil, bias: false, frame, attention))
          : .recurrent(
            try KimiDelta(
              heads: delta.heads, headDim: delta.headDim, taps: delta.taps, layer: before,
              hidden: sizes.hidden, attention)),
        mlpNorms: try .before("post_attention_layernorm", sizes, weights),
        mlp: try experts.mlp(layer: index, sizes, weights))
    }
    return Decoder(frame, layers)
  }

  /// Which layers attend to everything. The lists of config.json count layers from 1.
  private static func fullLayers(_ config: ConfigFields, _ sizes: DecoderSizes) throws(ModelError) -> [Bool] {
    let full = Set(try config.ints("full_attn_layers", in: 1...1024))
    let linear = Set(try config.ints("kda_layers", in: 1...1024))
    let layers = Set(1...sizes.layers)
    let (ours, theirs) = (full.intersection(layers), linear.intersection(layers))
    guard ours.union(theirs) == layers, ours.isDisjoint(with: theirs), !ours.isEmpty, !theirs.isEmpty else {
      throw .invalidValue(
        key: "linear_attn_config.kda_layers", found: "\(theirs.count) layers beside \(ours.count)",
        expected: "each of num_hidden_layers = \(sizes.layers) in it or in full_attn_layers, and some in both"
      )
    }
    return (1...sizes.layers).map(full.contains)
  }
}

/// What config.json says about the experts.
private struct KimiExperts {
  private let sizes: Experts.Sizes
  private let rule: ExpertRule
  private let sharedWidth: Int
  /// Layers before the first with experts, and the distance of those that follow.
  private let firstDense, step: Int

  init(_ config: ConfigFields) throws(ModelError) {
    sizes = try Experts.Sizes(
      config, count: "num_experts", perRow: "num_experts_per_token", intermediate: "moe_intermediate_size")
    let function = try config.string("moe_router_activation_func") ?? "sigmoid"
    guard function == "sigmoid" else {
      throw .unsupportedSetting(key: "moe_router_activation_func", value: function, supported: "sigmoid")
    }
    var rule = ExpertRule(perRow: sizes.perRow, scores: .sigmoid)
    rule.renormalizing = try config.bool("moe_renormalize", default: true) ? 1e-20 : nil
    rule.scale = Float(try config.double("routed_scaling_factor", in: 1e-6...1e6, default: 1))
    let groups = try config.int("num_expert_group", in: 1...sizes.count, default: 1)
    let kept = try config.int("topk_group", in: 1...groups, default: groups)
    guard sizes.count % groups == 0, kept * (sizes.count / groups) >= sizes.perRow else {
      throw .invalidValue(
        key: "num_expert_group", found: "\(groups)",
        expected: "a divisor of num_experts with room for num_experts_per_token in topk_group groups")
    }
    let isGrouped = try config.bool("use_grouped_topk", default: true)
    if groups > 1, isGrouped {
      rule.groups = .init(count: groups, kept: kept, leaders: min(2, sizes.count / groups))
    }
    self.rule = rule
    sharedWidth = try config.int("num_shared_experts", in: 0...256, default: 0) * sizes.intermediate
    firstDense = try config.int("first_k_dense_replace", in: 0...1024, default: 0)
    step = try config.int("moe_layer_freq", in: 1...1024, default: 1)
  }

  func mlp(layer: Int, _ decoder: DecoderSizes, _ weights: LayerLoader) throws(ModelError) -> FeedForward {
    guard layer >= firstDense, layer % step == 0 else {
      return .dense(try DenseMLP(decoder.hidden, decoder.intermediate, weights.at("mlp")))
    }
    // Original checkpoints have another name, and a module per expert.
    let isConverted = weights.has("mlp.gate.weight")
    let weights = weights.at(isConverted ? "mlp" : "block_sparse_moe")
    let options = Experts.Options(
      names: .init(
        selectionBias: isConverted ? "e_score_correction_bias" : "gate.e_score_correction_bias",
        single: .init(gate: "w1", up: "w3", down: "w2")))
    let shared =
      sharedWidth == 0
      ? nil : SharedExpert(try DenseMLP(decoder.hidden, sharedWidth, weights.at("shared_experts")))
    return .experts(
      try Experts(sizes, hidden: decoder.hidden, rule: rule, options, shared: shared, weights))
  }
}
