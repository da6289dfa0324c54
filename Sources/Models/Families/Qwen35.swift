// Qwen3.5 and its successors 3.6 and 3.8, dense and with experts: gated delta nets, and attention with a gate in every
// fourth layer. Qwen3-Next is the same with other names.
//
// Source: `Qwen3_5ForCausalLM` and `Qwen3NextForCausalLM` of transformers; names follow the Hugging Face checkpoints.
// Images of the wrapper's checkpoints are not read.

import Compute

/// Pre-norm decoders with layers of two kinds, normalised heads that rotate in part, and a SwiGLU MLP or several.
enum Qwen35 {
  /// - Parameter sparse: whether layers have experts (`qwen3_5_moe`, `qwen3_next`).
  static func decoder(
    _ config: ConfigFields, sparse: Bool = false, _ checkpoint: LayerLoader
  ) throws(ModelError) -> Decoder {
    var defaults = DecoderSizes.Defaults(headDim: 256)
    // Layers with experts alone have no width of a dense MLP.
    if sparse, !config.has("intermediate_size") { defaults.intermediate = 0 }
    let sizes = try DecoderSizes(config, contextLength: 32_768, tied: false, defaults: defaults)
    let full = try fullLayers(config, sizes)
    let linear = try GatedDeltaNet.Sizes(config)
    let bias = try config.bool("attention_bias", default: false)
    guard try config.bool("attn_output_gate", default: true) else {
      throw .unsupportedSetting(key: "attn_output_gate", value: "false", supported: "true")
    }
    let experts = sparse ? try QwenExperts(config, renormalizes: true) : nil
    let rope = try RoPEScaling(config, sizes: sizes, theta: 10_000_000, share: 0.25)
    var checkpoint = checkpoint
    checkpoint.normOffset = storesOffsets(checkpoint) ? 1 : 0
    let frame = try DecoderFrame(sizes, rope: rope, checkpoint)
    let layers = try frame.layers { index, weights throws(ModelError) in
      // Each kind counts the layers of its own cache.
      let before = full[..<index].count { $0 == full[index] }
      return DecoderLayer(
        attentionNorms: try .before("input_layernorm", sizes, weights),
        attention: full[index]
          ? try .heads(
            sizes.attention(window: nil), layer: before, rope: frame.rope,
            .init(norms: .heads, bias: bias, outputBias: bias, gate: .besideQueries), frame,
            weights.at("self_attn"))
          : .recurrent(
            try GatedDeltaNet(linear, layer: before, hidden: sizes.hidden, weights.at("linear_attn"))),
        mlpNorms: try .before("post_attention_layernorm", sizes, weights),
        mlp: try QwenExperts.mlp(experts, layer: index, sizes, weights.at("mlp")))
    }
    return Decoder(frame, layers)
  }

  /// Which layers attend to everything: `layer_types`, otherwise every `full_attention_interval`-th.
  private static func fullLayers(
    _ config: ConfigFields, _ sizes: DecoderSizes
  ) throws(ModelError) -> [Bool] {
    let interval = try config.int("full_attention_interval", in: 1...1024, default: 4)
    let full = try sizes.layers(of: "full_attention", or: "linear_attention", config) {
      ($0 + 1) % interval == 0
    }
    guard full.contains(true), full.contains(false) else {
      throw .unsupportedSetting(
        key: "layer_types", value: "of one kind", supported: "linear_attention and full_attention")
    }
    return full
  }

  /// Original checkpoints store what the gain of a norm adds to 1, MLX's the gain, but for the norm before a gate, which is
  /// a gain in both. Which it is can be seen at a convolution: `[channels, 1, taps]` or `[channels, taps, 1]`.
  private static func storesOffsets(_ checkpoint: LayerLoader) -> Bool {
    let name = checkpoint.names.first { $0.hasSuffix("linear_attn.conv1d.weight") }
    return name.flatMap { checkpoint.shape(of: $0) }?.last != 1
  }
}
