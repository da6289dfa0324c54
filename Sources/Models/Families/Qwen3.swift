// Qwen3, dense and with experts: Llama's layers with a norm of each query and key head before RoPE.
//
// Source: arXiv:2505.09388; names follow the Hugging Face checkpoints.

package import Compute

/// Pre-norm decoder with grouped-query attention, normalised heads, and a SwiGLU MLP or several to choose from.
package final class Qwen3: CausalModel {
  private struct Layer {
    let inputNorm, postAttentionNorm: [Float]  // [hidden]; the second is the norm before the MLP
    let attention: SelfAttention
    let mlp: FeedForward
  }

  private let frame: DecoderFrame
  private let layers: [Layer]

  /// - Parameter sparse: whether layers have experts (`qwen3_moe`).
  init(_ config: ConfigFields, sparse: Bool = false, _ checkpoint: LayerLoader) throws(ModelError) {
    let sizes = try DecoderSizes(config, contextLength: 32_768, tied: false)
    let windows = try Self.windows(config, sizes)
    let bias = try config.bool("attention_bias", default: false)
    let experts = sparse ? try Qwen3Experts(config) : nil
    let rope = try RoPEScaling(config, sizes: sizes, theta: 1_000_000)
    let frame = try DecoderFrame(sizes, rope: rope, checkpoint)
    layers = try frame.layers { index, weights throws(ModelError) in
      Layer(
        inputNorm: try weights.norm("input_layernorm", sizes.hidden),
        postAttentionNorm: try weights.norm("post_attention_layernorm", sizes.hidden),
        attention: try SelfAttention(
          sizes.attention(window: windows[index]), layer: index, rope: frame.rope,
          .init(normsHeads: true, bias: bias, outputBias: bias), frame, weights.at("self_attn")),
        mlp: try Self.mlp(index, experts, sizes, weights.at("mlp")))
    }
    self.frame = frame
  }

  /// Released configs carry a sliding_window that use_sliding_window switches off; so do those of Qwen2.
  static func windows(_ config: ConfigFields, _ sizes: DecoderSizes) throws(ModelError) -> [Int?] {
    let slides = try config.bool("use_sliding_window", default: false)
    let fullLayers = slides ? try config.int("max_window_layers", in: 0...1024, default: 28) : Int.max
    return try sizes.windows(config) { $0 >= fullLayers }
  }

  private static func mlp(
    _ index: Int, _ experts: Qwen3Experts?, _ sizes: DecoderSizes, _ weights: LayerLoader
  ) throws(ModelError) -> FeedForward {
    guard let experts, experts.has(index) else {
      return try .dense(sizes.hidden, sizes.intermediate, weights)
    }
    return .experts(
      try Experts(experts.sizes, hidden: sizes.hidden, weighting: experts.weighting, weights))
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
    let step = frame.begin(batch, cache: cache)
    var (x, h) = (step.embeddings, frame.hidden)
    for layer in layers {
      // x += o(attend(rope(norm(q)), rope(norm(k)), v)) of norm(x)
      compute.rmsNorm(x, gain: layer.inputNorm, epsilon: epsilon, into: h)
      layer.attention(&h, beside: &x, step)
      compute.add(h, to: x)
      // x += mlp(norm(x))
      compute.rmsNorm(x, gain: layer.postAttentionNorm, epsilon: epsilon, into: h)
      layer.mlp(h, frame)
      compute.add(h, to: x)
      batch.afterLayer?(x)
    }
    frame.project(x, into: &logits)
  }
}

/// What config.json says about the experts of `qwen3_moe`.
private struct Qwen3Experts {
  let sizes: Experts.Sizes
  let weighting: ExpertWeighting
  /// The distance of layers with experts, but for those of `dense`.
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
