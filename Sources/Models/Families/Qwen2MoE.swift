// Qwen1.5-MoE and Qwen2-57B-A14B: Qwen2's attention, experts, and an MLP beside them with a gate of one number.
//
// Source: arXiv:2407.10671; names follow the Hugging Face checkpoints.

import Compute

/// Pre-norm decoders with biases on queries, keys and values.
enum Qwen2MoE {
  static func decoder(_ config: ConfigFields, _ checkpoint: LayerLoader) throws(ModelError) -> Decoder {
    let sizes = try DecoderSizes(config, contextLength: 32_768, tied: false)
    let windows = try Qwen3.windows(config, sizes)
    let experts = try QwenExperts(config)
    let rope = try RoPEScaling(config, sizes: sizes, theta: 1_000_000)
    let bias = try config.bool("qkv_bias", default: true)
    let frame = try DecoderFrame(sizes, rope: rope, checkpoint)
    let layers = try frame.preNormLayers(.init(bias: bias), windows: windows) {
      index, weights throws(ModelError) in
      try QwenExperts.mlp(experts, layer: index, sizes, weights.at("mlp"))
    }
    return Decoder(frame, layers)
  }
}
