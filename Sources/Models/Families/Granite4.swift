// Granite 4: Mamba 2 with a few layers of attention, mixtures of experts with an MLP beside them or dense. Granite 3's
// mixtures are the same without Mamba.
//
// Source: `GraniteMoeHybridForCausalLM` and `GraniteMoeForCausalLM` of transformers.

import Compute

/// Pre-norm decoders with Granite's four multipliers.
enum Granite4 {
  static func decoder(
    _ type: String, _ config: ConfigFields, _ checkpoint: LayerLoader
  ) throws(ModelError) -> Decoder {
    let experts = try GraniteExperts(config, isHybrid: type == "granitemoehybrid")
    var defaults = DecoderSizes.Defaults()
    defaults.intermediate = experts.sharedWidth ?? 0
    let sizes = try DecoderSizes(config, contextLength: 131_072, tied: true, defaults: defaults)
    let full = try sizes.layers(of: "attention", or: "mamba", config) { _ in true }
    let mamba = full.contains(false) ? try Mamba2.Sizes(config) : nil
    let positions = try config.string("position_embedding_type")
    let hasPositions = type == "granitemoe" || positions ?? "nope" != "nope"
    if let norm = try config.string("normalization_function"), norm != "rmsnorm" {
      throw .unsupportedSetting(key: "normalization_function", value: norm, supported: "rmsnorm")
    }
    let bias = try config.bool("attention_bias", default: false)
    func factor(_ key: String) throws(ModelError) -> Float {
      Float(try config.double(key, in: -1e6...1e6, default: 1))
    }
    var attention = sizes.attention(window: nil)
    attention.scale = try factor("attention_multiplier")
    let residual = try factor("residual_multiplier")
    let scales = Decoder.Scales(
      embeddings: try factor("embedding_multiplier"), logits: 1 / (try factor("logits_scaling")))
    let rope = try RoPEScaling(config, sizes: sizes, theta: 10_000)
    let frame = try DecoderFrame(sizes, rope: rope, checkpoint)
    guard full.contains(true) else {
      throw .unsupportedSetting(key: "layer_types", value: "mamba alone", supported: "some with attention")
    }
    let layers = try frame.layers { index, weights throws(ModelError) in
      // Each kind counts the layers of its own cache.
      let before = full[..<index].count { $0 == full[index] }
      let mixer: DecoderLayer.Mixer
      if let mamba, !full[index] {
        mixer = .recurrent(
          try Mamba2(mamba, layer: before, hidden: sizes.hidden, weights.at("mamba")))
      } else {
        mixer = try .heads(
          attention, layer: before, rope: hasPositions ? frame.rope : nil,
          .init(bias: bias, outputBias: bias), frame, weights.at("self_attn"))
      }
      return DecoderLayer(
        attentionNorms: try .before("input_layernorm", sizes, weights), attention: mixer,
        mlpNorms: try .before("post_attention_layernorm", sizes, weights),
        mlp: try experts.mlp(sizes, weights), residualScale: residual)
    }
    return Decoder(frame, layers, scales: scales)
  }
}

/// What config.json says about the MLPs.
private struct GraniteExperts {
  /// Nil in dense models.
  private let sizes: Experts.Sizes?
  /// The MLP beside the experts, or the only one; nil without.
  let sharedWidth: Int?

  init(_ config: ConfigFields, isHybrid: Bool) throws(ModelError) {
    let count = try config.int("num_local_experts", in: 0...4096, default: 0)
    let isDense = isHybrid && count == 0
    sizes =
      isDense
      ? nil
      : try Experts.Sizes(
        config, count: "num_local_experts", perRow: "num_experts_per_tok", intermediate: "intermediate_size")
    sharedWidth = isHybrid ? try config.int("shared_intermediate_size", in: 1...1 << 20) : nil
  }

  func mlp(_ sizes: DecoderSizes, _ weights: LayerLoader) throws(ModelError) -> FeedForward {
    let fused = DenseMLP.Names(down: "output_linear", fused: "input_linear")
    guard let experts = self.sizes else {
      let isConverted = weights.has("mlp.down_proj.weight")
      return .dense(
        try DenseMLP(
          sizes.hidden, sizes.intermediate, names: isConverted ? .init() : fused,
          weights.at(isConverted ? "mlp" : "shared_mlp")))
    }
    let isConverted = weights.has("block_sparse_moe.switch_mlp.down_proj.weight")
    let options = Experts.Options(
      names: .init(
        router: "block_sparse_moe.router.layer",
        stack: isConverted ? "block_sparse_moe.switch_mlp" : "block_sparse_moe",
        stacked: isConverted ? .init() : fused))
    var shared: SharedExpert?
    if let sharedWidth {
      shared = SharedExpert(
        try DenseMLP(sizes.hidden, sharedWidth, names: fused, weights.at("shared_mlp")))
    }
    return .experts(
      try Experts(
        experts, hidden: sizes.hidden, rule: ExpertRule(perRow: experts.perRow, scores: .chosen), options,
        shared: shared, weights))
  }
}
