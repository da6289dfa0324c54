// DeepSeek V2 and V3, and what shares their layers: Kimi K2, Moonlight, GLM-4.7-Flash. Latent attention, a few dense layers,
// then experts.
//
// Sources: arXiv:2405.04434, arXiv:2412.19437; names follow the Hugging Face checkpoints, or MLX's, which cut `kv_b_proj`.
// Layers from `num_hidden_layers` on are draft heads, and are not read.

import Compute

/// Pre-norm decoders whose cache is one latent vector per position.
enum DeepSeek {
  /// - Parameter type: `model_type` of the text model.
  static func decoder(
    _ type: String, _ config: ConfigFields, _ checkpoint: LayerLoader
  ) throws(ModelError) -> Decoder {
    let isLite = type == "glm4_moe_lite"
    let ropeDim = try config.int("qk_rope_head_dim", in: 2...1 << 12)
    let sizes = try DecoderSizes(
      config, contextLength: isLite ? 202_752 : 163_840, tied: false,
      defaults: .init(headDim: ropeDim, epsilon: isLite ? 1e-5 : 1e-6))
    let interleaved = try config.bool("rope_interleave", default: true)
    let rope = try RoPEScaling(
      config, sizes: sizes, theta: isLite ? 1_000_000 : 10_000, headDim: ropeDim, interleaved: interleaved)
    // DeepSeek's inner norms have an epsilon of their own, whatever config.json says.
    var latent = try LatentSizes(config, sizes: sizes, epsilon: isLite ? sizes.epsilon : 1e-6)
    latent.scale *= try scoreFactor(config)
    let attention = latent
    let experts = try RoutedExperts(config, scores: type == "deepseek_v2" ? "softmax" : "sigmoid")
    let bias = try config.bool("attention_bias", default: false)
    let frame = try DecoderFrame(sizes, rope: rope, checkpoint)
    let layers = try frame.layers { index, weights throws(ModelError) in
      DecoderLayer(
        attentionNorms: try .before("input_layernorm", sizes, weights),
        attention: .latent(
          try LatentAttention(
            attention, layer: index, rope: frame.rope, bias: bias, frame, weights.at("self_attn"))),
        mlpNorms: try .before("post_attention_layernorm", sizes, weights),
        mlp: try experts.mlp(layer: index, sizes, weights.at("mlp")))
    }
    return Decoder(frame, layers)
  }

  /// YaRN's factor of scores, `(0.1 · mscale_all_dim · ln factor + 1)²`; 1 without.
  private static func scoreFactor(_ config: ConfigFields) throws(ModelError) -> Float {
    var scaling = try config.object("rope_parameters")
    if scaling == nil { scaling = try config.object("rope_scaling") }
    guard let scaling, scaling.has("mscale_all_dim"), scaling.has("factor") else { return 1 }
    let factor = try scaling.double("factor", in: 1e-3...1e6)
    let mscale = RoPEScaling.attenuation(
      factor, mscale: try scaling.double("mscale_all_dim", in: 0...1e3))
    return Float(mscale * mscale)
  }
}
