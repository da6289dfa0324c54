// StarCoder2: layer norms with biases, an MLP of two matrices, a window in every layer.
//
// Source: arXiv:2402.19173; names follow the Hugging Face checkpoints.

import Compute

/// Pre-norm decoders with layer norms and a tanh-GELU MLP.
enum StarCoder2 {
  static func decoder(_ config: ConfigFields, _ checkpoint: LayerLoader) throws(ModelError) -> Decoder {
    let sizes = try DecoderSizes(
      config, contextLength: 4096, tied: true,
      defaults: .init(epsilonKey: "norm_epsilon", epsilon: 1e-5, activations: ["gelu_pytorch_tanh"]))
    let windows = try sizes.windows(config) { _ in true }
    let rope = try RoPEScaling(config, sizes: sizes, theta: 10_000)
    let bias = try config.bool("use_bias", default: true)
    let frame = try DecoderFrame(sizes, rope: rope, norm: .layer, checkpoint)
    let layers = try frame.layers { index, weights throws(ModelError) in
      DecoderLayer(
        attentionNorms: try .before("input_layernorm", kind: .layer, sizes, weights),
        attention: try .heads(
          sizes.attention(window: windows[index]), layer: index, rope: frame.rope,
          .init(bias: bias, outputBias: bias), frame, weights.at("self_attn")),
        mlpNorms: try .before("post_attention_layernorm", kind: .layer, sizes, weights),
        mlp: .dense(
          try DenseMLP(
            sizes.hidden, sizes.intermediate, activation: .geluAlone, bias: bias,
            names: .init(gate: nil, up: "c_fc", down: "c_proj"), weights.at("mlp"))))
    }
    return Decoder(frame, layers)
  }
}
