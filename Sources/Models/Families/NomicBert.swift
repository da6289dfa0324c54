// nomic-bert and gte ("new"): BERT's layers with rotation instead of learned positions, and a gated MLP.
//
// Sources: arXiv:2402.01613, arXiv:2407.19669; names follow the checkpoints, and transformers 5's names for both.
//
//   x = norm(word[id] + type[0])                            gte may have no types
//   x = norm(x + o(attend(rope(q), rope(k), v)))            with [q | k | v] of x
//   x = norm(x + down(activation(gate) · up))               silu in nomic-bert, gelu in gte

package import Compute
import JSON
import Platform

/// Post-norm encoder with rotated positions. Engine thread only.
package final class NomicBert: TextEncoder {
  private struct Layer {
    let qkv, o: Linear  // [hidden] → [q | k | v], [hidden] → [hidden]
    let attentionNorm, mlpNorm: LayerNorm  // [hidden]
    let upGate, down: Linear  // [hidden] → [up | gate], [intermediate] → [hidden]
  }

  private let frame: EncoderFrame
  private let rope: RoPE
  private let sizes: EncoderSizes
  private let isGTE: Bool
  private let words: WeightStack  // [vocabulary, hidden]
  private let types: WeightStack?  // [types, hidden]
  private let norm: LayerNorm
  private let layers: [Layer]
  package let maxTokens: Int
  package let classifier: ClassifierHead?

  init(_ type: String, _ config: ConfigFields, _ checkpoint: LayerLoader) throws(ModelError) {
    isGTE = type != "nomic_bert"
    try Self.refuseWhatIsMissing(config)
    let sizes = try Self.sizes(config)
    let checkpoint = checkpoint.given(sizes.named)
    let part = try encoderPart(
      checkpoint, prefixes: ["new", "gte", "nomic_bert", "bert", "model"],
      having: "embeddings.word_embeddings.weight")
    let embeddings = part.at("embeddings")
    words = try embeddings.embedding("word_embeddings", rows: sizes.vocabulary, columns: sizes.hidden)
    let typeCount = try config.int("type_vocab_size", in: 0...1024, default: 0)
    types =
      typeCount > 0 && embeddings.has("token_type_embeddings.weight")
      ? try embeddings.embedding("token_type_embeddings", rows: typeCount, columns: sizes.hidden) : nil
    norm =
      part.has("emb_ln.weight")
      ? try LayerNorm("emb_ln", sizes.hidden, epsilon: sizes.epsilon, part)
      : try LayerNorm("LayerNorm", sizes.hidden, epsilon: sizes.epsilon, embeddings)
    var layers: [Layer] = []
    for index in 0..<sizes.layers { layers.append(try Self.layer(index, sizes, part)) }
    self.layers = layers
    rope = RoPE(variants: [try Self.frequencies(config, sizes, isGTE: isGTE)])
    frame = EncoderFrame(hidden: sizes.hidden, shapes: [sizes.attention], checkpoint.compute)
    maxTokens = try Self.length(config)
    classifier = try ClassifierHead.bert(config, hidden: sizes.hidden, pooler: part, checkpoint)
    self.sizes = sizes
  }

  private static func refuseWhatIsMissing(_ config: ConfigFields) throws(ModelError) {
    if try config.int("num_experts", in: 0...4096, default: 0) > 0 {
      throw .unsupportedSetting(key: "num_experts", value: "a number", supported: "models without experts")
    }
    for key in ["prenorm", "use_rms_norm", "rotary_emb_interleaved", "logn_attention_scale"] {
      guard try config.bool(key, default: false) else { continue }
      throw .unsupportedSetting(key: key, value: "true", supported: "false")
    }
    for (key, supported) in [("layer_norm_type", "layer_norm"), ("position_embedding_type", "rope")] {
      if let value = try config.string(key), value != supported {
        throw .unsupportedSetting(key: key, value: value, supported: supported)
      }
    }
    if try config.double("rotary_emb_fraction", in: 0...1, default: 1) != 1 {
      throw .unsupportedSetting(key: "rotary_emb_fraction", value: "a part", supported: "1")
    }
  }

  /// The keys of nomic's own configuration are GPT-2's.
  private static func sizes(_ config: ConfigFields) throws(ModelError) -> EncoderSizes {
    var keys = EncoderSizes.Keys()
    if config.has("n_embd") {
      keys.hidden = "n_embd"
      keys.layers = "n_layer"
      keys.heads = "n_head"
      keys.intermediate = "n_inner"
      keys.epsilon = "layer_norm_epsilon"
      keys.activation = "activation_function"
    }
    keys.activations = ["swiglu", "gelu", "silu"]
    return try EncoderSizes(config, keys: keys, epsilon: 1e-12)
  }

  /// What was trained, not what positions could be made for.
  private static func length(_ config: ConfigFields) throws(ModelError) -> Int {
    let key = config.has("n_positions") ? "n_positions" : "max_position_embeddings"
    let positions = try config.int(key, in: 1...1 << 24, default: 8192)
    guard let trained = config.value("max_trained_positions")?.intValue, trained > 0 else { return positions }
    return min(positions, trained)
  }

  private static func frequencies(
    _ config: ConfigFields, _ sizes: EncoderSizes, isGTE: Bool
  ) throws(ModelError) -> RoPEFrequencies {
    let parameters = try config.object("rope_parameters")
    var theta: Double
    if let parameters, parameters.has("rope_theta") {
      theta = try parameters.double("rope_theta", in: 2...1e15)
    } else {
      let key = config.has("rotary_emb_base") ? "rotary_emb_base" : "rope_theta"
      theta = try config.double(key, in: 2...1e15, default: isGTE ? 10_000 : 1_000)
    }
    var divisor = 1.0
    if let scaling = try config.object("rope_scaling"), let type = try scaling.string("type") {
      guard type == "ntk" else {
        throw .unsupportedSetting(key: "rope_scaling.type", value: type, supported: "ntk")
      }
      // (θ·f)^(-2i/D) / f^(2/D), for texts of every length.
      let factor = try scaling.double("factor", in: 1...1e6)
      theta *= factor
      divisor = pow(factor, 2 / Double(sizes.headDim))
    }
    let width = sizes.headDim
    return RoPEFrequencies(
      inverse: (0..<width / 2).map { pow(theta, -2 * Double($0) / Double(width)) / divisor })
  }

  /// The three sets of names that a layer's tensors have.
  private static func layer(
    _ index: Int, _ sizes: EncoderSizes, _ part: LayerLoader
  ) throws(ModelError) -> Layer {
    let (hidden, inner) = (sizes.hidden, sizes.intermediate)
    func norm(_ name: String, _ weights: LayerLoader) throws(ModelError) -> LayerNorm {
      try LayerNorm(name, hidden, epsilon: sizes.epsilon, weights)
    }
    let nomic = part.at("encoder.layers")[index]
    if nomic.has("attn.Wqkv.weight") {
      return Layer(
        qkv: try nomic.linear(["attn.Wqkv": 3 * hidden], from: hidden),
        o: try nomic.linear(["attn.out_proj": hidden], from: hidden),
        attentionNorm: try norm("norm1", nomic), mlpNorm: try norm("norm2", nomic),
        upGate: try nomic.linear(["mlp.fc11": inner, "mlp.fc12": inner], from: hidden),
        down: try nomic.linear(["mlp.fc2": hidden], from: inner))
    }
    let gte = part.at("encoder.layer")[index]
    if gte.has("attention.qkv_proj.weight") {
      return Layer(
        qkv: try gte.linear(["attention.qkv_proj": 3 * hidden], from: hidden),
        o: try gte.linear(["attention.o_proj": hidden], from: hidden),
        attentionNorm: try norm("attn_ln", gte), mlpNorm: try norm("mlp_ln", gte),
        upGate: try gte.linear(["mlp.up_gate_proj": 2 * inner], from: hidden),
        down: try gte.linear(["mlp.down_proj": hidden], from: inner))
    }
    let renamed = part.at("layers")[index]
    return Layer(
      qkv: try renamed.linear(
        ["self_attn.q_proj": hidden, "self_attn.k_proj": hidden, "self_attn.v_proj": hidden], from: hidden),
      o: try renamed.linear(["self_attn.o_proj": hidden], from: hidden),
      attentionNorm: try norm("post_attention_layernorm", renamed),
      mlpNorm: try norm("post_mlp_layernorm", renamed),
      upGate: try renamed.linear(["mlp.up_proj": inner, "mlp.gate_proj": inner], from: hidden),
      down: try renamed.linear(["mlp.down_proj": hidden], from: inner))
  }

  package var hidden: Int { sizes.hidden }
  package var vocabularySize: Int { sizes.vocabulary }
  package var workBytesPerToken: Int { frame.workBytes(intermediate: 2 * sizes.intermediate) }
  package var tableBytes: Int { words.byteCount }

  package func forward(_ texts: [EncoderText]) throws(ModelError) -> Rows {
    try frame.begin(texts)
    rope.prepare(frame.layout)
    let (compute, x, h) = (frame.compute, frame.stream, frame.branch)
    compute.gather(texts.flatMap(\.tokens), of: words, into: x)
    if let types {
      compute.gather([Int32](repeating: 0, count: x.count), of: types, into: h)
      compute.add(h, to: x)
    }
    norm(x, into: x)
    for layer in layers {
      // x = norm(x + o(attend(rope(q), rope(k), v)))
      let qkv = frame.projections(3 * sizes.hidden)
      layer.qkv(x, into: qkv)
      compute.rotate(qkv.columns(from: 0, count: 2 * sizes.hidden), headDim: sizes.headDim, by: rope)
      layer.o(frame.attend(qkv), into: h)
      compute.add(h, to: x)
      layer.attentionNorm(x, into: x)
      // x = norm(x + down(activation(gate) · up))
      let upGate = frame.inner(2 * sizes.intermediate)
      let up = upGate.columns(from: 0, count: sizes.intermediate)
      let gate = upGate.columns(from: sizes.intermediate, count: sizes.intermediate)
      layer.upGate(x, into: upGate)
      if isGTE {
        compute.erfGELU(gate)
        compute.multiplyElements(up, into: gate)
      } else {
        compute.gatedSilu(gate, up, into: gate)
      }
      layer.down(gate, into: h)
      compute.add(h, to: x)
      layer.mlpNorm(x, into: x)
    }
    return x
  }
}
