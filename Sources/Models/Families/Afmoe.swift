// Arcee's Trinity: norms around both branches, gated attention, positions in sliding layers alone, a few dense layers before
// those with experts.
//
// Source: the model cards and transformers' afmoe; names follow the Hugging Face checkpoints.

import Compute

/// Decoders whose layers slide but for every fourth.
enum Afmoe {
  static func decoder(_ config: ConfigFields, _ checkpoint: LayerLoader) throws(ModelError) -> Decoder {
    let sizes = try DecoderSizes(
      config, contextLength: 16_384, tied: false, defaults: .init(headDim: 128, epsilon: 1e-5))
    let distance = try config.int("global_attn_every_n_layers", in: 1...1024, default: 4)
    let slides = try sizes.slidingLayers(config) { ($0 + 1) % distance != 0 }
    let window = try config.int("sliding_window", in: 1...1 << 40, default: 1024)
    let rope = try RoPEScaling(config, sizes: sizes, theta: 10_000)
    var routed = try RoutedExperts(
      config,
      .init(
        count: "num_experts", shared: "num_shared_experts", firstDense: "num_dense_layers",
        scores: "score_func", renormalizes: "route_norm", scale: "route_scale"))
    (routed.options.names.router, routed.options.names.selectionBias) = ("router.gate", "expert_bias")
    let experts = routed
    let bias = try config.bool("attention_bias", default: false)
    let scalesEmbeddings = try config.bool("mup_enabled", default: false)
    let frame = try DecoderFrame(sizes, rope: rope, checkpoint)
    let layers = try frame.layers { index, weights throws(ModelError) in
      DecoderLayer(
        attentionNorms: try .around("input_layernorm", "post_attention_layernorm", sizes, weights),
        attention: try .heads(
          sizes.attention(window: slides[index] ? window : nil), layer: index,
          rope: slides[index] ? frame.rope : nil,
          .init(norms: .heads, bias: bias, outputBias: bias, gate: .module("gate_proj")), frame,
          weights.at("self_attn")),
        mlpNorms: try .around("pre_mlp_layernorm", "post_mlp_layernorm", sizes, weights),
        mlp: try experts.mlp(layer: index, sizes, weights.at("mlp")))
    }
    let scale = scalesEmbeddings ? Float(sizes.hidden).squareRoot() : 1
    return Decoder(frame, layers, scales: .init(embeddings: scale))
  }
}
