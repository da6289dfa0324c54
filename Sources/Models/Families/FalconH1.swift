// Falcon-H1: attention and Mamba 2 side by side in every layer, and multipliers at every branch.
//
// Source: arXiv:2507.22448; `FalconH1ForCausalLM` of transformers. Original checkpoints have the multipliers beside the
// weights: here they are factors of the maps that they stand before or after. MLX's converter multiplies most of them into
// the weights, but misses that of keys, and gives that of attention's input to queries and keys alone: what it has missed
// is applied here.

import Compute

/// Pre-norm decoders whose mixers are added: `x += mamba(n) + attention(n)`, `x += mlp(norm(x))`.
enum FalconH1 {
  static func decoder(_ config: ConfigFields, _ checkpoint: LayerLoader) throws(ModelError) -> Decoder {
    let sizes = try DecoderSizes(config, contextLength: 262_144, tied: false)
    let multipliers = try Multipliers(config)
    // MLX's layout of the convolution tells of its converter.
    let isConverted = storesTapsFirst(checkpoint)
    var mamba = try Mamba2.Sizes(config)
    let isBeforeGate = try config.bool("mamba_norm_before_gate", default: true)
    let hasNorm = try config.bool("mamba_rms_norm", default: false)
    mamba.norm = hasNorm ? (isBeforeGate ? .beforeGate : .afterGate) : nil
    if try config.int("mamba_d_ssm", in: 1...1 << 20, default: mamba.values) != mamba.values {
      throw .invalidValue(
        key: "mamba_d_ssm", found: "another width", expected: "mamba_n_heads · mamba_d_head = \(mamba.values)"
      )
    }
    let bias = (
      attention: try config.bool("attention_bias", default: false),
      mlp: try config.bool("mlp_bias", default: false)
    )
    guard isConverted || multipliers.areOne || !(bias.attention || bias.mlp || mamba.bias) else {
      throw .unsupportedSetting(
        key: "attention_bias, mlp_bias, mamba_proj_bias", value: "true",
        supported: "multipliers without biases")
    }
    let rope = try RoPEScaling(config, sizes: sizes, theta: 100_000_000_000)
    let frame = try DecoderFrame(sizes, rope: rope, names: .init(finalNorm: "final_layernorm"), checkpoint)
    var options = SelfAttention.Options(bias: bias.attention, outputBias: bias.attention)
    if isConverted {
      options.keyFactor = multipliers.key
      options.valueFactor = multipliers.attentionIn
    }
    let factors = isConverted ? [:] : multipliers.ofMaps
    let columns = isConverted ? nil : multipliers.ofColumns
    let layers = try frame.layers { index, weights throws(ModelError) in
      let weights = weights.multiplying(factors)
      let attention = try SelfAttention(
        sizes.attention(window: nil), layer: index, rope: frame.rope, options, frame,
        weights.at("self_attn"))
      let mixer = try Mamba2(
        mamba, layer: index, hidden: sizes.hidden, multipliers: columns, weights.at("mamba"))
      return DecoderLayer(
        attentionNorms: try .before("input_layernorm", sizes, weights), attention: .beside(attention, mixer),
        mlpNorms: try .before("pre_ff_layernorm", sizes, weights),
        mlp: .dense(
          try DenseMLP(sizes.hidden, sizes.intermediate, bias: bias.mlp, weights.at("feed_forward"))))
    }
    guard isConverted else {
      return Decoder(
        frame, layers, scales: .init(embeddings: multipliers.embedding, logits: multipliers.head))
    }
    // An embedding that is also the head contains the embedding's multiplier.
    return Decoder(
      frame, layers, scales: .init(logits: frame.isTied ? multipliers.head / multipliers.embedding : 1))
  }

  private static func storesTapsFirst(_ checkpoint: LayerLoader) -> Bool {
    let name = checkpoint.names.first { $0.hasSuffix("mamba.conv1d.weight") }
    return name.flatMap { checkpoint.shape(of: $0) }?.last == 1
  }

  /// The multipliers of config.json.
  private struct Multipliers {
    let embedding, head, key, attentionIn: Float
    /// Of the maps of a layer, by their names.
    let ofMaps: [String: Float]
    /// Of the columns z, x, B, C and dt that a mixer's input is mapped to.
    let ofColumns: [Float]
    /// Whether all of them are 1, so that it does not matter whether the weights contain them.
    let areOne: Bool

    init(_ config: ConfigFields) throws(ModelError) {
      func factor(_ key: String) throws(ModelError) -> Float {
        Float(try config.double(key, in: 1e-6...1e6, default: 1))
      }
      embedding = try factor("embedding_multiplier")
      head = try factor("lm_head_multiplier")
      key = try factor("key_multiplier")
      attentionIn = try factor("attention_in_multiplier")
      func factors(_ key: String, _ count: Int) throws(ModelError) -> [Float] {
        guard config.has(key) else { return [Float](repeating: 1, count: count) }
        return try config.doubles(key, count: count, in: 1e-6...1e6).map { Float($0) }
      }
      let mlp = try factors("mlp_multipliers", 2)
      let input = try factor("ssm_in_multiplier")
      ofColumns = try factors("ssm_multipliers", 5).map { $0 * input }
      ofMaps = [
        "q_proj": attentionIn, "k_proj": attentionIn * key, "v_proj": attentionIn,
        "o_proj": try factor("attention_out_multiplier"), "out_proj": try factor("ssm_out_multiplier"),
        "gate_proj": mlp[0], "down_proj": mlp[1],
      ]
      areOne = ([embedding, head] + ofColumns + ofMaps.values).allSatisfy { $0 == 1 }
    }
  }
}
