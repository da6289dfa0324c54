// ModernBERT: pre-norm layers with rotation, every third of which sees the whole text and the others a window.
//
// Source: arXiv:2412.13663; names follow the Hugging Face checkpoints.
//
//   x = norm(word[id])
//   x += Wo(attend(rope(q), rope(k), v))      with [q | k | v] of norm(x), in the first layer of x itself
//   x += Wo(gelu(a) · b)                      with [a | b] of norm(x)
//   state = norm(x)

package import Compute
import JSON

/// Pre-norm encoder with windows. Engine thread only.
package final class ModernBert: TextEncoder {
  private struct Layer {
    /// Absent in the first layer, whose input is normed already.
    let attentionNorm: LayerNorm?
    let mlpNorm: LayerNorm  // [hidden]
    let qkv, o: Linear  // [hidden] → [q | k | v], [hidden] → [hidden]
    let input, output: Linear  // [hidden] → [a | b], [intermediate] → [hidden]
    let isGlobal: Bool
  }

  /// Which of the frame's shapes a layer has.
  private enum Shape: Int {
    case global, local
  }

  private let frame: EncoderFrame
  private let globalRope, localRope: RoPE
  private let sizes: EncoderSizes
  private let words: WeightStack  // [vocabulary, hidden]
  private let norm, finalNorm: LayerNorm
  private let layers: [Layer]
  package let maxTokens: Int
  package let classifier: ClassifierHead?

  init(_ config: ConfigFields, _ checkpoint: LayerLoader) throws(ModelError) {
    var keys = EncoderSizes.Keys()
    keys.epsilon = "norm_eps"
    keys.activation = "hidden_activation"
    let sizes = try EncoderSizes(config, keys: keys, epsilon: 1e-5)
    let bias = try config.bool("norm_bias", default: false)
    let checkpoint = checkpoint.given(sizes.named)
    let part = try encoderPart(
      checkpoint, prefixes: ["model", "bert"], having: "embeddings.tok_embeddings.weight")
    words = try part.embedding(
      "embeddings.tok_embeddings", rows: sizes.vocabulary, columns: sizes.hidden)
    norm = try LayerNorm("embeddings.norm", sizes.hidden, epsilon: sizes.epsilon, bias: bias, part)
    finalNorm = try LayerNorm("final_norm", sizes.hidden, epsilon: sizes.epsilon, bias: bias, part)
    let every = try config.int("global_attn_every_n_layers", in: 1...1024, default: 3)
    let types = (config.value("layer_types")?.arrayValue ?? []).map(\.stringValue)
    var layers: [Layer] = []
    for index in 0..<sizes.layers {
      let isGlobal =
        types.indices.contains(index) ? types[index] == "full_attention" : index % every == 0
      layers.append(
        try Self.layer(index, sizes, isGlobal: isGlobal, normBias: bias, part.at("layers")[index]))
    }
    self.layers = layers
    var local = sizes.attention
    // Tokens see each other from half of `local_attention` away.
    local.window = try config.int("local_attention", in: 2...1 << 24, default: 128) / 2 + 1
    local.windowIsSymmetric = true
    frame = EncoderFrame(hidden: sizes.hidden, shapes: [sizes.attention, local], checkpoint.compute)
    globalRope = try Self.rope(config, sizes, "global_rope_theta", "full_attention", default: 160_000)
    localRope = try Self.rope(config, sizes, "local_rope_theta", "sliding_attention", default: 10_000)
    maxTokens = try config.int("max_position_embeddings", in: 1...1 << 24, default: 8192)
    classifier = try ClassifierHead.modernBert(config, sizes, normBias: bias, checkpoint)
    self.sizes = sizes
  }

  private static func layer(
    _ index: Int, _ sizes: EncoderSizes, isGlobal: Bool, normBias: Bool, _ weights: LayerLoader
  ) throws(ModelError) -> Layer {
    let (hidden, inner) = (sizes.hidden, sizes.intermediate)
    func norm(_ name: String) throws(ModelError) -> LayerNorm {
      try LayerNorm(name, hidden, epsilon: sizes.epsilon, bias: normBias, weights)
    }
    return Layer(
      attentionNorm: index == 0 ? nil : try norm("attn_norm"), mlpNorm: try norm("mlp_norm"),
      qkv: try weights.linear(["attn.Wqkv": 3 * hidden], from: hidden),
      o: try weights.linear(["attn.Wo": hidden], from: hidden),
      input: try weights.linear(["mlp.Wi": 2 * inner], from: hidden),
      output: try weights.linear(["mlp.Wo": hidden], from: inner), isGlobal: isGlobal)
  }

  private static func rope(
    _ config: ConfigFields, _ sizes: EncoderSizes, _ key: String, _ layerType: String,
    default fallback: Double
  ) throws(ModelError) -> RoPE {
    var theta = try config.double(key, in: 2...1e15, default: fallback)
    if let keyed = try config.object("rope_parameters")?.object(layerType) {
      theta = try keyed.double("rope_theta", in: 2...1e15, default: theta)
    }
    return RoPE(variants: RoPEScaling(theta: theta, headDim: sizes.headDim).variants)
  }

  package var hidden: Int { sizes.hidden }
  package var vocabularySize: Int { sizes.vocabulary }
  package var workBytesPerToken: Int { frame.workBytes(intermediate: 2 * sizes.intermediate) }
  package var tableBytes: Int { words.byteCount }

  package func forward(_ texts: [EncoderText]) throws(ModelError) -> Rows {
    try frame.begin(texts)
    globalRope.prepare(frame.layout)
    localRope.prepare(frame.layout)
    let (compute, x, h) = (frame.compute, frame.stream, frame.branch)
    compute.gather(texts.flatMap(\.tokens), of: words, into: x)
    norm(x, into: x)
    for layer in layers {
      // x += Wo(attend(rope(q), rope(k), v)) of norm(x)
      let qkv = frame.projections(3 * sizes.hidden)
      if let norm = layer.attentionNorm {
        norm(x, into: h)
        layer.qkv(h, into: qkv)
      } else {
        layer.qkv(x, into: qkv)
      }
      compute.rotate(
        qkv.columns(from: 0, count: 2 * sizes.hidden), headDim: sizes.headDim,
        by: layer.isGlobal ? globalRope : localRope)
      layer.o(frame.attend(qkv, shape: (layer.isGlobal ? Shape.global : .local).rawValue), into: h)
      compute.add(h, to: x)
      // x += Wo(gelu(a) · b) of norm(x)
      layer.mlpNorm(x, into: h)
      let both = frame.inner(2 * sizes.intermediate)
      let a = both.columns(from: 0, count: sizes.intermediate)
      layer.input(h, into: both)
      compute.erfGELU(a)
      compute.multiplyElements(
        both.columns(from: sizes.intermediate, count: sizes.intermediate), into: a)
      layer.output(a, into: h)
      compute.add(h, to: x)
    }
    finalNorm(x, into: x)
    return x
  }
}
