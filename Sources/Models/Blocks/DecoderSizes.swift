// The config keys that all decoder families share, validated.

import Compute
import JSON

/// Sizes of a decoder as config.json states them.
struct DecoderSizes {
  let hidden: Int
  let layers: Int
  let heads: Int
  let kvHeads: Int
  let headDim: Int
  let intermediate: Int
  let vocabulary: Int
  let contextLength: Int
  let epsilon: Float
  /// Whether config.json asks for the embedding matrix as the output head.
  let tied: Bool

  /// What a family's reference implementation takes for keys that its released configs leave out.
  struct Defaults {
    var heads: Int?
    var kvHeads: Int?
    var headDim: Int?
    var vocabulary: Int?
    /// Of families that read `intermediate_size` themselves.
    var intermediate: Int?
    var layersKey = "num_hidden_layers"
    /// The key of the norms' epsilon.
    var epsilonKey = "rms_norm_eps"
    var epsilon = 1e-6
    /// The first is what an absent key means.
    var activations = ["silu", "swish"]
  }

  /// - Parameter contextLength: what the family's reference implementation takes when the key is absent.
  init(
    _ config: ConfigFields, contextLength fallback: Int, tied: Bool, defaults: Defaults = Defaults()
  ) throws(ModelError) {
    hidden = try config.int("hidden_size", in: 1...1 << 17)
    layers = try config.int(defaults.layersKey, in: 1...1024)
    heads = try config.int("num_attention_heads", in: 1...4096, default: defaults.heads)
    kvHeads = try config.int("num_key_value_heads", in: 1...4096, default: defaults.kvHeads ?? heads)
    guard heads % kvHeads == 0 else {
      throw .invalidValue(
        key: "num_key_value_heads", found: "\(kvHeads)",
        expected: "a divisor of num_attention_heads = \(heads)")
    }
    if !config.has("head_dim"), defaults.headDim == nil, hidden % heads != 0 {
      throw .invalidValue(
        key: "num_attention_heads", found: "\(heads)", expected: "a divisor of hidden_size = \(hidden)")
    }
    headDim = try config.int("head_dim", in: 2...4096, default: defaults.headDim ?? hidden / heads)
    guard headDim >= 2, headDim % 2 == 0 else {
      throw .invalidValue(key: "head_dim", found: "\(headDim)", expected: "an even number of at least 2")
    }
    if let known = defaults.intermediate {
      intermediate = known
    } else {
      intermediate = try config.int("intermediate_size", in: 1...1 << 20)
    }
    vocabulary = try config.int("vocab_size", in: 1...1 << 24, default: defaults.vocabulary)
    let stated = try config.int("max_position_embeddings", in: 1...1 << 27, default: fallback)
    contextLength = try max(stated, Self.stretchedContext(config))
    epsilon = Float(try config.double(defaults.epsilonKey, in: 0...1, default: defaults.epsilon))
    self.tied = try config.bool("tie_word_embeddings", default: tied)
    let key = ["hidden_activation", "activation_function"].first { config.has($0) } ?? "hidden_act"
    if let activation = try config.string(key), !defaults.activations.contains(activation) {
      throw .unsupportedSetting(key: key, value: activation, supported: defaults.activations[0])
    }
  }

  /// The context that YaRN stretches to, `original_max_position_embeddings · factor`. Qwen's recipe for adding it leaves
  /// `max_position_embeddings` as it was. 0 without YaRN.
  private static func stretchedContext(_ config: ConfigFields) throws(ModelError) -> Int {
    var found = try config.object("rope_parameters")
    if found == nil { found = try config.object("rope_scaling") }
    guard let scaling = found, try [scaling.string("rope_type"), scaling.string("type")].contains("yarn"),
      scaling.has("original_max_position_embeddings")
    else { return 0 }
    let original = try scaling.double("original_max_position_embeddings", in: 1...1e9)
    return Int(min(original * (try scaling.double("factor", in: 1...1e6)), Double(1 << 27)))
  }

  /// The sizes that shapes of tensors follow from, by their keys in config.json.
  var named: KeyValuePairs<String, Int> {
    [
      "hidden_size": hidden, "intermediate_size": intermediate, "num_attention_heads": heads,
      "num_key_value_heads": kvHeads, "head_dim": headDim, "vocab_size": vocabulary,
    ]
  }

  /// Elements of a row's queries, and of its keys (as of its values).
  var queryWidth: Int { heads * headDim }
  var keyWidth: Int { kvHeads * headDim }

  /// Full attention of one layer, scores scaled by headDim^-0.5.
  func attention(window: Int?) -> AttentionShape {
    AttentionShape(
      heads: heads, kvHeads: kvHeads, headDim: headDim, scale: 1 / Float(headDim).squareRoot(), window: window
    )
  }

  /// The sliding window of each layer, nil for full attention.
  ///
  /// `layer_types` decides where it exists; otherwise layers for which `slides` holds.
  func windows(_ config: ConfigFields, slides: (Int) -> Bool) throws(ModelError) -> [Int?] {
    let sliding = try slidingLayers(config, slides: slides)
    guard config.has("sliding_window") else { return [Int?](repeating: nil, count: layers) }
    let window = try config.int("sliding_window", in: 1...1 << 40)
    return sliding.map { $0 ? window : nil }
  }

  /// Whether each layer is a sliding one: `layer_types` where it exists, otherwise `slides`.
  func slidingLayers(_ config: ConfigFields, slides: (Int) -> Bool) throws(ModelError) -> [Bool] {
    try layers(of: "sliding_attention", or: "full_attention", config, otherwise: slides)
  }

  /// Whether each layer is of the first of two kinds: `layer_types` where it exists, otherwise `rule`.
  func layers(
    of kind: String, or other: String, _ config: ConfigFields, otherwise rule: (Int) -> Bool
  ) throws(ModelError) -> [Bool] {
    guard let types = config.value("layer_types")?.arrayValue else { return (0..<layers).map(rule) }
    guard types.count == layers else {
      throw .invalidValue(
        key: "layer_types", found: "an array of \(types.count)",
        expected: "num_hidden_layers = \(layers) entries")
    }
    var matches: [Bool] = []
    for type in types {
      guard let name = type.stringValue, [kind, other].contains(name) else {
        throw .unsupportedSetting(
          key: "layer_types", value: type.stringValue ?? type.kind, supported: "\(kind), \(other)")
      }
      matches.append(name == kind)
    }
    return matches
  }
}
