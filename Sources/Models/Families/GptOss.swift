// gpt-oss: attention with sinks, sliding in every other layer, and experts with biases and a clipped SwiGLU.
//
// Source: arXiv:2508.10925; names follow the Hugging Face checkpoints. OpenAI's own layout has gate and up of the experts in
// one tensor, row by row in turns.

import Compute

/// gpt-oss-20b and -120b, gpt-oss-safeguard.
enum GptOss {
  static func decoder(_ config: ConfigFields, _ checkpoint: LayerLoader) throws(ModelError) -> Decoder {
    let sizes = try DecoderSizes(
      config, contextLength: 131_072, tied: false, defaults: .init(headDim: 64, epsilon: 1e-5))
    let windows = try sizes.windows(config) { $0 % 2 == 0 }
    let bias = try config.bool("attention_bias", default: true)
    let perRow = config.has("experts_per_token") ? "experts_per_token" : "num_experts_per_tok"
    let experts = try Experts.Sizes(
      config, count: "num_local_experts", perRow: perRow, intermediate: "intermediate_size")
    let limit = try config.double("swiglu_limit", in: 1e-3...1e6, default: 7)
    let rope = try RoPEScaling(config, sizes: sizes, theta: 150_000)
    let frame = try DecoderFrame(sizes, rope: rope, checkpoint)
    var options = Experts.Options(activation: .clippedSilu(limit: Float(limit)), bias: true)
    (options.names.router, options.names.stack) = ("router", "experts")
    let attention = SelfAttention.Options(bias: bias, outputBias: bias, hasSinks: true)
    let layers = try frame.preNormLayers(attention, windows: windows) { _, weights throws(ModelError) in
      .experts(
        try Experts(
          experts, hidden: sizes.hidden, rule: ExpertRule(perRow: experts.perRow, scores: .chosen), options,
          weights.at("mlp")))
    }
    return Decoder(frame, layers)
  }
}
