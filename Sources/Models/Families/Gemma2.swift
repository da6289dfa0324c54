// Gemma 1 and 2: norms with gain 1 + w, scaled embeddings, a GELU-gated MLP; in Gemma 2 norms on both sides of each
// branch, bounded scores and logits, and every other layer sliding.
//
// Sources: arXiv:2403.08295, arXiv:2408.00118; names follow the Hugging Face checkpoints. Old configs say `gelu` where the
// models were trained with its tanh form.

import Compute

/// Gemma 2B and 7B, CodeGemma, Gemma 2 of 2B, 9B and 27B.
enum Gemma2 {
  /// - Parameter type: `gemma` or `gemma2`.
  static func decoder(
    _ type: String, _ config: ConfigFields, _ checkpoint: LayerLoader
  ) throws(ModelError) -> Decoder {
    let isSecond = type == "gemma2"
    let sizes = try DecoderSizes(
      config, contextLength: 8192, tied: true,
      defaults: .init(headDim: 256, activations: ["gelu_pytorch_tanh", "gelu", "gelu_new"]))
    let shapes = try shapes(isSecond, config, sizes)
    let bias = try config.bool("attention_bias", default: false)
    let rope = try RoPEScaling(config, sizes: sizes, theta: 10_000)
    var checkpoint = checkpoint
    checkpoint.normOffset = 1
    let frame = try DecoderFrame(sizes, rope: rope, checkpoint)
    let layers = try frame.layers { index, weights throws(ModelError) in
      DecoderLayer(
        attentionNorms: isSecond
          ? try .around("input_layernorm", "post_attention_layernorm", sizes, weights)
          : try .before("input_layernorm", sizes, weights),
        attention: try .heads(
          shapes[index], layer: index, rope: frame.rope, .init(bias: bias, outputBias: bias), frame,
          weights.at("self_attn")),
        mlpNorms: isSecond
          ? try .around("pre_feedforward_layernorm", "post_feedforward_layernorm", sizes, weights)
          : try .before("post_attention_layernorm", sizes, weights),
        mlp: .dense(
          try DenseMLP(sizes.hidden, sizes.intermediate, activation: .gelu, weights.at("mlp"))))
    }
    return Decoder(
      frame, layers,
      scales: .init(
        embeddings: gemmaEmbeddingScale(width: sizes.hidden),
        softcap: isSecond ? try gemmaSoftcap(config) : nil))
  }

  /// In Gemma 2 the layers 0, 2, 4, ... slide, or as config.json says.
  private static func shapes(
    _ isSecond: Bool, _ config: ConfigFields, _ sizes: DecoderSizes
  ) throws(ModelError) -> [AttentionShape] {
    guard isSecond else {
      return [AttentionShape](repeating: sizes.attention(window: nil), count: sizes.layers)
    }
    let scalar = try config.double("query_pre_attn_scalar", in: 1...1e6, default: 256)
    let softcap = try gemmaSoftcap(config, key: "attn_logit_softcapping")
    let windows = try sizes.windows(config) { $0 % 2 == 0 }
    return windows.map { window in
      var shape = sizes.attention(window: window)
      shape.scale = 1 / Float(scalar).squareRoot()
      shape.softcap = softcap
      return shape
    }
  }
}
