// Gemma 3, text: sandwich norms with gain 1 + w, scaled embeddings, sliding layers with a RoPE of their own.
//
// Source: arXiv:2503.19786; names follow the Hugging Face checkpoints.

package import Compute

/// Decoder with norms before and after attention and MLP, normalised heads, and a GELU-gated MLP.
package final class Gemma3: CausalModel {
  private struct Layer {
    let inputNorm, postAttentionNorm: [Float]  // [hidden], around attention
    let preFeedforwardNorm, postFeedforwardNorm: [Float]  // [hidden], around the MLP
    let attention: SelfAttention
    let mlp: FeedForward
  }

  private let frame: DecoderFrame
  /// Of the sliding layers; the frame's is that of the full ones.
  private let localRope: RoPE
  private let embeddingScale: Float
  private let softcap: Float?
  private let layers: [Layer]

  init(_ config: ConfigFields, _ checkpoint: LayerLoader) throws(ModelError) {
    try Self.refuseWhatIsMissing(config)
    // The released configs of the multimodal sizes leave these out.
    let sizes = try DecoderSizes(
      config, contextLength: 131_072, tied: false,
      defaults: .init(
        heads: 8, kvHeads: 4, headDim: 256, vocabulary: 262_208, activations: ["gelu_pytorch_tanh"]))
    let shapes = try Self.shapes(config, sizes)
    let bias = try config.bool("attention_bias", default: false)
    let rope = try RoPEScaling(config, sizes: sizes, theta: 1_000_000)
    let localRope = RoPE(variants: try Self.localFrequencies(config, sizes: sizes).variants)
    var checkpoint = checkpoint
    checkpoint.normOffset = 1
    let frame = try DecoderFrame(sizes, rope: rope, checkpoint)
    layers = try frame.layers { index, weights throws(ModelError) in
      func norm(_ name: String) throws(ModelError) -> [Float] { try weights.norm(name, sizes.hidden) }
      return Layer(
        inputNorm: try norm("input_layernorm"), postAttentionNorm: try norm("post_attention_layernorm"),
        preFeedforwardNorm: try norm("pre_feedforward_layernorm"),
        postFeedforwardNorm: try norm("post_feedforward_layernorm"),
        attention: try SelfAttention(
          shapes[index], layer: index, rope: shapes[index].window == nil ? frame.rope : localRope,
          .init(normsHeads: true, bias: bias, outputBias: bias), frame, weights.at("self_attn")),
        mlp: try .dense(sizes.hidden, sizes.intermediate, activation: .gelu, weights.at("mlp")))
    }
    embeddingScale = gemmaEmbeddingScale(width: sizes.hidden)
    softcap = try gemmaSoftcap(config)
    self.localRope = localRope
    self.frame = frame
  }

  /// Every sixth layer sees everything, or as config.json says.
  private static func shapes(
    _ config: ConfigFields, _ sizes: DecoderSizes
  ) throws(ModelError) -> [AttentionShape] {
    let key = config.has("_sliding_window_pattern") ? "_sliding_window_pattern" : "sliding_window_pattern"
    let pattern = try config.int(key, in: 1...1024, default: 6)
    let sliding = try sizes.slidingLayers(config) { ($0 + 1) % pattern != 0 }
    let window = sliding.contains(true) ? try config.int("sliding_window", in: 1...1 << 40) : nil
    let scale = 1 / Float(try config.double("query_pre_attn_scalar", in: 1...1e6, default: 256)).squareRoot()
    return sliding.map { slides in
      var shape = sizes.attention(window: slides ? window : nil)
      shape.scale = scale
      return shape
    }
  }

  static func refuseWhatIsMissing(_ config: ConfigFields) throws(ModelError) {
    // EmbeddingGemma has the same model_type.
    if try config.bool("use_bidirectional_attention", default: false) {
      throw .unsupportedSetting(key: "use_bidirectional_attention", value: "true", supported: "false")
    }
    if config.has("attn_logit_softcapping") {
      throw .unsupportedSetting(key: "attn_logit_softcapping", value: "a number", supported: "null")
    }
  }

  /// Sliding layers are not scaled: their positions are never far apart.
  static func localFrequencies(
    _ config: ConfigFields, sizes: DecoderSizes
  ) throws(ModelError) -> RoPEScaling {
    if try config.object("rope_parameters")?.has("sliding_attention") ?? false {
      return try RoPEScaling(config, sizes: sizes, theta: 10_000, layerType: "sliding_attention")
    }
    let theta = try config.double("rope_local_base_freq", in: 2...1e15, default: 10_000)
    return RoPEScaling(theta: theta, headDim: sizes.headDim)
  }

  package var vocabularySize: Int { frame.sizes.vocabulary }
  package var contextLength: Int { frame.sizes.contextLength }
  package var cacheShape: [LayerCache] { layers.compactMap(\.attention.cacheShape) }
  package var weightBytesPerToken: Int {
    layers.reduce(frame.headBytes) { $0 + $1.attention.byteCount + $1.mlp.byteCount }
  }
  package func ropeVariant(forTokens tokens: Int) -> Int { 0 }

  package func forward(_ batch: Batch, cache: KVCache, logits: inout Logits) {
    let (compute, epsilon) = (frame.compute, frame.sizes.epsilon)
    let step = frame.begin(batch, cache: cache)
    localRope.prepare(step.layout)
    var (x, h) = (step.embeddings, frame.hidden)
    compute.scale(x, by: embeddingScale)
    for layer in layers {
      // x += norm(o(attend(rope(norm(q)), rope(norm(k)), v))) of norm(x)
      compute.rmsNorm(x, gain: layer.inputNorm, epsilon: epsilon, into: h)
      layer.attention(&h, beside: &x, step)
      compute.rmsNorm(h, gain: layer.postAttentionNorm, epsilon: epsilon, into: h)
      compute.add(h, to: x)
      // x += norm(down(gelu(gate) · up)) of norm(x)
      compute.rmsNorm(x, gain: layer.preFeedforwardNorm, epsilon: epsilon, into: h)
      layer.mlp(h, frame)
      compute.rmsNorm(h, gain: layer.postFeedforwardNorm, epsilon: epsilon, into: h)
      compute.add(h, to: x)
      batch.afterLayer?(x)
    }
    let out = frame.project(x, into: &logits)
    if let softcap { compute.softcap(out, at: softcap) }
  }
}

/// What Gemma's embeddings are multiplied by: √width, rounded to bfloat16 as in the checkpoints' training.
func gemmaEmbeddingScale(width: Int) -> Float {
  let bits = Float(width).squareRoot().bitPattern
  return Float(bitPattern: (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF_0000)
}

/// The bound of the logits, where config.json gives one.
func gemmaSoftcap(_ config: ConfigFields) throws(ModelError) -> Float? {
  let key = "final_logit_softcapping"
  return config.has(key) ? Float(try config.double(key, in: 1e-3...1e6)) : nil
}
