// Llama 4, text: attention within chunks and without positions in turns, one expert per token beside a shared one.
//
// Source: the model card and transformers' llama4; names follow MLX's conversions, in which an expert's maps are stacks.
// The norm of queries and keys has no weights: rotation does not change it, so it stands before.

import Compute
import JSON

/// Scout, Maverick, and the dense `llama4_text`.
enum Llama4 {
  static func decoder(_ config: ConfigFields, _ checkpoint: LayerLoader) throws(ModelError) -> Decoder {
    let sizes = try DecoderSizes(config, contextLength: 131_072, tied: false, defaults: .init(epsilon: 1e-5))
    let rotates = try rotatingLayers(config, sizes)
    let chunk =
      config.has("attention_chunk_size") ? try config.int("attention_chunk_size", in: 1...1 << 40) : nil
    let chunked = try chunkedLayers(config, sizes, usual: rotates)
    let normsHeads = try config.bool("use_qk_norm", default: true)
    let bias = try config.bool("attention_bias", default: false)
    let mixture = try Mixture(config, sizes)
    let rope = try RoPEScaling(config, sizes: sizes, theta: 500_000, interleaved: true)
    let frame = try DecoderFrame(sizes, rope: rope, checkpoint)
    let layers = try frame.layers { index, weights throws(ModelError) in
      let hasPositions = rotates[index]
      var shape = sizes.attention(window: nil)
      if chunked[index] { shape.chunk = chunk }
      return DecoderLayer(
        attentionNorms: try .before("input_layernorm", sizes, weights),
        attention: try .heads(
          shape, layer: index, rope: hasPositions ? frame.rope : nil,
          .init(
            norms: normsHeads && hasPositions ? .plain : .none, bias: bias, outputBias: bias,
            growsQueries: !hasPositions),
          frame, weights.at("self_attn")),
        mlpNorms: try .before("post_attention_layernorm", sizes, weights),
        mlp: try mixture.mlp(layer: index, sizes, weights.at("feed_forward")))
    }
    return Decoder(frame, layers, scales: .init(queryGrowth: try queryGrowth(config)))
  }

  private static func rotatingLayers(
    _ config: ConfigFields, _ sizes: DecoderSizes
  ) throws(ModelError) -> [Bool] {
    let key = "no_rope_layers"
    let flags = try config.ints(key, in: 0...1)
    if flags.isEmpty {
      let distance = try config.int("no_rope_layer_interval", in: 1...1024, default: 4)
      return (0..<sizes.layers).map { ($0 + 1) % distance != 0 }
    }
    guard flags.count == sizes.layers else {
      throw .invalidValue(
        key: key, found: "an array of \(flags.count)", expected: "num_hidden_layers = \(sizes.layers) entries"
      )
    }
    return flags.map { $0 == 1 }
  }

  /// Layers that rotate, unless `layer_types` says otherwise.
  private static func chunkedLayers(
    _ config: ConfigFields, _ sizes: DecoderSizes, usual: [Bool]
  ) throws(ModelError) -> [Bool] {
    guard let types = config.value("layer_types")?.arrayValue else { return usual }
    let known = types.map(\.stringValue)
    guard known.count == sizes.layers,
      known.allSatisfy({ $0 == "chunked_attention" || $0 == "full_attention" })
    else {
      throw .invalidValue(
        key: "layer_types", found: "an array of \(types.count)",
        expected: "num_hidden_layers = \(sizes.layers) times chunked_attention or full_attention")
    }
    return known.map { $0 == "chunked_attention" }
  }

  /// `attn_temperature_tuning` is a boolean, or a number as in the first configs.
  private static func queryGrowth(_ config: ConfigFields) throws(ModelError) -> QueryGrowth? {
    let key = "attn_temperature_tuning"
    let tunes =
      config.value(key)?.intValue == nil
      ? try config.bool(key, default: true) : try config.int(key, in: 0...1 << 20) != 0
    guard tunes else { return nil }
    return QueryGrowth(
      beta: try config.double("attn_scale", in: 0...1e3, default: 0.1),
      original: try config.double("floor_scale", in: 1...1e9, default: 8192), offset: 1)
  }

  /// Which layers have experts.
  private struct Mixture {
    /// Nil in a dense model.
    private let experts: Experts.Sizes?
    private let denseWidth, step: Int
    private let listed: Set<Int>?

    init(_ config: ConfigFields, _ sizes: DecoderSizes) throws(ModelError) {
      let count = try config.int("num_local_experts", in: 0...4096, default: 0)
      experts =
        count == 0
        ? nil
        : try Experts.Sizes(
          config, count: "num_local_experts", perRow: "num_experts_per_tok", intermediate: "intermediate_size"
        )
      denseWidth = try config.int("intermediate_size_mlp", in: 1...1 << 20, default: sizes.intermediate)
      step = try config.int("interleave_moe_layer_step", in: 0...1024, default: 1)
      listed = config.has("moe_layers") ? Set(try config.ints("moe_layers", in: 0...1024)) : nil
    }

    func mlp(layer: Int, _ sizes: DecoderSizes, _ weights: LayerLoader) throws(ModelError) -> FeedForward {
      let isSparse = listed?.contains(layer) ?? (step > 0 && layer % step == step - 1)
      guard let experts, isSparse else {
        return .dense(try DenseMLP(sizes.hidden, denseWidth, weights))
      }
      var options = Experts.Options(weighsInput: true)
      (options.names.router, options.names.stack) = ("router", "experts")
      return .experts(
        try Experts(
          experts, hidden: sizes.hidden, rule: ExpertRule(perRow: experts.perRow, scores: .sigmoid), options,
          shared: SharedExpert(
            try DenseMLP(sizes.hidden, experts.intermediate, weights.at("shared_expert"))), weights))
    }
  }
}
