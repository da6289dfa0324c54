// ERNIE 4.5 with experts: neighbours that rotate, renormalised shares, several shared experts in one MLP.
//
// Source: the technical report of ERNIE 4.5 and transformers' ernie4_5_moe; names follow the Hugging Face checkpoints. A bias
// that only the choice of experts adds is in the original checkpoints; MLX's converter drops it.

import Compute
import JSON

/// Pre-norm decoders with experts in a range of their layers.
enum Ernie45MoE {
  static func decoder(_ config: ConfigFields, _ checkpoint: LayerLoader) throws(ModelError) -> Decoder {
    let sizes = try DecoderSizes(config, contextLength: 131_072, tied: true, defaults: .init(epsilon: 1e-5))
    let experts = try Experts.Sizes(
      config, count: "moe_num_experts", perRow: "moe_k", intermediate: "moe_intermediate_size")
    if let gate = try config.string("moe_gate_act"), gate != "softmax" {
      throw .unsupportedSetting(key: "moe_gate_act", value: gate, supported: "softmax")
    }
    let shared = try config.int("moe_num_shared_experts", in: 0...256, default: 0) * experts.intermediate
    let sparse = try sparseLayers(config, sizes)
    let bias = try config.bool("use_bias", default: false)
    let rope = try RoPEScaling(config, sizes: sizes, theta: 500_000, interleaved: true)
    let frame = try DecoderFrame(sizes, rope: rope, checkpoint)
    let layers = try frame.preNormLayers(.init(bias: bias, outputBias: bias)) {
      index, weights throws(ModelError) in
      sparse(index)
        ? try mixture(experts, shared: shared, bias: bias, sizes, weights.at("mlp"))
        : .dense(try DenseMLP(sizes.hidden, sizes.intermediate, bias: bias, weights.at("mlp")))
    }
    return Decoder(frame, layers)
  }

  private static func mixture(
    _ experts: Experts.Sizes, shared: Int, bias: Bool, _ sizes: DecoderSizes, _ weights: LayerLoader
  ) throws(ModelError) -> FeedForward {
    var options = Experts.Options()
    options.names.selectionBias = ["moe_statics", "gate.moe_statics"].map { $0 + ".e_score_correction_bias" }
      .first { weights.has($0) }
    return .experts(
      try Experts(
        experts, hidden: sizes.hidden, rule: ExpertRule(perRow: experts.perRow, scores: .chosen), options,
        shared: shared == 0
          ? nil : SharedExpert(try DenseMLP(sizes.hidden, shared, bias: bias, weights.at("shared_experts"))),
        weights))
  }

  /// Layers from the first to the last, in steps; of lists, which have one entry per kind of input, the widest range.
  private static func sparseLayers(
    _ config: ConfigFields, _ sizes: DecoderSizes
  ) throws(ModelError) -> (Int) -> Bool {
    func bound(_ key: String, _ fallback: Int, _ best: ([Int]) -> Int?) throws(ModelError) -> Int {
      guard config.value(key)?.arrayValue != nil else {
        return try config.int(key, in: -1...1024, default: fallback)
      }
      return best(try config.ints(key, in: -1...1024)) ?? fallback
    }
    let first = try bound("moe_layer_start_index", 0) { $0.min() }
    let stated = try bound("moe_layer_end_index", -1) { $0.max() }
    let last = stated < 0 ? sizes.layers - 1 : stated
    let step = try config.int("moe_layer_interval", in: 1...1024, default: 1)
    return { ($0 + 1) % step == 0 && $0 >= first && $0 <= last }
  }
}
