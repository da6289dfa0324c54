// What config.json says about a Gemma 4 decoder, checked.

import Compute
import JSON

/// Sizes and kinds of Gemma 4's layers.
struct Gemma4Config {
  let sizes: DecoderSizes
  /// Layers from this one on store no keys and values.
  let writers: Int
  let hasBias: Bool
  /// Beside each layer's MLP, where the model has them.
  let experts: Experts.Sizes?
  /// Elements of the second embedding per layer; 0 without one.
  let secondWidth: Int
  let secondVocabulary: Int
  let softcap: Float?
  let padding: Int32
  /// `use_bidirectional_attention: "vision"`.
  let seesImagesWhole: Bool
  let fullRope: RoPEScaling
  let localRope: RoPEScaling
  private let sliding: [Bool]
  private let keysAreValues: Bool
  private let isDoubleWide: Bool
  private let localShape, fullShape: AttentionShape

  init(_ config: ConfigFields) throws(ModelError) {
    try Self.refuseWhatIsMissing(config)
    sizes = try DecoderSizes(
      config, contextLength: 131_072, tied: false,
      defaults: .init(headDim: 256, vocabulary: 262_144, activations: ["gelu_pytorch_tanh"]))
    sliding = try sizes.slidingLayers(config) { _ in false }
    let window = sliding.contains(true) ? try config.int("sliding_window", in: 1...1 << 40) : nil
    writers = sizes.layers - (try config.int("num_kv_shared_layers", in: 0...sizes.layers - 1))
    keysAreValues = try config.bool("attention_k_eq_v", default: false)
    isDoubleWide = try config.bool("use_double_wide_mlp", default: false)
    hasBias = try config.bool("attention_bias", default: false)
    experts =
      try config.bool("enable_moe_block", default: false)
      ? try Experts.Sizes(
        config, count: "num_experts", perRow: "top_k_experts", intermediate: "moe_intermediate_size") : nil
    secondWidth = try config.int("hidden_size_per_layer_input", in: 0...1 << 14, default: 256)
    secondVocabulary = try config.int(
      "vocab_size_per_layer_input", in: sizes.vocabulary...1 << 24, default: sizes.vocabulary)
    softcap = try gemmaSoftcap(config)
    padding = Int32(try config.int("pad_token_id", in: 0...secondVocabulary - 1, default: 0))
    seesImagesWhole = config.value("use_bidirectional_attention")?.stringValue == "vision"

    let fullDim = try config.int("global_head_dim", in: 2...4096, default: 512)
    guard fullDim % 2 == 0 else {
      throw .invalidValue(key: "global_head_dim", found: "\(fullDim)", expected: "an even number")
    }
    let kvKey = "num_global_key_value_heads"
    let fullHeads =
      keysAreValues ? try config.int(kvKey, in: 1...4096, default: sizes.kvHeads) : sizes.kvHeads
    guard sizes.heads % fullHeads == 0 else {
      throw .invalidValue(
        key: kvKey, found: "\(fullHeads)", expected: "a divisor of num_attention_heads = \(sizes.heads)")
    }
    // Norms of queries and keys take the place of a scale.
    localShape = AttentionShape(
      heads: sizes.heads, kvHeads: sizes.kvHeads, headDim: sizes.headDim, scale: 1, window: window)
    // Only sliding layers see the whole of an image.
    fullShape = AttentionShape(
      heads: sizes.heads, kvHeads: fullHeads, headDim: fullDim, scale: 1, seesGroups: false)
    fullRope = try RoPEScaling(config, sizes: sizes, theta: 1_000_000, headDim: fullDim)
    localRope = try RoPEScaling(config, sizes: sizes, theta: 10_000, layerType: "sliding_attention")
  }

  private static func refuseWhatIsMissing(_ config: ConfigFields) throws(ModelError) {
    // "vision" concerns the positions of images only: `seesImagesWhole`.
    let key = "use_bidirectional_attention"
    if let value = config.value(key), value.boolValue != false, value.stringValue != "vision" {
      throw .unsupportedSetting(
        key: key, value: value.stringValue ?? "true", supported: "false, null and vision")
    }
    // Reference implementations disagree about what absent ones mean.
    guard config.has("layer_types") else { throw .missingKey("layer_types") }
    guard let ropes = try config.object("rope_parameters"), try ropes.object("full_attention") != nil,
      try ropes.object("sliding_attention") != nil
    else { throw .missingKey("rope_parameters.full_attention or rope_parameters.sliding_attention") }
  }

  /// Sizes that shapes of tensors follow from, beside those that all decoders have, by their keys in config.json.
  var named: KeyValuePairs<String, Int> {
    [
      "global_head_dim": fullShape.headDim, "num_global_key_value_heads": fullShape.kvHeads,
      "hidden_size_per_layer_input": secondWidth,
    ]
  }

  func attention(_ layer: Int) -> AttentionShape { sliding[layer] ? localShape : fullShape }

  /// What a layer attends to.
  func keys(_ layer: Int) -> SelfAttention.Keys {
    if layer >= writers { return .shared }
    return attention(layer).window == nil && keysAreValues ? .alsoValues : .own
  }

  /// The width of a layer's MLP.
  func intermediate(_ layer: Int) -> Int {
    (layer >= writers && isDoubleWide ? 2 : 1) * sizes.intermediate
  }

  var embeddingScale: Float { gemmaEmbeddingScale(width: sizes.hidden) }

  /// The layer itself, or the last one of its kind that stores keys and values.
  func cacheLayer(_ layer: Int) throws(ModelError) -> Int {
    guard layer >= writers else { return layer }
    guard let source = (0..<writers).last(where: { sliding[$0] == sliding[layer] }) else {
      throw .invalidValue(
        key: "num_kv_shared_layers", found: "\(sizes.layers - writers)",
        expected: "few enough to leave a layer of each kind that stores keys and values")
    }
    return source
  }
}
