// MiniMax-M2: norms of all heads of queries or keys together, heads that rotate in part, experts chosen by sigmoids.
//
// Source: the model card and transformers' minimax_m2; names follow the Hugging Face checkpoints. MiniMax-Text-01, which
// also calls itself `minimax`, has layers of linear attention and is refused.

import Compute

/// Pre-norm decoders with experts in every layer.
enum MiniMaxM2 {
  static func decoder(_ config: ConfigFields, _ checkpoint: LayerLoader) throws(ModelError) -> Decoder {
    if config.has("attn_type_list") || config.has("linear_attn_alpha_factor") {
      throw .unsupportedSetting(
        key: "attn_type_list", value: "layers of linear attention", supported: "MiniMax-M2, which has none")
    }
    if try config.int("shared_intermediate_size", in: 0...1 << 20, default: 0) > 0 {
      throw .unsupportedSetting(key: "shared_intermediate_size", value: "not 0", supported: "0")
    }
    if let scores = try config.string("scoring_func"), scores != "sigmoid" {
      throw .unsupportedSetting(key: "scoring_func", value: scores, supported: "sigmoid")
    }
    let sizes = try DecoderSizes(config, contextLength: 196_608, tied: false)
    let experts = try Experts.Sizes(
      config, count: "num_local_experts", perRow: "num_experts_per_tok", intermediate: "intermediate_size")
    var rule = ExpertRule(perRow: experts.perRow, scores: .sigmoid)
    rule.renormalizing = 1e-20
    let choice = rule
    var names = Experts.Names()
    names.selectionBias = "e_score_correction_bias"
    names.single = .init(gate: "w1", up: "w3", down: "w2")
    let options = Experts.Options(names: names)
    let rotated = config.has("rotary_dim") ? try config.int("rotary_dim", in: 2...4096) : nil
    let rope = try RoPEScaling(config, sizes: sizes, theta: 5_000_000, rotated: rotated)
    let norms = try config.bool("use_qk_norm", default: true)
    let frame = try DecoderFrame(sizes, rope: rope, checkpoint)
    let layers = try frame.preNormLayers(.init(norms: norms ? .projection : .none)) {
      _, weights throws(ModelError) in
      .experts(
        try Experts(experts, hidden: sizes.hidden, rule: choice, options, weights.at("block_sparse_moe")))
    }
    return Decoder(frame, layers)
  }
}
