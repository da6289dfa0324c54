// Qwen2 and Qwen2.5 dense decoders: Llama's layers with biases on q, k and v.
//
// Sources: arXiv:2407.10671, arXiv:2412.15115; names follow the Hugging Face checkpoints.

import Checkpoint
package import Compute

/// Pre-norm decoder with grouped-query attention, biased q, k, v, and a SwiGLU MLP.
package final class Qwen2: CausalModel {
  private struct Layer {
    let inputNorm, postAttentionNorm: [Float]  // [hidden]; the second is the norm before the MLP
    let qkv: Linear  // [hidden] → [q | k | v]
    let o: Linear  // [heads · headDim] → [hidden]
    let mlp: FeedForward
    let attention: AttentionShape
  }

  private let frame: DecoderFrame
  private let scaling: RoPEScaling
  private let layers: [Layer]
  package let weightBytesPerToken: Int

  init(_ config: ConfigFields, weights: WeightMap, compute: ComputeContext) throws(ModelError) {
    let sizes = try DecoderSizes(config, contextLength: 32_768, tied: false)
    // Released configs carry a sliding_window that use_sliding_window switches off.
    let slides = try config.bool("use_sliding_window", default: false)
    let fullLayers = slides ? try config.int("max_window_layers", in: 0...1024, default: 28) : Int.max
    let windows = try sizes.windows(config) { $0 >= fullLayers }
    scaling = try RoPEScaling(config, sizes: sizes, theta: 1_000_000)
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
          columns: sizes.hidden, bias: true, at: attention, compute: compute),
        o: try Linear(
          ["o_proj": sizes.hidden], columns: sizes.queryWidth, at: attention, compute: compute),
        mlp: try .dense(sizes, at: map.at("mlp"), compute: compute),
        attention: sizes.attention(window: windows[index]))
      bytes += layer.qkv.byteCount + layer.o.byteCount + layer.mlp.byteCount
      layers.append(layer)
    }
    self.layers = layers
    weightBytesPerToken = bytes
  }

  package var vocabularySize: Int { frame.sizes.vocabulary }
  package var contextLength: Int { frame.sizes.contextLength }
  package var cacheShape: [LayerCache] { layers.map { _ in frame.sizes.cacheShape } }
  package func ropeVariant(forTokens tokens: Int) -> Int { scaling.variant(forTokens: tokens) }

  package func forward(_ batch: Batch, cache: KVCache, logits: inout Logits) {
    let (compute, sizes) = (frame.compute, frame.sizes)
    var x = frame.begin(batch, cache: cache)
    var (h, attended) = (frame.hidden, frame.attention)
    let qkv = frame.queriesKeysValues
    let q = qkv.columns(from: 0, count: sizes.queryWidth)
    let k = qkv.columns(from: sizes.queryWidth, count: sizes.keyWidth)
    let v = qkv.columns(from: sizes.queryWidth + sizes.keyWidth, count: sizes.keyWidth)

    for (index, layer) in layers.enumerated() {
      // x += o(attend(rope(q), rope(k), v)) of norm(x)
      compute.rmsNorm(x, gain: layer.inputNorm, epsilon: sizes.epsilon, into: h)
      layer.qkv(h, into: qkv)
      compute.rotate(q, headDim: sizes.headDim, by: frame.rope)
      compute.rotate(k, headDim: sizes.headDim, by: frame.rope)
      compute.attend(
        q, adding: (k, v), shape: layer.attention, layer: index, of: cache, at: frame.layout, into: attended)
      if index == layers.count - 1 { (x, attended, h) = frame.keepChosen(batch, x, attended, h) }
      layer.o(attended, into: h)
      compute.add(h, to: x)
      // x += mlp(norm(x))
      compute.rmsNorm(x, gain: layer.postAttentionNorm, epsilon: sizes.epsilon, into: h)
      layer.mlp(h, frame)
      compute.add(h, to: x)
    }
    frame.project(x, into: &logits)
  }
}
