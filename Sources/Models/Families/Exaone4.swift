// EXAONE 4: norms after attention and MLP only, normalised heads; in the 32B three of four layers slide, and the fourth
// has no positions. K-EXAONE: the norms before them, and experts.
//
// Sources: arXiv:2507.11407 and transformers' exaone_moe; names follow the Hugging Face checkpoints.

import Compute
import JSON

/// Post-norm decoders, and pre-norm ones with experts.
enum Exaone4 {
  /// - Parameter type: `exaone4` or `exaone_moe`.
  static func decoder(
    _ type: String, _ config: ConfigFields, _ checkpoint: LayerLoader
  ) throws(ModelError) -> Decoder {
    let isSparse = type == "exaone_moe"
    let sizes = try DecoderSizes(
      config, contextLength: isSparse ? 2048 : 131_072, tied: false, defaults: .init(epsilon: 1e-5))
    let slides = try slidingLayers(config, sizes)
    let windows = try sizes.windows(config) { slides[$0] }
    // Without a window every layer sees everything, and has positions.
    let isMixed = windows.contains { $0 != nil }
    let rotates = windows.map { !isMixed || $0 != nil }
    let rope = try RoPEScaling(config, sizes: sizes, theta: 1_000_000)
    let routed = isSparse ? try experts(config, sizes) : nil
    let frame = try DecoderFrame(sizes, rope: rope, checkpoint)
    let options = SelfAttention.Options(norms: .heads)
    if let routed {
      let layers = try frame.preNormLayers(options, windows: windows, rotates: rotates) {
        index, weights throws(ModelError) in
        var experts = routed
        let mlp = weights.at("mlp")
        // The released file has the bias one level higher.
        let bias = "e_score_correction_bias"
        if mlp.has(bias) { experts.options.names.selectionBias = bias }
        return try experts.mlp(layer: index, sizes, mlp)
      }
      return Decoder(frame, layers)
    }
    let layers = try frame.layers { index, weights throws(ModelError) in
      DecoderLayer(
        attentionNorms: try .after("post_attention_layernorm", sizes, weights),
        attention: try .heads(
          sizes.attention(window: windows[index]), layer: index, rope: rotates[index] ? frame.rope : nil,
          options, frame, weights.at("self_attn")),
        mlpNorms: try .after("post_feedforward_layernorm", sizes, weights),
        mlp: .dense(try DenseMLP(sizes.hidden, sizes.intermediate, weights.at("mlp"))))
    }
    return Decoder(frame, layers)
  }

  /// The layers that have some are listed by transformers as names, in MLX's conversions as flags, both above
  /// `first_k_dense_replace`.
  private static func experts(_ config: ConfigFields, _ sizes: DecoderSizes) throws(ModelError)
    -> RoutedExperts
  {
    var routed = try RoutedExperts(config, .init(count: "num_experts", shared: "num_shared_experts"))
    for (key, word) in [("is_moe_layer", JSONValue.bool(true)), ("mlp_layer_types", "sparse")] {
      guard let flags = config.value(key)?.arrayValue else { continue }
      guard flags.count == sizes.layers else {
        throw .invalidValue(
          key: key, found: "an array of \(flags.count)",
          expected: "num_hidden_layers = \(sizes.layers) entries")
      }
      routed.sparseLayers = flags.map { $0 == word }
    }
    return routed
  }

  /// By `sliding_window_pattern`: a word like LLLG, repeated, or the distance of the layers that see everything.
  private static func slidingLayers(_ config: ConfigFields, _ sizes: DecoderSizes) throws(ModelError)
    -> [Bool]
  {
    let key = "sliding_window_pattern"
    guard let value = config.value(key) else { return (0..<sizes.layers).map { ($0 + 1) % 4 != 0 } }
    if let word = value.stringValue {
      let letters = Array(word.utf8)
      guard !letters.isEmpty, letters.allSatisfy({ $0 == UInt8(ascii: "L") || $0 == UInt8(ascii: "G") })
      else {
        throw .unsupportedSetting(key: key, value: word, supported: "a word of L and G")
      }
      return (0..<sizes.layers).map { letters[$0 % letters.count] == UInt8(ascii: "L") }
    }
    let distance = try config.int(key, in: 1...1024)
    return (0..<sizes.layers).map { ($0 + 1) % distance != 0 }
  }
}
