// Llama 2 and 3.x, and what shares their layers: Mistral, Mixtral, Ministral 3, Qwen2 and 2.5, Phi-3 to Phi-4-mini,
// SmolLM2 and 3, Granite 3.
//
// Sources: arXiv:2302.13971, arXiv:2407.21783, arXiv:2310.06825, arXiv:2401.04088, arXiv:2412.15115, arXiv:2404.14219,
// arXiv:2503.01743, and the model cards of the others; names follow the Hugging Face checkpoints. What is a factor of 1
// or absent in Llama is in `LlamaVariant`.

package import Compute

/// Pre-norm decoder with grouped-query attention and a SwiGLU MLP, or several to choose from.
package final class Llama: CausalModel {
  private struct Layer {
    let inputNorm, postAttentionNorm: [Float]  // [hidden]; the second is the norm before the MLP
    let attention: SelfAttention
    let mlp: FeedForward
  }

  private let frame: DecoderFrame
  private let variant: LlamaVariant
  private let layers: [Layer]

  init(_ type: String, _ config: ConfigFields, _ checkpoint: LayerLoader) throws(ModelError) {
    let usual = LlamaVariant.defaults(type)
    let sizes = try DecoderSizes(config, contextLength: usual.contextLength, tied: false)
    let variant = try LlamaVariant(type, config, sizes: sizes)
    let rope = try RoPEScaling(config, sizes: sizes, theta: usual.theta)
    let frame = try DecoderFrame(sizes, rope: rope, checkpoint)
    layers = try frame.layers { index, weights throws(ModelError) in
      var shape = sizes.attention(window: variant.windows[index])
      shape.scale = variant.scoreScale
      return Layer(
        inputNorm: try weights.norm("input_layernorm", sizes.hidden),
        postAttentionNorm: try weights.norm("post_attention_layernorm", sizes.hidden),
        attention: try SelfAttention(
          shape, layer: index, rope: variant.rotates[index] ? frame.rope : nil,
          .init(bias: variant.biases.qkv, outputBias: variant.biases.output), frame, weights.at("self_attn")),
        mlp: try Self.mlp(variant, sizes, weights))
    }
    self.variant = variant
    self.frame = frame
  }

  private static func mlp(
    _ variant: LlamaVariant, _ sizes: DecoderSizes, _ weights: LayerLoader
  ) throws(ModelError) -> FeedForward {
    guard let experts = variant.experts else {
      return try .dense(sizes.hidden, sizes.intermediate, bias: variant.biases.mlp, weights.at("mlp"))
    }
    return .experts(
      try Experts(
        experts, hidden: sizes.hidden, weighting: .chosen, single: (gate: "w1", up: "w3", down: "w2"),
        weights.at("block_sparse_moe")))
  }

  package var vocabularySize: Int { frame.sizes.vocabulary }
  package var contextLength: Int { frame.sizes.contextLength }
  package var cacheShape: [LayerCache] { layers.compactMap(\.attention.cacheShape) }
  package var weightBytesPerToken: Int {
    layers.reduce(frame.headBytes) { $0 + $1.attention.byteCount + $1.mlp.byteCount }
  }
  package func ropeVariant(forTokens tokens: Int) -> Int { frame.ropeVariant(forTokens: tokens) }

  package func forward(_ batch: Batch, cache: KVCache, logits: inout Logits) {
    let (compute, epsilon) = (frame.compute, frame.sizes.epsilon)
    var step = frame.begin(batch, cache: cache)
    step.queryFactors = variant.queryFactors(batch)
    var (x, h) = (step.embeddings, frame.hidden)
    if variant.embeddingScale != 1 { compute.scale(x, by: variant.embeddingScale) }
    for layer in layers {
      // x += o(attend(rope(q), rope(k), v)) of norm(x)
      compute.rmsNorm(x, gain: layer.inputNorm, epsilon: epsilon, into: h)
      layer.attention(&h, beside: &x, step)
      addBranch(h, to: x)
      // x += mlp(norm(x))
      compute.rmsNorm(x, gain: layer.postAttentionNorm, epsilon: epsilon, into: h)
      layer.mlp(h, frame)
      addBranch(h, to: x)
      batch.afterLayer?(x)
    }
    let out = frame.project(x, into: &logits)
    if variant.logitScale != 1 { compute.scale(out, by: variant.logitScale) }
  }

  private func addBranch(_ h: Rows, to x: Rows) {
    if variant.residualScale != 1 { frame.compute.scale(h, by: variant.residualScale) }
    frame.compute.add(h, to: x)
  }
}
