// Command-R, Command-R7B, Aya: attention and MLP side by side after one layer norm, neighbours that rotate, scaled logits.
//
// Source: the model cards and transformers' cohere and cohere2; names follow the Hugging Face checkpoints. In the second
// generation three of four layers slide, and the fourth has no positions.

import Compute

/// Decoders of parallel blocks.
enum Cohere {
  /// - Parameter type: `cohere` or `cohere2`.
  static func decoder(
    _ type: String, _ config: ConfigFields, _ checkpoint: LayerLoader
  ) throws(ModelError) -> Decoder {
    let isSecond = type == "cohere2"
    let sizes = try DecoderSizes(
      config, contextLength: 8192, tied: true,
      defaults: .init(epsilonKey: "layer_norm_eps", epsilon: 1e-5))
    let windows = try windows(isSecond, config, sizes)
    let rope = try RoPEScaling(
      config, sizes: sizes, theta: isSecond ? 50_000 : 10_000, interleaved: true)
    let bias = try config.bool("attention_bias", default: false)
    let norms = try config.bool("use_qk_norm", default: false)
    let frame = try DecoderFrame(sizes, rope: rope, norm: .layer, checkpoint)
    let layers = try frame.layers { index, weights throws(ModelError) in
      DecoderLayer(
        attentionNorms: try .before("input_layernorm", kind: .layer, sizes, weights),
        attention: try .heads(
          sizes.attention(window: windows[index]), layer: index,
          rope: isSecond && windows[index] == nil ? nil : frame.rope,
          .init(norms: norms ? .layer : .none, bias: bias, outputBias: bias), frame, weights.at("self_attn")),
        mlpNorms: .init(),
        mlp: .dense(try DenseMLP(sizes.hidden, sizes.intermediate, weights.at("mlp"))), isParallel: true)
    }
    let scale = try config.double("logit_scale", in: 1e-6...1e6, default: 0.0625)
    return Decoder(frame, layers, scales: .init(logits: Float(scale)))
  }

  private static func windows(
    _ isSecond: Bool, _ config: ConfigFields, _ sizes: DecoderSizes
  ) throws(ModelError) -> [Int?] {
    guard isSecond else { return [Int?](repeating: nil, count: sizes.layers) }
    let distance = try config.int("sliding_window_pattern", in: 1...1024, default: 4)
    let sliding = try sizes.slidingLayers(config) { ($0 + 1) % distance != 0 }
    let window = try config.int("sliding_window", in: 1...1 << 40, default: 4096)
    return sliding.map { $0 ? window : nil }
  }
}
