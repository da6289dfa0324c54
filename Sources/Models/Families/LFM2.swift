// LFM2 and LFM2.5, dense and with experts: gated short convolutions, and attention in some layers.
//
// Source: arXiv:2511.23404; names follow the Hugging Face checkpoints (`Lfm2ForCausalLM`, `Lfm2MoeForCausalLM`).

import Compute

/// Pre-norm decoders with layers of two kinds and normalised heads. The norm before the output head is called
/// `embedding_norm`.
enum LFM2 {
  /// - Parameter sparse: whether layers after the first ones have experts (`lfm2_moe`).
  static func decoder(
    _ config: ConfigFields, sparse: Bool = false, _ checkpoint: LayerLoader
  ) throws(ModelError) -> Decoder {
    var defaults = DecoderSizes.Defaults()
    defaults.epsilonKey = "norm_eps"
    defaults.epsilon = 1e-5
    defaults.intermediate = sparse ? nil : try denseWidth(config)
    let sizes = try DecoderSizes(config, contextLength: 128_000, tied: true, defaults: defaults)
    let full = try fullLayers(config, sizes)
    let taps = try config.int("conv_L_cache", in: 2...16, default: 3)
    let bias = try config.bool("conv_bias", default: false)
    let experts = sparse ? try LFM2Experts(config) : nil
    let rope = try RoPEScaling(config, sizes: sizes, theta: 1_000_000)
    let frame = try DecoderFrame(sizes, rope: rope, names: .init(finalNorm: "embedding_norm"), checkpoint)
    let heads = SelfAttention.Names(o: "out_proj", qNorm: "q_layernorm", kNorm: "k_layernorm")
    let layers = try frame.layers { index, weights throws(ModelError) in
      // Each kind counts the layers of its own cache.
      let before = full[..<index].count { $0 == full[index] }
      return DecoderLayer(
        attentionNorms: try .before("operator_norm", sizes, weights),
        attention: full[index]
          ? try .heads(
            sizes.attention(window: nil), layer: before, rope: frame.rope,
            .init(norms: .heads, names: heads), frame, weights.at("self_attn"))
          : .recurrent(
            try GatedConvolution(
              layer: before, hidden: sizes.hidden, taps: taps, bias: bias, weights.at("conv"))),
        mlpNorms: try .before("ffn_norm", sizes, weights),
        mlp: try mlp(experts, layer: index, sizes, weights.at("feed_forward")))
    }
    return Decoder(frame, layers)
  }

  /// Which layers attend: `layer_types`, or in older configs `full_attn_idxs`.
  private static func fullLayers(
    _ config: ConfigFields, _ sizes: DecoderSizes
  ) throws(ModelError) -> [Bool] {
    let indices = Set(try config.ints("full_attn_idxs", in: 0...1024))
    let full = try sizes.layers(of: "full_attention", or: "conv", config, otherwise: indices.contains)
    guard full.contains(true), full.contains(false) else {
      throw .unsupportedSetting(
        key: "layer_types", value: "of one kind", supported: "conv and full_attention")
    }
    return full
  }

  /// Two thirds of `block_ff_dim`, rounded up, where `block_auto_adjust_ff_dim` is set.
  private static func denseWidth(_ config: ConfigFields) throws(ModelError) -> Int {
    let key = config.has("block_ff_dim") ? "block_ff_dim" : "intermediate_size"
    let stated = try config.int(key, in: 1...1 << 20)
    guard try config.bool("block_auto_adjust_ff_dim", default: true) else { return stated }
    let multiple = try config.int("block_multiple_of", in: 1...1 << 16, default: 256)
    let factor = try config.double("block_ffn_dim_multiplier", in: 1e-3...1e3, default: 1)
    let width = Int(factor * Double(2 * stated / 3))
    guard width > 0 else {
      throw .invalidValue(key: key, found: "\(stated)", expected: "a width that is not rounded to 0")
    }
    return (width + multiple - 1) / multiple * multiple
  }

  private static func mlp(
    _ experts: LFM2Experts?, layer: Int, _ sizes: DecoderSizes, _ weights: LayerLoader
  ) throws(ModelError) -> FeedForward {
    guard let experts, layer >= experts.denseLayers else {
      let names =
        experts == nil ? DenseMLP.Names(gate: "w1", up: "w3", down: "w2") : DenseMLP.Names()
      return .dense(try DenseMLP(sizes.hidden, sizes.intermediate, names: names, weights))
    }
    let options = Experts.Options(
      names: .init(selectionBias: "expert_bias", single: .init(gate: "w1", up: "w3", down: "w2")))
    return .experts(
      try Experts(experts.sizes, hidden: sizes.hidden, rule: experts.rule, options, weights))
  }
}

/// What config.json says about the experts of `lfm2_moe`.
private struct LFM2Experts {
  let sizes: Experts.Sizes
  let rule: ExpertRule
  /// The first layers, which have one MLP.
  let denseLayers: Int

  init(_ config: ConfigFields) throws(ModelError) {
    sizes = try Experts.Sizes(
      config, count: "num_experts", perRow: "num_experts_per_tok", intermediate: "moe_intermediate_size")
    var rule = ExpertRule(perRow: sizes.perRow, scores: .sigmoid)
    rule.renormalizing = try config.bool("norm_topk_prob", default: true) ? 1e-6 : nil
    rule.scale = Float(try config.double("routed_scaling_factor", in: 0...1e6, default: 1))
    self.rule = rule
    denseLayers = try config.int("num_dense_layers", in: 0...1024, default: 0)
  }
}
