// GLM-4, dense (9B, 32B, Z1) and with experts (4.5 to 4.7): heads that rotate by half, biases on queries, keys and values.
//
// Source: the model cards and transformers' glm, glm4 and glm4_moe; names follow the Hugging Face checkpoints. The dense
// models pair neighbours, those with experts halves.

import Compute

/// `glm`, `glm4` and `glm4_moe`.
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

  /// GLM-4.5, 4.6, 4.7 and Air.
  static func sparse(_ config: ConfigFields, _ checkpoint: LayerLoader) throws(ModelError) -> Decoder {
    let sizes = try DecoderSizes(config, contextLength: 131_072, tied: false, defaults: .init(epsilon: 1e-5))
    let rope = try RoPEScaling(config, sizes: sizes, theta: 10_000, share: 0.5)
    let experts = try RoutedExperts(config, scores: "sigmoid")
    let options = SelfAttention.Options(
      norms: try config.bool("use_qk_norm", default: false) ? .heads : .none,
      bias: try config.bool("attention_bias", default: false))
    let frame = try DecoderFrame(sizes, rope: rope, checkpoint)
    let layers = try frame.layers { index, weights throws(ModelError) in
      DecoderLayer(
        attentionNorms: try .before("input_layernorm", sizes, weights),
        attention: try .heads(
          sizes.attention(window: nil), layer: index, rope: frame.rope, options, frame,
          weights.at("self_attn")),
        mlpNorms: try .before("post_attention_layernorm", sizes, weights),
        mlp: try experts.mlp(layer: index, sizes, weights.at("mlp")))
    }
    return Decoder(frame, layers)
  }
}
