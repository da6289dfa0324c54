// Nemotron-H, Nemotron Nano 2, Nemotron 3 Nano and Super: Mamba 2, attention without positions, MLPs and experts, one of
// them per layer.
//
// Source: arXiv:2504.03624; `NemotronHForCausalLM` of transformers, whose lower bound of steps of time is not that of the
// published code.

import Compute
import JSON

/// Decoders whose layers have one branch each: `x += mixer(norm(x))`.
enum NemotronH {
  /// What a layer is.
  private enum Kind: Character {
    case mamba = "M"
    case attention = "*"
    case mlp = "-"
    case experts = "E"
  }

  static func decoder(_ config: ConfigFields, _ checkpoint: LayerLoader) throws(ModelError) -> Decoder {
    var defaults = DecoderSizes.Defaults()
    defaults.epsilonKey =
      config.has("norm_eps") && !config.has("layer_norm_epsilon") ? "norm_eps" : "layer_norm_epsilon"
    defaults.epsilon = 1e-5
    if !config.has("intermediate_size") { defaults.intermediate = 0 }
    let sizes = try DecoderSizes(config, contextLength: 4096, tied: false, defaults: defaults)
    let kinds = try kinds(config, sizes)
    guard kinds.contains(.attention) else {
      throw .unsupportedSetting(
        key: "hybrid_override_pattern", value: "without attention", supported: "some layers with attention")
    }
    if let activation = try config.string("mlp_hidden_act"), activation != "relu2" {
      throw .unsupportedSetting(key: "mlp_hidden_act", value: activation, supported: "relu2")
    }
    let mamba = kinds.contains(.mamba) ? try mambaSizes(config) : nil
    let experts = kinds.contains(.experts) ? try NemotronExperts(config) : nil
    let bias = (
      attention: try config.bool("attention_bias", default: false),
      mlp: try config.bool("mlp_bias", default: false)
    )
    let rope = try RoPEScaling(config, sizes: sizes, theta: 10_000)
    let frame = try DecoderFrame(
      sizes, rope: rope, names: .init(embedding: "embeddings", finalNorm: "norm_f"), checkpoint)
    let layers = try frame.layers { index, weights throws(ModelError) in
      // Each kind counts the layers of its own cache.
      let before = kinds[..<index].count { $0 == kinds[index] }
      let norm = try DecoderLayer.Norms.before("norm", sizes, weights)
      let mixer = weights.at("mixer")
      switch kinds[index] {
      case .mamba:
        guard let mamba else { throw .missingKey("mamba_num_heads") }
        let layer = try Mamba2(mamba, layer: before, hidden: sizes.hidden, mixer)
        return DecoderLayer(attentionNorms: norm, attention: .recurrent(layer))
      case .attention:
        let attention = try SelfAttention(
          sizes.attention(window: nil), layer: before, rope: nil,
          .init(bias: bias.attention, outputBias: bias.attention), frame, mixer)
        return DecoderLayer(attentionNorms: norm, attention: .heads(attention))
      case .mlp:
        let mlp = try DenseMLP(
          sizes.hidden, sizes.intermediate, activation: .squaredReLU, bias: bias.mlp,
          names: .init(gate: nil), mixer)
        return DecoderLayer(mlpNorms: norm, mlp: .dense(mlp))
      case .experts:
        guard let experts else { throw .missingKey("n_routed_experts") }
        return DecoderLayer(mlpNorms: norm, mlp: .experts(try experts.experts(sizes, mixer)))
      }
    }
    return Decoder(frame, layers)
  }

  /// `hybrid_override_pattern`, a letter per layer, or `layers_block_type`, a word per layer.
  private static func kinds(_ config: ConfigFields, _ sizes: DecoderSizes) throws(ModelError) -> [Kind] {
    let words: [String: Kind] = ["mamba": .mamba, "attention": .attention, "mlp": .mlp, "moe": .experts]
    let pattern = try config.string("hybrid_override_pattern")
    let key = pattern == nil ? "layers_block_type" : "hybrid_override_pattern"
    let kinds =
      pattern.map { $0.map { Kind(rawValue: $0) } }
      ?? (config.value(key)?.arrayValue ?? []).map { $0.stringValue.flatMap { words[$0] } }
    let known = kinds.compactMap { $0 }
    guard known.count == sizes.layers, kinds.count == known.count else {
      throw .invalidValue(
        key: key, found: "\(kinds.count) layers, \(known.count) of a known kind",
        expected: "num_hidden_layers = \(sizes.layers) of M, *, -, E (mamba, attention, mlp, moe)")
    }
    return known
  }

  private static func mambaSizes(_ config: ConfigFields) throws(ModelError) -> Mamba2.Sizes {
    var sizes = try Mamba2.Sizes(
      config,
      .init(
        heads: "mamba_num_heads", headDim: "mamba_head_dim", groups: "n_groups", stateDim: "ssm_state_size",
        taps: "conv_kernel", convolutionBias: "use_conv_bias", bias: "mamba_proj_bias"))
    let bias = try config.bool("use_bias", default: false)
    sizes.bias = sizes.bias || bias
    return sizes
  }
}

/// What config.json says about the experts: of two matrices each, chosen in groups by scores with a bias.
private struct NemotronExperts {
  private let sizes: Experts.Sizes
  private let rule: ExpertRule
  /// The MLP beside the experts; nil without.
  private let sharedWidth: Int?
  /// The width that experts work in; nil for the hidden size.
  private let latent: Int?

  init(_ config: ConfigFields) throws(ModelError) {
    sizes = try Experts.Sizes(
      config, count: "n_routed_experts", perRow: "num_experts_per_tok", intermediate: "moe_intermediate_size")
    var rule = ExpertRule(perRow: sizes.perRow, scores: .sigmoid)
    rule.renormalizing = try config.bool("norm_topk_prob", default: true) ? 1e-20 : nil
    rule.scale = Float(try config.double("routed_scaling_factor", in: 0...1e6, default: 1))
    let count = try config.int("n_group", in: 1...sizes.count, default: 1)
    let kept = try config.int("topk_group", in: 1...count, default: count)
    guard sizes.count % count == 0, kept * (sizes.count / count) >= sizes.perRow else {
      throw .invalidValue(
        key: "n_group", found: "\(count)",
        expected: "a divisor of n_routed_experts with room for num_experts_per_tok in topk_group groups")
    }
    rule.groups = count > 1 ? .init(count: count, kept: kept, leaders: min(2, sizes.count / count)) : nil
    self.rule = rule
    latent = config.has("moe_latent_size") ? try config.int("moe_latent_size", in: 1...1 << 17) : nil
    let shared = try config.int("n_shared_experts", in: 0...256, default: 0)
    sharedWidth =
      shared > 0
      ? shared * (try config.int("moe_shared_expert_intermediate_size", in: 1...1 << 20)) : nil
  }

  func experts(_ sizes: DecoderSizes, _ weights: LayerLoader) throws(ModelError) -> Experts {
    let plain = DenseMLP.Names(gate: nil)
    let options = Experts.Options(
      activation: .squaredReLU,
      names: .init(
        selectionBias: "gate.e_score_correction_bias", stacked: .init(gate: nil, up: "fc1", down: "fc2"),
        single: plain))
    var shared: SharedExpert?
    if let sharedWidth {
      shared = SharedExpert(
        try DenseMLP(
          sizes.hidden, sharedWidth, activation: .squaredReLU, names: plain, weights.at("shared_experts")))
    }
    return try Experts(
      self.sizes, hidden: sizes.hidden, latent: latent, rule: rule, options, shared: shared, weights)
  }
}
