// Settings that change what a model computes, and that its family did not read: they are refused, not passed over.

import JSON

/// Which keys of config.json were read while a model was bound. Used by one thread.
final class ReadKeys {
  private var keys: Set<String> = []

  func insert(_ key: String) { keys.insert(key) }

  func contains(_ key: String) -> Bool { keys.contains(key) }
}

enum UnreadSettings {
  /// Keys that some family's reference implementation computes by, and the values that mean as much as absence. A family
  /// that has no such operation does not read them. What is in no family's arithmetic (dropout, initialisation, ids of
  /// tokens, sizes that tensors show, names of classes) is not here.
  static let neutral: [(key: String, values: [JSONValue])] = [
    ("alibi", [false]), ("attention_chunk_size", []), ("attention_multiplier", []),
    ("attention_out_bias", [false]),
    ("attn_logit_softcapping", []), ("attn_temperature_tuning", [false, 0]),
    ("clip_qkv", []), ("dim_model_base", []),
    ("final_logit_softcapping", []), ("index_topk", []), ("interleave_moe_layer_step", [0, 1]),
    ("logit_scale", [1, 1.0]),
    ("logits_scaling", [1, 1.0]), ("no_rope_layers", [[]]),
    ("norm_head", [false]), ("parallel_attn", [false]),
    ("post_norm", [false]), ("qk_layernorm", [false]), ("qk_norm", [false]), ("query_pre_attn_scalar", []),
    ("residual_multiplier", [1, 1.0]), ("rope_traditional", [false]), ("rotary_dim", []),
    ("rotary_pct", [1, 1.0]),
    ("scale_depth", []), ("scale_emb", [1, 1.0]), ("swiglu_limit", []),
    ("use_bidirectional_attention", [false]), ("use_cla", [false]),
    ("use_parallel_residual", [false]), ("use_qk_norm", [false]),
  ]

  /// - Parameter keys: those that were read of this object.
  /// - Throws: `unsupportedSetting` for the first that says something and was not read.
  static func check(_ config: ConfigFields, read keys: ReadKeys) throws(ModelError) {
    for (key, values) in neutral {
      // Asked before looking, which counts as reading.
      let name = config.name(of: key)
      guard !keys.contains(name), let value = config.value(key), !values.contains(value) else { continue }
      throw .unsupportedSetting(
        key: name, value: value.text, supported: "a model without it: this family does not compute by it")
    }
    let name = config.name(of: "layer_types")
    guard !keys.contains(name), let types = config.value("layer_types")?.arrayValue else { return }
    if let other = types.first(where: { $0.stringValue != "full_attention" }) {
      throw .unsupportedSetting(key: name, value: other.text, supported: "full_attention in this family")
    }
  }
}
