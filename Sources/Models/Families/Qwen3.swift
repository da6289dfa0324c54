// Qwen3, dense and with experts: Llama's layers with a norm of each query and key head before RoPE.
//
// Source: arXiv:2505.09388; names follow the Hugging Face checkpoints.

import Compute

/// Pre-norm decoders with grouped-query attention, normalised heads, and a SwiGLU MLP or several to choose from.
enum Qwen3 {
  /// - Parameter sparse: whether layers have experts (`qwen3_moe`).
  static func decoder(
    _ config: ConfigFields, sparse: Bool = false, _ checkpoint: LayerLoader
  ) throws(ModelError) -> Decoder {
    let sizes = try DecoderSizes(config, contextLength: 32_768, tied: false)
    let windows = try windows(config, sizes)
    let bias = try config.bool("attention_bias", default: false)
    let experts = sparse ? try QwenExperts(config) : nil
    let rope = try RoPEScaling(config, sizes: sizes, theta: 1_000_000)
    let frame = try DecoderFrame(sizes, rope: rope, checkpoint)
    let options = SelfAttention.Options(norms: .heads, bias: bias, outputBias: bias)
    let layers = try frame.preNormLayers(options, windows: windows) { index, weights throws(ModelError) in
      try QwenExperts.mlp(experts, layer: index, sizes, weights.at("mlp"))
    }
    return Decoder(frame, layers)
  }

  /// Released configs carry a sliding_window that use_sliding_window switches off; so do those of Qwen2.
  static func windows(_ config: ConfigFields, _ sizes: DecoderSizes) throws(ModelError) -> [Int?] {
    let slides = try config.bool("use_sliding_window", default: false)
    let fullLayers = slides ? try config.int("max_window_layers", in: 0...1024, default: 28) : Int.max
    return try sizes.windows(config) { $0 >= fullLayers }
  }
}
