// Llama 2 and 3.x, and what shares their layers: Mistral, Mixtral, Ministral 3, Qwen2 and 2.5, Phi-3 to Phi-4-mini,
// SmolLM2 and 3, Granite 3, Seed-OSS, ERNIE 4.5, Hunyuan, InternLM3, MiMo,
// MiniCPM.
//
// Sources: arXiv:2302.13971, arXiv:2407.21783, arXiv:2310.06825, arXiv:2401.04088, arXiv:2412.15115, arXiv:2404.14219,
// arXiv:2503.01743, and the model cards of the others; names follow the Hugging Face checkpoints. What is a factor of 1
// or absent in Llama is in `LlamaVariant`.
//
//   x += o(attend(rope(q), rope(k), v)) of norm(x)
//   x += down(silu(gate) · up) of norm(x), or of several such MLPs

import Compute

/// Pre-norm decoders with grouped-query attention and a SwiGLU MLP, or several to choose from.
enum Llama {
  static func decoder(
    _ type: String, _ config: ConfigFields, _ checkpoint: LayerLoader
  ) throws(ModelError) -> Decoder {
    let usual = LlamaVariant.defaults(type)
    let sizes = try DecoderSizes(config, contextLength: usual.contextLength, tied: false)
    let variant = try LlamaVariant(type, config, sizes: sizes)
    let rope = try variant.rope(config, sizes: sizes, theta: usual.theta)
    let frame = try DecoderFrame(sizes, rope: rope, checkpoint)
    let layers = try frame.layers { index, weights throws(ModelError) in
      var shape = sizes.attention(window: variant.windows[index])
      shape.scale = variant.scoreScale
      return DecoderLayer(
        attentionNorms: try .before("input_layernorm", sizes, weights),
        attention: try .heads(
          shape, layer: index, rope: variant.rotates[index] ? frame.rope : nil, variant.attention, frame,
          weights.at("self_attn")),
        mlpNorms: try .before("post_attention_layernorm", sizes, weights),
        mlp: try variant.mlp(sizes, weights), residualScale: variant.residualScale)
    }
    return Decoder(
      frame, layers,
      scales: .init(
        embeddings: variant.embeddingScale, logits: variant.logitScale, queryGrowth: variant.queryGrowth))
  }
}
