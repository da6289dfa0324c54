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
    ("final_logit_softcapping", []), ("group_limited_greedy", [false]), ("index_topk", []),
    ("interleave_moe_layer_step", [0, 1]), ("logit_scale", [1, 1.0]), ("logits_scaling", [1, 1.0]),
    ("moe_layer_num_skipped", [0]), ("no_rope_layers", [[]]), ("norm_head", [false]),
    ("num_expert_groups", [1]), ("num_limited_groups", [1]), ("parallel_attn", [false]),
    ("position_embedding_xdrope", [false]),
    ("post_norm", [false]), ("qk_layernorm", [false]), ("qk_norm", [false]), ("query_pre_attn_scalar", []),
    ("residual_multiplier", [1, 1.0]), ("rope_traditional", [false]), ("rotary_dim", []),
    ("rotary_pct", [1, 1.0]),
    ("scale_depth", []), ("scale_emb", [1, 1.0]), ("sparse_config", []), ("swiglu_limit", []),
    ("use_bidirectional_attention", [false]), ("use_cla", [false]), ("use_mla", [false]),
    ("use_parallel_residual", [false]), ("use_qk_norm", [false]), ("use_rotary_pos_emb", [true]),
  ]

  /// Keys by which no model here computes, whatever their values: names of classes and types, ids of tokens, how a model was
  /// made and trained, sizes that tensors show, and what belongs to towers and draft heads that are left unread.
  private static let harmless: Set<String> = [
    "_attn_implementation", "_name_or_path", "activation_dropout", "add_classification_head",
    "add_cross_attention", "altup_coef_clip", "architectures", "attention_dropout",
    "attention_probs_dropout_prob", "auto_map", "aux_loss_alpha", "begin_suppress_tokens", "block_dim",
    "bos_token_id", "capacity_factor", "chunk_size", "chunk_size_feed_forward", "cla_share_factor",
    "class_num", "classifier_bias", "classifier_dropout", "compression_config", "cross_attention_hidden_size",
    "decoder_start_token_id", "dense_list", "diversity_penalty", "do_sample", "dtype",
    "dual_chunk_attention_config", "early_stopping", "embd_pdrop", "enable_lm_head_fp32", "eos_token_id",
    "ep_size", "exponential_decay_length_penalty", "finetuning_task", "forced_bos_token_id",
    "forced_eos_token_id", "generation_config", "gradient_checkpointing", "hidden_dropout",
    "hidden_dropout_prob", "id2label", "init_std", "initial_context_length", "initializer_factor",
    "initializer_range", "intermediate_size", "is_decoder", "is_encoder_decoder", "is_llama_config",
    "keys_to_ignore_at_inference", "label2id", "layer_norm_bias", "length_penalty", "load_balance_coeff",
    "mamba_chunk_size", "mamba_expand", "mamba_ssm_dtype", "mamba_use_mlp", "max_length", "max_new_tokens",
    "min_length", "mlx_version", "model_type", "moe_drop_tokens", "moe_norm_min",
    "moe_random_routing_dropped_token", "moe_shared_expert_overlap", "moe_use_aux_free",
    "mtp_hybrid_override_pattern", "mtp_num_hidden_layers", "mtp_use_dedicated_embeddings",
    "multimodal_projector_bias", "no_repeat_ngram_size", "num_beam_groups", "num_beams", "num_logits_to_keep",
    "num_media_embeds", "num_nextn_predict_layers", "num_return_sequences", "org_vocab_size",
    "output_attentions", "output_hidden_states", "output_router_logits", "output_scores", "pad_token_id",
    "padding_idx", "pool_type", "prefix", "pretraining_tp", "problem_type", "projector_hidden_act",
    "projectors_bias", "pruned_heads", "quantization", "quantization_config", "remove_invalid_values",
    "repetition_penalty", "rescale_prenorm_residual", "resid_pdrop", "residual_in_fp32", "return_dict",
    "return_dict_in_generate", "rope_scaling", "router_aux_loss_coef", "router_jitter_noise", "scale_factor",
    "sep_token_id",
    "seq_aux", "skip_cls_token", "suppress_tokens", "task_specific_params", "temperature", "text_config",
    "text_end_id", "text_start_id", "tf_legacy_loss", "tie_encoder_decoder", "tie_word_embeddings",
    "time_step_floor", "time_step_max", "time_step_min", "time_step_rank", "tokenizer_class", "top_k",
    "top_p", "torch_dtype", "torchscript", "transformers_version", "typical_p", "unsloth_fixed",
    "unsloth_version", "use_bfloat16", "use_cache", "use_expert_bias", "use_grouped_mm", "use_mamba_kernels",
    "use_return_dict", "vocab_size",
  ]

  /// Parts of config.json, by how their keys end or begin, that are about towers and special tokens.
  private static let harmlessEndings = [
    "_token_id", "_token_index", "_token_ids", "_dropout", "_config", "_feature_layer",
    "_feature_select_strategy",
  ]
  private static let harmlessBeginnings = [
    "vision_", "image_", "video_", "audio_", "mm_", "boi_", "eoi_", "vit_",
  ]

  /// Counts of experts, which dense models of a family with experts keep as 0.
  private static let expertCounts = ["num_local_experts", "num_experts", "n_routed_experts"]

  /// Keys that mean nothing beside another, or without one: published configs of SmolLM3 list their layers and keep the
  /// interval, Phi-4 keeps the length before a stretching that it lacks, a dense Granite 4 its experts per token, Qwen2 and
  /// MiMo the first of the sliding layers that they switch off.
  private static func isIdle(_ key: String, in config: ConfigFields) -> Bool {
    switch key {
    case "no_rope_layer_interval": config.look("no_rope_layers") != nil
    case "max_window_layers": config.look("use_sliding_window") != true
    case "original_max_position_embeddings": config.look("rope_scaling") == nil
    case "num_experts_per_tok": expertCounts.allSatisfy { (config.look($0) ?? 0) == 0 }
    case let count where expertCounts.contains(count): config.look(count) == 0
    default: false
    }
  }

  /// Keys that say something, that the model's family did not read, and of which nothing is known: they are told.
  static func unknown(_ config: ConfigFields, read keys: ReadKeys) -> [String] {
    let known = Set(neutral.map(\.key) + ["layer_types"])
    return config.names.filter { name in
      let key = name.split(separator: ".").last.map(String.init) ?? name
      return !keys.contains(name) && !known.contains(key) && !harmless.contains(key)
        && !isIdle(key, in: config)
        && !harmlessEndings.contains { key.hasSuffix($0) }
        && !harmlessBeginnings.contains { key.hasPrefix($0) }
    }
  }

  /// - Throws: `unsupportedSetting` for a key of the rotation that its type does not have: all of them change frequencies.
  private static func checkRotation(_ config: ConfigFields) throws(ModelError) {
    for place in ["rope_scaling", "rope_parameters"] {
      guard let scaling = try config.object(place) else { continue }
      for name in scaling.names {
        let key = name.split(separator: ".").last.map(String.init) ?? name
        // An object holds the rotation of one type of layers.
        guard !rotationKeys.contains(key), scaling.value(key)?.objectValue == nil else { continue }
        throw .unsupportedSetting(
          key: name, value: scaling.value(key)?.text ?? "",
          supported: rotationKeys.sorted().joined(separator: ", "))
      }
    }
  }

  /// What `RoPEScaling` reads, and the sections that positions of images have, which are equal in text.
  private static let rotationKeys: Set<String> = [
    "alpha", "attention_factor", "beta_fast", "beta_slow", "factor", "finetuned", "high_freq_factor",
    "llama_4_scaling_beta", "long_factor", "long_mscale", "low_freq_factor", "mrope_interleaved",
    "mrope_section", "mscale",
    "mscale_all_dim", "original_max_position_embeddings", "partial_rotary_factor", "rope_theta", "rope_type",
    "short_factor", "short_mscale", "truncate", "type",
  ]

  /// - Parameter keys: those that were read of this object.
  /// - Throws: `unsupportedSetting` for the first that says something and was not read.
  static func check(_ config: ConfigFields, read keys: ReadKeys) throws(ModelError) {
    try checkRotation(config)
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
