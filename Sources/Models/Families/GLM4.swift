// GLM-4, dense (9B, 32B, Z1) and with experts (4.5 to 4.7): heads that rotate by half, biases on queries, keys and values.
// Solar Open, dots.llm1 and DeepSeek-MoE have the latter's layers, whose heads rotate as a whole.
//
// Source: the model cards and transformers' glm, glm4, glm4_moe, solar_open and dots1, and
// arXiv:2401.06066; names follow the Hugging Face checkpoints. The dense
// models pair neighbours, those with experts halves.

import Compute

/// `glm`, `glm4`, `glm4_moe`, `solar_open`, `dots1` and `deepseek`.
enum GLM4 {
  /// Norms on both sides of each branch in `glm4`, before them in `glm`.
  static func decoder(
    _ type: String, _ config: ConfigFields, _ checkpoint: LayerLoader
  ) throws(ModelError) -> Decoder {
    let sizes = try DecoderSizes(
      config, contextLength: 131_072, tied: false, defaults: .init(headDim: 128, epsilon: 1e-5))
    let rope = try RoPEScaling(config, sizes: sizes, theta: 10_000, interleaved: true, share: 0.5)
    let bias = try config.bool("attention_bias", default: type == "glm")
    let frame = try DecoderFrame(sizes, rope: rope, checkpoint)
    let isFirst = type == "glm"
    let layers = try frame.layers { index, weights throws(ModelError) in
      DecoderLayer(
        attentionNorms: isFirst
          ? try .before("input_layernorm", sizes, weights)
          : try .around("input_layernorm", "post_self_attn_layernorm", sizes, weights),
        attention: try .heads(
          sizes.attention(window: nil), layer: index, rope: frame.rope, .init(bias: bias), frame,
          weights.at("self_attn")),
        mlpNorms: isFirst
          ? try .before("post_attention_layernorm", sizes, weights)
          : try .around("post_attention_layernorm", "post_mlp_layernorm", sizes, weights),
        mlp: .dense(try DenseMLP(sizes.hidden, sizes.intermediate, weights.at("mlp"))))
    }
    return Decoder(frame, layers)
  }

  /// GLM-4.5, 4.6, 4.7 and Air; Solar Open, dots.llm1 and DeepSeek-MoE.
  static func sparse(
    _ type: String, _ config: ConfigFields, _ checkpoint: LayerLoader
  ) throws(ModelError) -> Decoder {
    let (isGLM, isSolar, isDots) = (type == "glm4_moe", type == "solar_open", type == "dots1")
    let isOlder = isDots || type == "deepseek"
    var defaults = DecoderSizes.Defaults(epsilon: isOlder ? 1e-6 : 1e-5)
    // Solar Open has experts in every layer.
    if isSolar, !config.has("intermediate_size") { defaults.intermediate = 0 }
    let sizes = try DecoderSizes(
      config, contextLength: isOlder ? 2048 : 131_072, tied: false, defaults: defaults)
    let firstSliding = isDots ? try config.int("max_window_layers", in: 0...1024, default: 62) : 1024
    let windows = isDots ? try sizes.windows(config) { $0 >= firstSliding } : nil
    let rope = try RoPEScaling(
      config, sizes: sizes, theta: isSolar ? 1_000_000 : 10_000, share: isGLM ? 0.5 : 1)
    let experts = try RoutedExperts(
      config, scores: type == "deepseek" ? "softmax" : "sigmoid", renormalizes: !isOlder)
    let bias = try config.bool("attention_bias", default: false)
    let norms = try config.bool("use_qk_norm", default: isDots)
    let options = SelfAttention.Options(
      norms: norms ? .heads : .none, bias: bias, outputBias: isOlder && bias)
    let frame = try DecoderFrame(sizes, rope: rope, checkpoint)
    let layers = try frame.preNormLayers(options, windows: windows) { index, weights throws(ModelError) in
      try experts.mlp(layer: index, sizes, weights.at("mlp"))
    }
    return Decoder(frame, layers)
  }
}
