// Gemma 3, text: sandwich norms with gain 1 + w, scaled embeddings, sliding layers with a RoPE of their own.
//
// Source: arXiv:2503.19786; names follow the Hugging Face checkpoints.

import Checkpoint
package import Compute

/// Decoder with norms before and after attention and MLP, normalised heads, and a GELU-gated MLP.
package final class Gemma3: CausalModel {
  private struct Layer {
    let inputNorm, postAttentionNorm: [Float]  // [hidden], around attention
    let preFeedforwardNorm, postFeedforwardNorm: [Float]  // [hidden], around the MLP
    let qNorm, kNorm: [Float]  // [headDim], shared by the heads
    let qkv: Linear  // [hidden] → [q | k | v]
    let o: Linear  // [heads · headDim] → [hidden]
    let gateUp: Linear  // [hidden] → [gate | up]
    let down: Linear  // [intermediate] → [hidden]
    let attention: AttentionShape
  }

  private let frame: DecoderFrame
  /// Of the sliding layers; the frame's is that of the full ones.
  private let localRope: RoPE
  private let embeddingScale: Float
  private let softcap: Float?
  private let layers: [Layer]
  package let weightBytesPerToken: Int

  init(_ config: ConfigFields, weights: WeightMap, compute: ComputeContext) throws(ModelError) {
    try Self.refuseWhatIsMissing(config)
    // The released configs of the multimodal sizes leave these out.
    let sizes = try DecoderSizes(
      config, contextLength: 131_072, tied: false,
      defaults: .init(
        heads: 8, kvHeads: 4, headDim: 256, vocabulary: 262_208, activations: ["gelu_pytorch_tanh"]))
    let patternKey =
      config.has("_sliding_window_pattern") ? "_sliding_window_pattern" : "sliding_window_pattern"
    let pattern = try config.int(patternKey, in: 1...1024, default: 6)
    let sliding = try sizes.slidingLayers(config) { ($0 + 1) % pattern != 0 }
    let window = sliding.contains(true) ? try config.int("sliding_window", in: 1...1 << 40) : nil
    let scale = 1 / Float(try config.double("query_pre_attn_scalar", in: 1...1e6, default: 256)).squareRoot()
    let attentionBias = try config.bool("attention_bias", default: false)
    let rope = try RoPEScaling(config, sizes: sizes, theta: 1_000_000)
    localRope = RoPE(variants: try Self.localFrequencies(config, sizes: sizes).variants)
    frame = try DecoderFrame(
      sizes, rope: RoPE(variants: rope.variants), weights: weights, compute: compute, normOffset: 1)
    embeddingScale = gemmaEmbeddingScale(width: sizes.hidden)
    softcap = try gemmaSoftcap(config)

    var layers: [Layer] = []
    var bytes = frame.headBytes
    for index in 0..<sizes.layers {
      let map = frame.layerWeights[index]
      let attention = map.at("self_attn")
      let mlp = map.at("mlp")
      func norm(_ name: String, _ count: Int, _ map: WeightMap) throws(ModelError) -> [Float] {
        try DecoderFrame.vector(name + ".weight", count: count, at: map, offset: 1)
      }
      let layer = Layer(
        inputNorm: try norm("input_layernorm", sizes.hidden, map),
        postAttentionNorm: try norm("post_attention_layernorm", sizes.hidden, map),
        preFeedforwardNorm: try norm("pre_feedforward_layernorm", sizes.hidden, map),
        postFeedforwardNorm: try norm("post_feedforward_layernorm", sizes.hidden, map),
        qNorm: try norm("q_norm", sizes.headDim, attention),
        kNorm: try norm("k_norm", sizes.headDim, attention),
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
        attention: AttentionShape(
          heads: sizes.heads, kvHeads: sizes.kvHeads, headDim: sizes.headDim, scale: scale,
          window: sliding[index] ? window : nil))
      bytes += layer.qkv.byteCount + layer.o.byteCount + layer.gateUp.byteCount + layer.down.byteCount
      layers.append(layer)
    }
    self.layers = layers
    weightBytesPerToken = bytes
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
  package var cacheShape: [LayerCache] { layers.map { _ in frame.sizes.cacheShape } }
  package func ropeVariant(forTokens tokens: Int) -> Int { 0 }

  package func forward(_ batch: Batch, cache: KVCache, logits: inout Logits) {
    let (compute, sizes) = (frame.compute, frame.sizes)
    var x = frame.begin(batch, cache: cache)
    localRope.prepare(frame.layout)
    compute.scale(x, by: embeddingScale)
    var (h, attended) = (frame.hidden, frame.attention)
    let qkv = frame.queriesKeysValues
    let q = qkv.columns(from: 0, count: sizes.queryWidth)
    let k = qkv.columns(from: sizes.queryWidth, count: sizes.keyWidth)
    let v = qkv.columns(from: sizes.queryWidth + sizes.keyWidth, count: sizes.keyWidth)

    for (index, layer) in layers.enumerated() {
      let rope = layer.attention.window == nil ? frame.rope : localRope
      // x += norm(o(attend(rope(norm(q)), rope(norm(k)), v))) of norm(x)
      compute.rmsNorm(x, gain: layer.inputNorm, epsilon: sizes.epsilon, into: h)
      layer.qkv(h, into: qkv)
      compute.rmsNormHeads(q, gain: layer.qNorm, epsilon: sizes.epsilon)
      compute.rmsNormHeads(k, gain: layer.kNorm, epsilon: sizes.epsilon)
      compute.rotate(q, headDim: sizes.headDim, by: rope)
      compute.rotate(k, headDim: sizes.headDim, by: rope)
      compute.attend(
        q, adding: (k, v), shape: layer.attention, layer: index, of: cache, at: frame.layout, into: attended)
      if index == layers.count - 1 { (x, attended, h) = frame.keepChosen(batch, x, attended, h) }
      layer.o(attended, into: h)
      compute.rmsNorm(h, gain: layer.postAttentionNorm, epsilon: sizes.epsilon, into: h)
      compute.add(h, to: x)
      // x += norm(down(gelu(gate) · up)) of norm(x)
      compute.rmsNorm(x, gain: layer.preFeedforwardNorm, epsilon: sizes.epsilon, into: h)
      let gateUp = frame.gateUp(rows: h.count)
      let gate = gateUp.columns(from: 0, count: sizes.intermediate)
      let up = gateUp.columns(from: sizes.intermediate, count: sizes.intermediate)
      layer.gateUp(h, into: gateUp)
      compute.gatedGELU(gate, up, into: gate)
      layer.down(gate, into: h)
      compute.rmsNorm(h, gain: layer.postFeedforwardNorm, epsilon: sizes.epsilon, into: h)
      compute.add(h, to: x)
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
