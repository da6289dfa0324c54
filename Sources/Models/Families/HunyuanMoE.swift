// Hunyuan A13B: the attention of the dense Hunyuan, experts whose shares add up to 1, and an MLP beside them.
//
// Source: the model card and transformers' hunyuan_v1_moe; names follow the Hugging Face checkpoints. The original config
// has lists with one number per layer.

import Compute
import JSON

/// Pre-norm decoders with experts in every layer.
enum HunyuanMoE {
  static func decoder(_ config: ConfigFields, _ checkpoint: LayerLoader) throws(ModelError) -> Decoder {
    // What published models do not have, and of which the references disagree.
    guard try config.bool("norm_topk_prob", default: true) else {
      throw .unsupportedSetting(key: "norm_topk_prob", value: "false", supported: "true")
    }
    guard try config.double("routed_scaling_factor", in: 1e-6...1e6, default: 1) == 1 else {
      throw .unsupportedSetting(key: "routed_scaling_factor", value: "not 1", supported: "1")
    }
    let sizes = try DecoderSizes(config, contextLength: 2048, tied: false, defaults: .init(epsilon: 1e-5))
    guard try config.int("attention_head_dim", in: 2...4096, default: sizes.headDim) == sizes.headDim else {
      throw .unsupportedSetting(
        key: "attention_head_dim", value: "another size than \(sizes.headDim)", supported: "head_dim")
    }
    let counts = try perLayer("num_experts", config, sizes, in: 2...4096)
    let chosen = try perLayer("moe_topk", config, sizes, in: 1...4096, default: 1)
    let widths = try perLayer(
      "moe_intermediate_size", config, sizes, in: 1...1 << 20, default: sizes.intermediate)
    let hasShared = try config.bool("use_mixed_mlp_moe", default: true)
    let shared = try perLayer("num_shared_expert", config, sizes, in: 1...256, default: 1)
    let rope = try RoPEScaling(config, sizes: sizes, theta: 10_000)
    let bias = try config.bool("attention_bias", default: false)
    let norms = try config.bool("use_qk_norm", default: true)
    var options = SelfAttention.Options(
      norms: norms ? .heads : .none, rotatesFirst: true, bias: bias, outputBias: bias)
    (options.names.qNorm, options.names.kNorm) = ("query_layernorm", "key_layernorm")
    let frame = try DecoderFrame(sizes, rope: rope, checkpoint)
    let layers = try frame.preNormLayers(options) { index, weights throws(ModelError) in
      let (mlp, width) = (weights.at("mlp"), widths[index])
      let experts = try Experts.Sizes(count: counts[index], perRow: chosen[index], intermediate: width)
      return .experts(
        try Experts(
          experts, hidden: sizes.hidden, rule: ExpertRule(perRow: experts.perRow, scores: .chosen),
          .init(names: .init(router: "gate.wg")),
          shared: hasShared
            ? SharedExpert(try DenseMLP(sizes.hidden, width * shared[index], mlp.at("shared_mlp"))) : nil,
          mlp))
    }
    return Decoder(frame, layers)
  }

  /// A number for all layers, or a list of one for each.
  private static func perLayer(
    _ key: String, _ config: ConfigFields, _ sizes: DecoderSizes, in range: ClosedRange<Int>,
    default fallback: Int? = nil
  ) throws(ModelError) -> [Int] {
    guard config.value(key)?.arrayValue != nil else {
      return [Int](repeating: try config.int(key, in: range, default: fallback), count: sizes.layers)
    }
    let list = try config.ints(key, in: range)
    guard list.count >= sizes.layers else {
      throw .invalidValue(
        key: key, found: "an array of \(list.count)",
        expected: "num_hidden_layers = \(sizes.layers) entries")
    }
    return list
  }
}
