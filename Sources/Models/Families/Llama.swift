// Llama 2 and 3.x, and what shares their layers: Mistral, Mixtral, Ministral 3, SmolLM2 and 3, Granite 3.
//
// Sources: arXiv:2302.13971, arXiv:2407.21783, arXiv:2310.06825, arXiv:2401.04088, and the model cards of the
// others; names follow the Hugging Face checkpoints. What is a factor of 1 or absent in Llama is in `LlamaVariant`.

import Checkpoint
package import Compute

/// Pre-norm decoder with grouped-query attention and a SwiGLU MLP, or several to choose from.
package final class Llama: CausalModel {
  private struct Layer {
    let inputNorm, postAttentionNorm: [Float]  // [hidden]; the second is the norm before the MLP
    let qkv: Linear  // [hidden] → [q | k | v]
    let o: Linear  // [heads · headDim] → [hidden]
    let mlp: FeedForward
    let attention: AttentionShape
  }

  private let frame: DecoderFrame
  private let scaling: RoPEScaling
  private let variant: LlamaVariant
  private let layers: [Layer]
  package let weightBytesPerToken: Int

  /// Factors of the step's queries.
  private var queryFactors: [Float] = []

  init(
    _ type: String, _ config: ConfigFields, weights: WeightMap, compute: ComputeContext
  ) throws(ModelError) {
    let sizes = try DecoderSizes(config, contextLength: 2048, tied: false)
    let variant = try LlamaVariant(type, config, sizes: sizes)
    let attentionBias = try config.bool("attention_bias", default: false)
    let mlpBias = try config.bool("mlp_bias", default: false)
    scaling = try RoPEScaling(config, sizes: sizes, theta: 10_000)
    frame = try DecoderFrame(
      sizes, rope: RoPE(variants: scaling.variants), weights: weights, compute: compute)

    var layers: [Layer] = []
    var bytes = frame.headBytes
    for index in 0..<sizes.layers {
      let map = frame.layerWeights[index]
      let attention = map.at("self_attn")
      let layer = Layer(
        inputNorm: try DecoderFrame.vector("input_layernorm.weight", count: sizes.hidden, at: map),
        postAttentionNorm: try DecoderFrame.vector(
          "post_attention_layernorm.weight", count: sizes.hidden, at: map),
        qkv: try Linear(
          ["q_proj": sizes.queryWidth, "k_proj": sizes.keyWidth, "v_proj": sizes.keyWidth],
          columns: sizes.hidden, bias: attentionBias, at: attention, compute: compute),
        o: try Linear(
          ["o_proj": sizes.hidden], columns: sizes.queryWidth, bias: attentionBias, at: attention,
          compute: compute),
        mlp: try Self.mlp(variant, sizes, bias: mlpBias, at: map, compute: compute),
        attention: AttentionShape(
          heads: sizes.heads, kvHeads: sizes.kvHeads, headDim: sizes.headDim, scale: variant.scoreScale,
          window: variant.windows[index]))
      bytes += layer.qkv.byteCount + layer.o.byteCount + layer.mlp.byteCount
      layers.append(layer)
    }
    self.variant = variant
    self.layers = layers
    weightBytesPerToken = bytes
  }

  private static func mlp(
    _ variant: LlamaVariant, _ sizes: DecoderSizes, bias: Bool, at map: WeightMap, compute: ComputeContext
  ) throws(ModelError) -> FeedForward {
    guard let experts = variant.experts else {
      return try .dense(sizes, bias: bias, at: map.at("mlp"), compute: compute)
    }
    return .experts(
      try Experts(
        experts, hidden: sizes.hidden, weighting: .chosen, at: map.at("block_sparse_moe"),
        single: (gate: "w1", up: "w3", down: "w2"), compute: compute))
  }

  package var vocabularySize: Int { frame.sizes.vocabulary }
  package var contextLength: Int { frame.sizes.contextLength }
  package var cacheShape: [LayerCache] { layers.map { _ in frame.sizes.cacheShape } }
  package func ropeVariant(forTokens tokens: Int) -> Int { scaling.variant(forTokens: tokens) }

  package func forward(_ batch: Batch, cache: KVCache, logits: inout Logits) {
    let (compute, sizes) = (frame.compute, frame.sizes)
    var x = frame.begin(batch, cache: cache)
    if variant.embeddingScale != 1 { compute.scale(x, by: variant.embeddingScale) }
    findQueryFactors(batch)
    var (h, attended) = (frame.hidden, frame.attention)
    let qkv = frame.queriesKeysValues
    let q = qkv.columns(from: 0, count: sizes.queryWidth)
    let k = qkv.columns(from: sizes.queryWidth, count: sizes.keyWidth)
    let v = qkv.columns(from: sizes.queryWidth + sizes.keyWidth, count: sizes.keyWidth)

    for (index, layer) in layers.enumerated() {
      // x += o(attend(rope(q), rope(k), v)) of norm(x)
      compute.rmsNorm(x, gain: layer.inputNorm, epsilon: sizes.epsilon, into: h)
      layer.qkv(h, into: qkv)
      if variant.rotates[index] {
        compute.rotate(q, headDim: sizes.headDim, by: frame.rope)
        compute.rotate(k, headDim: sizes.headDim, by: frame.rope)
      }
      if !queryFactors.isEmpty { compute.scaleRows(q, by: queryFactors) }
      compute.attend(
        q, adding: (k, v), shape: layer.attention, layer: index, of: cache, at: frame.layout, into: attended)
      if index == layers.count - 1 { (x, attended, h) = frame.keepChosen(batch, x, attended, h) }
      layer.o(attended, into: h)
      addBranch(h, to: x)
      // x += mlp(norm(x))
      compute.rmsNorm(x, gain: layer.postAttentionNorm, epsilon: sizes.epsilon, into: h)
      layer.mlp(h, frame)
      addBranch(h, to: x)
    }
    let out = frame.project(x, into: &logits)
    if variant.logitScale != 1 { compute.scale(out, by: variant.logitScale) }
  }

  private func addBranch(_ h: Rows, to x: Rows) {
    if variant.residualScale != 1 { frame.compute.scale(h, by: variant.residualScale) }
    frame.compute.add(h, to: x)
  }

  private func findQueryFactors(_ batch: Batch) {
    guard let growth = variant.queryGrowth else { return }
    queryFactors.removeAll(keepingCapacity: true)
    for span in batch.spans {
      for index in span.tokens.indices { queryFactors.append(growth.factor(at: span.start + index)) }
    }
  }
}
