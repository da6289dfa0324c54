// Qwen3, dense and with experts: Llama's layers with a norm of each query and key head before RoPE.
//
// Source: arXiv:2505.09388; names follow the Hugging Face checkpoints.

import Checkpoint
package import Compute

/// Pre-norm decoder with grouped-query attention, normalised heads, and a SwiGLU MLP or several to choose from.
package final class Qwen3: CausalModel {
  private struct Layer {
    let inputNorm, postAttentionNorm: [Float]  // [hidden]; the second is the norm before the MLP
    let qNorm, kNorm: [Float]  // [headDim], shared by the heads
    let qkv: Linear  // [hidden] → [q | k | v]
    let o: Linear  // [heads · headDim] → [hidden]
    let mlp: FeedForward
    let attention: AttentionShape
  }

  private let frame: DecoderFrame
  private let scaling: RoPEScaling
  private let layers: [Layer]
  package let weightBytesPerToken: Int

  /// - Parameter sparse: whether layers have experts (`qwen3_moe`).
  init(
    _ config: ConfigFields, weights: WeightMap, compute: ComputeContext, sparse: Bool = false
  ) throws(ModelError) {
    let sizes = try DecoderSizes(config, contextLength: 32_768, tied: false)
    // Released configs carry a sliding_window that use_sliding_window switches off.
    let slides = try config.bool("use_sliding_window", default: false)
    let fullLayers = slides ? try config.int("max_window_layers", in: 0...1024, default: 28) : Int.max
    let windows = try sizes.windows(config) { $0 >= fullLayers }
    let attentionBias = try config.bool("attention_bias", default: false)
    let experts = sparse ? try Qwen3Experts(config) : nil
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
        qNorm: try DecoderFrame.vector("q_norm.weight", count: sizes.headDim, at: attention),
        kNorm: try DecoderFrame.vector("k_norm.weight", count: sizes.headDim, at: attention),
        qkv: try Linear(
          ["q_proj": sizes.queryWidth, "k_proj": sizes.keyWidth, "v_proj": sizes.keyWidth],
          columns: sizes.hidden, bias: attentionBias, at: attention, compute: compute),
        o: try Linear(
          ["o_proj": sizes.hidden], columns: sizes.queryWidth, bias: attentionBias, at: attention,
          compute: compute),
        mlp: try Self.mlp(index, experts, sizes, at: map.at("mlp"), compute: compute),
        attention: sizes.attention(window: windows[index]))
      bytes += layer.qkv.byteCount + layer.o.byteCount + layer.mlp.byteCount
      layers.append(layer)
    }
    self.layers = layers
    weightBytesPerToken = bytes
  }

  private static func mlp(
    _ index: Int, _ experts: Qwen3Experts?, _ sizes: DecoderSizes, at map: WeightMap, compute: ComputeContext
  ) throws(ModelError) -> FeedForward {
    guard let experts, experts.has(index) else { return try .dense(sizes, at: map, compute: compute) }
    return .experts(
      try Experts(
        experts.sizes, hidden: sizes.hidden, weighting: experts.weighting, at: map, compute: compute))
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
      // x += o(attend(rope(norm(q)), rope(norm(k)), v)) of norm(x)
      compute.rmsNorm(x, gain: layer.inputNorm, epsilon: sizes.epsilon, into: h)
      layer.qkv(h, into: qkv)
      compute.rmsNormHeads(q, gain: layer.qNorm, epsilon: sizes.epsilon)
      compute.rmsNormHeads(k, gain: layer.kNorm, epsilon: sizes.epsilon)
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

/// What config.json says about the experts of `qwen3_moe`.
private struct Qwen3Experts {
  let sizes: Experts.Sizes
  let weighting: ExpertWeighting
  /// Every so many layers have experts, but for those of `dense`.
  private let step: Int
  private let dense: Set<Int>

  init(_ config: ConfigFields) throws(ModelError) {
    // Transformers 5 writes the second name.
    let count = config.has("num_local_experts") ? "num_local_experts" : "num_experts"
    sizes = try Experts.Sizes(
      config, count: count, perRow: "num_experts_per_tok", intermediate: "moe_intermediate_size")
    weighting = try config.bool("norm_topk_prob", default: false) ? .chosen : .all
    step = try config.int("decoder_sparse_step", in: 1...1024, default: 1)
    dense = Set(try config.ints("mlp_only_layers", in: 0...1024))
  }

  /// Whether a layer has experts.
  func has(_ layer: Int) -> Bool { (layer + 1) % step == 0 && !dense.contains(layer) }
}
