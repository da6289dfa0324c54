// Gemma 3, text: sandwich norms with gain 1 + w, scaled embeddings, sliding layers with a RoPE of their own.
//
// Source: arXiv:2503.19786; names follow the Hugging Face checkpoints.

import Compute

/// Decoders with norms before and after attention and MLP, normalised heads, and a GELU-gated MLP.
enum Gemma3 {
  /// - Parameter encodes: whether tokens see those after them too (EmbeddingGemma).
  static func decoder(
    _ config: ConfigFields, encodes: Bool = false, _ checkpoint: LayerLoader
  ) throws(ModelError) -> Decoder {
    try refuseWhatIsMissing(config, encodes: encodes)
    // The released configs of the multimodal sizes leave these out.
    let sizes = try DecoderSizes(
      config, contextLength: 131_072, tied: false,
      defaults: .init(
        heads: 8, kvHeads: 4, headDim: 256, vocabulary: 262_208, activations: ["gelu_pytorch_tanh"]))
    let shapes = try shapes(config, sizes, encodes: encodes)
    let bias = try config.bool("attention_bias", default: false)
    let rope = try RoPEScaling(config, sizes: sizes, theta: 1_000_000)
    // Of the sliding layers; the frame's is that of the full ones.
    let localRope = try localFrequencies(config, sizes: sizes).rope
    var checkpoint = checkpoint
    checkpoint.normOffset = 1
    let frame = try DecoderFrame(sizes, rope: rope, checkpoint)
    let layers = try frame.layers { index, weights throws(ModelError) in
      DecoderLayer(
        attentionNorms: try .around("input_layernorm", "post_attention_layernorm", sizes, weights),
        attention: try .heads(
          shapes[index], layer: index, rope: shapes[index].window == nil ? frame.rope : localRope,
          .init(norms: .heads, bias: bias, outputBias: bias), frame, weights.at("self_attn")),
        mlpNorms: try .around("pre_feedforward_layernorm", "post_feedforward_layernorm", sizes, weights),
        mlp: .dense(
          try DenseMLP(sizes.hidden, sizes.intermediate, activation: .gelu, weights.at("mlp"))))
    }
    return Decoder(
      frame, layers,
      scales: .init(
        embeddings: gemmaEmbeddingScale(width: sizes.hidden), softcap: try gemmaSoftcap(config)),
      otherRopes: [localRope])
  }

  /// Every sixth layer sees everything, or as config.json says.
  private static func shapes(
    _ config: ConfigFields, _ sizes: DecoderSizes, encodes: Bool
  ) throws(ModelError) -> [AttentionShape] {
    let key = config.has("_sliding_window_pattern") ? "_sliding_window_pattern" : "sliding_window_pattern"
    let pattern = try config.int(key, in: 1...1024, default: 6)
    let sliding = try sizes.slidingLayers(config) { ($0 + 1) % pattern != 0 }
    let window = sliding.contains(true) ? try config.int("sliding_window", in: 1...1 << 40) : nil
    let scale = 1 / Float(try config.double("query_pre_attn_scalar", in: 1...1e6, default: 256)).squareRoot()
    return sliding.map { slides in
      var shape = sizes.attention(window: slides ? window.map { encodes ? sight($0) : $0 } : nil)
      shape.windowIsSymmetric = encodes
      shape.scale = scale
      return shape
    }
  }

  /// How far a token of an encoder sees to either side, itself counted: half of `sliding_window`. Files that were saved
  /// again may hold the result, 2^n + 1.
  private static func sight(_ window: Int) -> Int {
    window % 2 == 1 && window > 2 && (window - 1).nonzeroBitCount == 1 ? window : window / 2 + 1
  }

  static func refuseWhatIsMissing(_ config: ConfigFields, encodes: Bool = false) throws(ModelError) {
    // EmbeddingGemma has the same model_type.
    if !encodes, try config.bool("use_bidirectional_attention", default: false) {
      throw .unsupportedSetting(key: "use_bidirectional_attention", value: "true", supported: "false")
    }
    if config.has("attn_logit_softcapping") {
      throw .unsupportedSetting(key: "attn_logit_softcapping", value: "a number", supported: "null")
    }
  }

  /// Sliding layers are not scaled: their positions are never far apart.
  static func localFrequencies(
    _ config: ConfigFields, sizes: DecoderSizes
  ) throws(ModelError) -> RoPEScaling {
    if try config.object("rope_parameters")?.has("sliding_attention") ?? false {
      return try RoPEScaling(config, sizes: sizes, theta: 10_000, layerType: "sliding_attention")
    }
    let theta = try config.double("rope_local_base_freq", in: 2...1e15, default: 10_000)
    return RoPEScaling(theta: theta, headDim: sizes.headDim)
  }
}

/// What Gemma's embeddings are multiplied by: √width, rounded to bfloat16 as in the checkpoints' training.
func gemmaEmbeddingScale(width: Int) -> Float {
  let bits = Float(width).squareRoot().bitPattern
  return Float(bitPattern: (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF_0000)
}

/// A bound of logits or scores, where config.json gives one.
func gemmaSoftcap(
  _ config: ConfigFields, key: String = "final_logit_softcapping"
) throws(ModelError) -> Float? {
  return config.has(key) ? Float(try config.double(key, in: 1e-3...1e6)) : nil
}
