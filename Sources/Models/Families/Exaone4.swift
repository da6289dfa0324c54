// EXAONE 4: norms after attention and MLP only, normalised heads; in the 32B three of four layers slide, and the fourth
// has no positions.
//
// Source: arXiv:2507.11407; names follow the Hugging Face checkpoints.

import Compute
import JSON

/// Post-norm decoders.
enum Exaone4 {
  static func decoder(_ config: ConfigFields, _ checkpoint: LayerLoader) throws(ModelError) -> Decoder {
    let sizes = try DecoderSizes(config, contextLength: 131_072, tied: false, defaults: .init(epsilon: 1e-5))
    let slides = try slidingLayers(config, sizes)
    let windows = try sizes.windows(config) { slides[$0] }
    // Without a window every layer sees everything, and has positions.
    let isMixed = windows.contains { $0 != nil }
    let rope = try RoPEScaling(config, sizes: sizes, theta: 1_000_000)
    let frame = try DecoderFrame(sizes, rope: rope, checkpoint)
    let layers = try frame.layers { index, weights throws(ModelError) in
      DecoderLayer(
        attentionNorms: try .after("post_attention_layernorm", sizes, weights),
        attention: try .heads(
          sizes.attention(window: windows[index]), layer: index,
          rope: isMixed && windows[index] == nil ? nil : frame.rope, .init(norms: .heads), frame,
          weights.at("self_attn")),
        mlpNorms: try .after("post_feedforward_layernorm", sizes, weights),
        mlp: .dense(try DenseMLP(sizes.hidden, sizes.intermediate, weights.at("mlp"))))
    }
    return Decoder(frame, layers)
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
