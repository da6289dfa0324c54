// Ling and Ring, 1.5 and 2.0: queries, keys and values in one matrix, experts chosen by shares or by sigmoids.
//
// Source: arXiv:2503.05139 and the model cards; names follow the checkpoints, or MLX's, which put the router one level down.

import Compute

/// Pre-norm decoders with dense layers first.
enum Ling {
  static func decoder(_ config: ConfigFields, _ checkpoint: LayerLoader) throws(ModelError) -> Decoder {
    let sizes = try DecoderSizes(config, contextLength: 32_768, tied: false)
    let rotated = config.has("rotary_dim") ? try config.int("rotary_dim", in: 2...4096) : nil
    let rope = try RoPEScaling(config, sizes: sizes, theta: 600_000, rotated: rotated)
    let bias = try config.bool("use_bias", default: false)
    var options = SelfAttention.Options(
      norms: try config.bool("use_qk_norm", default: false) ? .heads : .none,
      bias: try config.bool("use_qkv_bias", default: false), outputBias: bias)
    options.names.fused = "query_key_value"
    (options.names.o, options.names.qNorm, options.names.kNorm) = (
      "dense", "query_layernorm", "key_layernorm"
    )
    var routed = try RoutedExperts(
      config, .init(count: "num_experts", shared: "num_shared_experts", scores: "score_function"),
      scores: "softmax")
    if routed.rule.scores != .sigmoid { routed.rule.groups = nil }
    routed.options.names.selectionBias =
      try config.bool("moe_router_enable_expert_bias", default: false) ? "gate.expert_bias" : nil
    let experts = routed
    let normsHead = try config.bool("norm_head", default: false)
    let frame = try DecoderFrame(sizes, rope: rope, names: .init(embedding: "word_embeddings"), checkpoint)
    let layers = try frame.preNormLayers(options, names: .init(attention: "attention")) {
      index, weights throws(ModelError) in
      let mlp = weights.at("mlp")
      var experts = experts
      if mlp.has("gate.gate_proj.weight") {
        experts.options.names.router = "gate.gate_proj"
      } else if normsHead, mlp.has("gate.weight") {
        // MLX's converter normalises the head's columns; here nothing has.
        throw .unsupportedSetting(
          key: "norm_head", value: "true, with the original weights", supported: "an MLX conversion")
      }
      return try experts.mlp(layer: index, sizes, bias: bias, mlp)
    }
    return Decoder(frame, layers)
  }
}
