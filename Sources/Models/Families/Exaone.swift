// EXAONE 3 and 3.5, EXAONE Deep: Llama's layers under GPT-2's names.
//
// Source: arXiv:2412.04862; names follow the checkpoints.

import Compute

/// Pre-norm decoders.
enum Exaone {
  static func decoder(_ config: ConfigFields, _ checkpoint: LayerLoader) throws(ModelError) -> Decoder {
    let sizes = try DecoderSizes(
      config, contextLength: 4096, tied: false,
      defaults: .init(layersKey: "num_layers", epsilonKey: "layer_norm_epsilon", epsilon: 1e-5))
    let bias = (
      attention: try config.bool("attention_bias", default: false),
      mlp: try config.bool("mlp_bias", default: false)
    )
    let rope = try RoPEScaling(config, sizes: sizes, theta: 500_000)
    var options = SelfAttention.Options(bias: bias.attention, outputBias: bias.attention)
    options.names.o = "out_proj"
    let frame = try DecoderFrame(
      sizes, rope: rope, names: .init(embedding: "wte", finalNorm: "ln_f", layers: "h"), checkpoint)
    let names = DecoderFrame.PreNormNames(attentionNorm: "ln_1", attention: "attn.attention", mlpNorm: "ln_2")
    let layers = try frame.preNormLayers(options, names: names) { _, weights throws(ModelError) in
      .dense(
        try DenseMLP(
          sizes.hidden, sizes.intermediate, bias: bias.mlp,
          names: .init(gate: "c_fc_0", up: "c_fc_1", down: "c_proj"), weights.at("mlp")))
    }
    return Decoder(frame, layers)
  }
}
