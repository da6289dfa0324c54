// OLMo 2 and 3: norms after attention and MLP only, and of all heads of queries or keys together. OLMoE: the latter alone.
//
// Sources: arXiv:2501.00656, arXiv:2409.02060 and the model cards; names follow the Hugging Face checkpoints. In OLMo 3 three of four layers
// slide; they rotate by the plain frequencies, the others by those that YaRN stretches.

import Compute

/// Post-norm decoders.
enum OLMo {
  /// - Parameter type: `olmo2` or `olmo3`.
  static func decoder(
    _ type: String, _ config: ConfigFields, _ checkpoint: LayerLoader
  ) throws(ModelError) -> Decoder {
    let slides = type == "olmo3"
    let sizes = try DecoderSizes(config, contextLength: slides ? 65_536 : 4096, tied: false)
    let windows =
      slides
      ? try sizes.windows(config) { ($0 + 1) % 4 != 0 } : [Int?](repeating: nil, count: sizes.layers)
    let rope = try RoPEScaling(config, sizes: sizes, theta: 500_000)
    let localRope = try localFrequencies(config, sizes).rope
    let bias = try config.bool("attention_bias", default: false)
    let frame = try DecoderFrame(sizes, rope: rope, checkpoint)
    let layers = try frame.layers { index, weights throws(ModelError) in
      DecoderLayer(
        attentionNorms: try .after("post_attention_layernorm", sizes, weights),
        attention: try .heads(
          sizes.attention(window: windows[index]), layer: index,
          rope: windows[index] == nil ? frame.rope : localRope,
          .init(norms: .projection, bias: bias, outputBias: bias), frame, weights.at("self_attn")),
        mlpNorms: try .after("post_feedforward_layernorm", sizes, weights),
        mlp: .dense(try DenseMLP(sizes.hidden, sizes.intermediate, weights.at("mlp"))))
    }
    return Decoder(frame, layers, otherRopes: slides ? [localRope] : [])
  }

  /// OLMoE: pre-norm decoders with experts in every layer.
  static func sparse(_ config: ConfigFields, _ checkpoint: LayerLoader) throws(ModelError) -> Decoder {
    let sizes = try DecoderSizes(config, contextLength: 4096, tied: false, defaults: .init(epsilon: 1e-5))
    let experts = try QwenExperts(config, width: "intermediate_size")
    let rope = try RoPEScaling(config, sizes: sizes, theta: 10_000)
    let bias = try config.bool("attention_bias", default: false)
    let frame = try DecoderFrame(sizes, rope: rope, checkpoint)
    let options = SelfAttention.Options(norms: .projection, bias: bias, outputBias: bias)
    let layers = try frame.preNormLayers(options) { index, weights throws(ModelError) in
      try QwenExperts.mlp(experts, layer: index, sizes, weights.at("mlp"))
    }
    return Decoder(frame, layers)
  }

  /// Sliding layers are not scaled.
  private static func localFrequencies(
    _ config: ConfigFields, _ sizes: DecoderSizes
  ) throws(ModelError) -> RoPEScaling {
    let key = "sliding_attention"
    guard try config.object("rope_parameters")?.has(key) ?? false else {
      return try RoPEScaling.unscaled(config, sizes: sizes, theta: 500_000)
    }
    return try RoPEScaling(config, sizes: sizes, theta: 500_000, layerType: key)
  }
}
