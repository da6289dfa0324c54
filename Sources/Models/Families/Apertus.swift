// Apertus: normalised heads, and an MLP of two matrices around an activation with parameters of its own, xIELU.
//
// Source: arXiv:2509.14233; names follow the Hugging Face checkpoints.

import Compute

/// Pre-norm decoders.
enum Apertus {
  static func decoder(_ config: ConfigFields, _ checkpoint: LayerLoader) throws(ModelError) -> Decoder {
    let sizes = try DecoderSizes(
      config, contextLength: 65_536, tied: false, defaults: .init(epsilon: 1e-5, activations: ["xielu"]))
    for (key, value) in [("post_norm", false), ("qk_norm", true)]
    where try config.bool(key, default: value) != value {
      throw .unsupportedSetting(key: key, value: "\(!value)", supported: "\(value)")
    }
    let rope = try RoPEScaling(config, sizes: sizes, theta: 12_000_000)
    let bias = try config.bool("attention_bias", default: false)
    let mlpBias = try config.bool("mlp_bias", default: false)
    let frame = try DecoderFrame(sizes, rope: rope, checkpoint)
    let names = DecoderFrame.PreNormNames(
      attentionNorm: "attention_layernorm", mlpNorm: "feedforward_layernorm")
    let layers = try frame.preNormLayers(.init(norms: .heads, bias: bias, outputBias: bias), names: names) {
      _, weights throws(ModelError) in
      .dense(
        try DenseMLP(
          sizes.hidden, sizes.intermediate, activation: try activation(weights.at("mlp.act_fn")),
          bias: mlpBias, names: .init(gate: nil), weights.at("mlp")))
    }
    return Decoder(frame, layers)
  }

  private static func activation(_ weights: LayerLoader) throws(ModelError) -> Activation {
    func scalar(_ name: String, default fallback: Float?) throws(ModelError) -> Float {
      if let fallback, !weights.has(name) { return fallback }
      // A number, or a list of one.
      let shape = weights.shape(of: name) == [] ? [] : [1]
      return try weights.floats(name, shape: shape).first ?? 0
    }
    return .xIELU(
      XIELU(
        alphaP: try scalar("alpha_p", default: nil), alphaN: try scalar("alpha_n", default: nil),
        beta: try scalar("beta", default: 0.5), epsilon: try scalar("eps", default: -1e-6)))
  }
}
