// InternLM2 and 2.5: Llama's layers under names of their own, with the rows of each head of keys together in one matrix.
//
// Source: arXiv:2403.17297; names follow the checkpoints.

import Compute

/// Pre-norm decoders.
enum InternLM2 {
  static func decoder(_ config: ConfigFields, _ checkpoint: LayerLoader) throws(ModelError) -> Decoder {
    let sizes = try DecoderSizes(config, contextLength: 32_768, tied: false)
    let bias = try config.bool("bias", default: true)
    let rope = try RoPEScaling(config, sizes: sizes, theta: 10_000)
    var options = SelfAttention.Options(bias: bias, outputBias: bias, groupsRows: true)
    (options.names.fused, options.names.o) = ("wqkv", "wo")
    let frame = try DecoderFrame(
      sizes, rope: rope, names: .init(embedding: "tok_embeddings", head: "output"), checkpoint)
    let names = DecoderFrame.PreNormNames(
      attentionNorm: "attention_norm", attention: "attention", mlpNorm: "ffn_norm")
    let layers = try frame.preNormLayers(options, names: names) { _, weights throws(ModelError) in
      .dense(
        try DenseMLP(
          sizes.hidden, sizes.intermediate, names: .init(gate: "w1", up: "w3", down: "w2"),
          weights.at("feed_forward")))
    }
    return Decoder(frame, layers)
  }
}
