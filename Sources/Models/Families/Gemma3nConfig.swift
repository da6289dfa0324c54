// What config.json says about a Gemma 3n decoder, checked.

import Compute
import JSON
import Platform

/// Sizes and kinds of Gemma 3n's layers.
struct Gemma3nConfig {
  let sizes: DecoderSizes
  /// Layers from this one on store no keys and values.
  let writers: Int
  /// The width of each layer's MLP.
  let intermediates: [Int]
  /// Residual streams, of which the first is the active one.
  let streams: Int
  let scalesOutput: Bool
  let laurelRank: Int
  /// Elements of the second embedding per layer.
  let secondWidth: Int
  let secondVocabulary: Int
  let softcap: Float?
  let fullRope: RoPEScaling
  let localRope: RoPEScaling
  private let sliding: [Bool]
  private let window: Int?
  /// The share of each MLP's gates that stays closed.
  private let sparsity: [Double]

  /// What the mean square of a projected stream counts at least when its magnitude is matched.
  static let magnitudeFloor: Float = 1e-5

  init(_ config: ConfigFields) throws(ModelError) {
    intermediates = try Self.intermediates(config)
    sizes = try DecoderSizes(
      config, contextLength: 32_768, tied: true,
      defaults: .init(
        headDim: 256, vocabulary: 262_400, intermediate: intermediates.max(),
        activations: ["gelu_pytorch_tanh"]))
    sliding = try sizes.slidingLayers(config) { ($0 + 1) % 5 != 0 }
    window = sliding.contains(true) ? try config.int("sliding_window", in: 1...1 << 40) : nil
    writers = sizes.layers - (try config.int("num_kv_shared_layers", in: 0...sizes.layers - 1))
    streams = try config.int("altup_num_inputs", in: 1...16, default: 4)
    scalesOutput = try config.bool("altup_correct_scale", default: true)
    laurelRank = try config.int("laurel_rank", in: 1...1 << 14, default: 64)
    secondWidth = try config.int("hidden_size_per_layer_input", in: 1...1 << 14, default: 256)
    secondVocabulary = try config.int("vocab_size_per_layer_input", in: 1...1 << 24, default: 262_144)
    softcap = try gemmaSoftcap(config)
    fullRope = try RoPEScaling(config, sizes: sizes, theta: 1_000_000)
    localRope = try Gemma3.localFrequencies(config, sizes: sizes)
    sparsity = try config.doubles("activation_sparsity_pattern", count: sizes.layers, in: 0...0.9999)
    let active = try config.int("altup_active_idx", in: 0...15, default: 0)
    guard active == 0 else {
      throw .unsupportedSetting(key: "altup_active_idx", value: "\(active)", supported: "0")
    }
    guard intermediates.count == sizes.layers else {
      throw .invalidValue(
        key: "intermediate_size", found: "an array of \(intermediates.count)",
        expected: "num_hidden_layers = \(sizes.layers) entries")
    }
  }

  /// One width per layer, or one for all.
  private static func intermediates(_ config: ConfigFields) throws(ModelError) -> [Int] {
    let (key, range) = ("intermediate_size", 1...1 << 20)
    if config.value(key)?.arrayValue != nil { return try config.ints(key, in: range) }
    let layers = try config.int("num_hidden_layers", in: 1...1024)
    return [Int](repeating: try config.int(key, in: range), count: layers)
  }

  /// Sizes that shapes of tensors follow from, beside those that all decoders have, by their keys in config.json.
  var named: KeyValuePairs<String, Int> {
    [
      "altup_num_inputs": streams, "laurel_rank": laurelRank, "hidden_size_per_layer_input": secondWidth,
    ]
  }

  /// Scores are not scaled: norms of queries and keys take the place.
  func attention(_ layer: Int) -> AttentionShape {
    AttentionShape(
      heads: sizes.heads, kvHeads: sizes.kvHeads, headDim: sizes.headDim, scale: 1,
      window: sliding[layer] ? window : nil)
  }

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

  /// The normal distribution's quantile of the layer's sparsity; nil without.
  func deviations(_ layer: Int) -> Float? {
    guard sparsity[layer] > 0 else { return nil }
    var (low, high) = (-9.0, 9.0)
    for _ in 0..<64 {
      let middle = (low + high) / 2
      if erfc(-middle / 2.0.squareRoot()) / 2 < sparsity[layer] { low = middle } else { high = middle }
    }
    return Float((low + high) / 2)
  }

  var embeddingScale: Float { gemmaEmbeddingScale(width: sizes.hidden) }
}
