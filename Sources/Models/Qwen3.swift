// Qwen3 dense decoders: Llama's layers with a norm of each query and key head before RoPE.
//
// Source: arXiv:2505.09388; names follow the Hugging Face checkpoints.

import Checkpoint
package import Compute

/// Pre-norm decoder with grouped-query attention, normalised heads, and a SwiGLU MLP.
package final class Qwen3: CausalModel {
  private struct Layer {
    let inputNorm, postAttentionNorm: [Float]  // [hidden]; the second is the norm before the MLP
    let qNorm, kNorm: [Float]  // [headDim], shared by the heads
    let qkv: Linear  // [hidden] → [q | k | v]
    let o: Linear  // [heads · headDim] → [hidden]
    let gateUp: Linear  // [hidden] → [gate | up]
    let down: Linear  // [intermediate] → [hidden]
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
    let attentionBias = try config.bool("attention_bias", default: false)
    scaling = try RoPEScaling(config, sizes: sizes, theta: 1_000_000)
    frame = try DecoderFrame(
      sizes, rope: RoPE(variants: scaling.variants), weights: weights, compute: compute)

    var layers: [Layer] = []
    var bytes = frame.headBytes
    for index in 0..<sizes.layers {
      let map = frame.layerWeights[index]
      let attention = map.at("self_attn")
      let mlp = map.at("mlp")
      let layer = Layer(
        inputNorm: try DecoderFrame.vector("input_layernorm.weight", count: sizes.hidden, at: map),
        postAttentionNorm: try DecoderFrame.vector(
          "post_attention_layernorm.weight", count: sizes.hidden, at: map),
        qNorm: try DecoderFrame.vector("q_norm.weight", count: sizes.headDim, at: attention),
        kNorm: try DecoderFrame.vector("k_norm.weight", count: sizes.headDim, at: attention),
        qkv: try Linear(
          ["q_proj": sizes.queryWidth, "k_proj": sizes.keyWidth, "v_proj": sizes.keyWidth],
          columns: sizes.hidden, bias: attentionBias, at: attention, compute: compute),
        o: try Linear(
          ["o_proj": sizes.hidden], columns: sizes.queryWidth, bias: attentionBias, at: attention,
          compute: compute),
        gateUp: try Linear(
          ["gate_proj": sizes.intermediate, "up_proj": sizes.intermediate],
          columns: sizes.hidden, at: mlp, compute: compute),
        down: try Linear(
          ["down_proj": sizes.hidden], columns: sizes.intermediate, at: mlp, compute: compute),
        attention: sizes.attention(window: windows[index]))
      bytes += layer.qkv.byteCount + layer.o.byteCount + layer.gateUp.byteCount + layer.down.byteCount
      layers.append(layer)
    }
    self.layers = layers
    weightBytesPerToken = bytes
  }

  package var vocabularySize: Int { frame.sizes.vocabulary }
  package var contextLength: Int { frame.sizes.contextLength }
  package var cacheShape: [KVLayerShape] { layers.map { _ in frame.sizes.cacheShape } }
  package func ropeVariant(forTokens tokens: Int) -> Int { scaling.variant(forTokens: tokens) }

  package func forward(_ batch: Batch, cache: KVCache, logits: inout Logits) {
    let (compute, sizes) = (frame.compute, frame.sizes)
    let x = frame.begin(batch, cache: cache)
    let (h, qkv, attended, gateUp) = (frame.hidden, frame.queriesKeysValues, frame.attention, frame.gateUp)
    let q = qkv.columns(from: 0, count: sizes.queryWidth)
    let k = qkv.columns(from: sizes.queryWidth, count: sizes.keyWidth)
    let v = qkv.columns(from: sizes.queryWidth + sizes.keyWidth, count: sizes.keyWidth)
    let gate = gateUp.columns(from: 0, count: sizes.intermediate)
    let up = gateUp.columns(from: sizes.intermediate, count: sizes.intermediate)

    for (index, layer) in layers.enumerated() {
      // x += o(attend(rope(norm(q)), rope(norm(k)), v)) of norm(x)
      compute.rmsNorm(x, gain: layer.inputNorm, epsilon: sizes.epsilon, into: h)
      layer.qkv(h, into: qkv)
      compute.rmsNormHeads(q, gain: layer.qNorm, epsilon: sizes.epsilon)
      compute.rmsNormHeads(k, gain: layer.kNorm, epsilon: sizes.epsilon)
      compute.rotate(q, headDim: sizes.headDim, by: frame.rope)
      compute.rotate(k, headDim: sizes.headDim, by: frame.rope)
      compute.store(keys: k, values: v, layer: index, of: cache, at: frame.layout)
      compute.attend(q, shape: layer.attention, layer: index, of: cache, at: frame.layout, into: attended)
      layer.o(attended, into: h)
      compute.add(h, to: x)
      // x += down(silu(gate) · up) of norm(x)
      compute.rmsNorm(x, gain: layer.postAttentionNorm, epsilon: sizes.epsilon, into: h)
      layer.gateUp(h, into: gateUp)
      compute.gatedSilu(gate, up, into: gate)
      layer.down(gate, into: h)
      compute.add(h, to: x)
    }
    frame.finish(x, batch, into: &logits)
  }
}
