// Which model types GGUF's architectures are, and what their tensors and settings are called in safetensors and config.json.

import JSON

/// An architecture of llama.cpp's that has a family here.
struct GGUFArchitecture: Sendable {
  let name: String
  /// `model_type` of config.json.
  let modelType: String
  /// Rows of queries and keys were put side by side in pairs, as llama.cpp's rotation wants them.
  var pairsRows = false
  /// Norms are stored plus one, but for the one of a recurrence.
  var shiftsNorms = false
  /// Modules of a layer that are called otherwise than most; those that begin with a dot are in the MLP.
  var modules: [String: String] = [:]
  /// Tensors of a layer that are parameters by themselves, no module's weight: their whole names.
  var parameters: [String: String] = [:]
  /// Modules outside of layers that are called otherwise than most.
  var outer: [String: String] = [:]
  /// Where layers, and a layer's MLP, are.
  var layers = "model.layers"
  var mlp = "mlp"
  /// The MLP that all rows go through, beside the experts.
  var shared = ".shared_expert"
  var epsilon = "rms_norm_eps"
  /// What config.json calls the number of experts, those that a row takes, and the width of one: nil where that is the
  /// width of the MLP.
  var experts = "num_experts"
  var expertsPerRow = "num_experts_per_tok"
  var expertWidth: String? = "moe_intermediate_size"
  /// Keys of the file, without the architecture, whose numbers and flags config.json has under other names.
  var settings: [String: String] = [:]
  /// What config.json says of all models of the architecture.
  var constants: KeyValuePairs<String, JSONValue> = [:]

  private static let aroundMLP = ["ffn_norm": "pre_feedforward_layernorm"]
  /// Of Gemma 3n and 4: a second embedding feeds every layer.
  private static let secondEmbedding = [
    "per_layer_token_embd": "model.embed_tokens_per_layer",
    "per_layer_model_proj": "model.per_layer_model_projection",
    "per_layer_proj_norm": "model.per_layer_projection_norm",
  ]
  private static let secondInput = [
    "ffn_norm": "pre_feedforward_layernorm", "inp_gate": "per_layer_input_gate",
    "proj": "per_layer_projection", "post_norm": "post_per_layer_input_norm",
  ]
  private static let secondSettings = [
    "attention.shared_kv_layers": "num_kv_shared_layers",
    "embedding_length_per_layer_input": "hidden_size_per_layer_input",
    "attention.sliding_window": "sliding_window", "final_logit_softcapping": "final_logit_softcapping",
  ]
  /// Granite's four multipliers.
  private static let multipliers = [
    "attention.scale": "attention_multiplier", "embedding_scale": "embedding_multiplier",
    "residual_scale": "residual_multiplier", "logit_scale": "logits_scaling",
  ]
  private static let headNorms = [
    "attn_q_norm": "self_attn.query_layernorm", "attn_k_norm": "self_attn.key_layernorm",
  ]
  /// The keys of DeepSeek's configs, which many have taken over.
  private static let routed = [
    "leading_dense_block_count": "first_k_dense_replace", "expert_shared_count": "n_shared_experts",
    "expert_weights_scale": "routed_scaling_factor", "expert_weights_norm": "norm_topk_prob",
    "expert_group_count": "n_group", "expert_group_used_count": "topk_group",
  ]
  private static let routerBias = ["exp_probs_b.bias": "mlp.gate.e_score_correction_bias"]
  private static let latent = [
    "attn_q_a": "self_attn.q_a_proj", "attn_q_b": "self_attn.q_b_proj",
    "attn_q_a_norm": "self_attn.q_a_layernorm", "attn_kv_a_mqa": "self_attn.kv_a_proj_with_mqa",
    "attn_kv_a_norm": "self_attn.kv_a_layernorm", "attn_kv_b": "self_attn.kv_b_proj",
    "attn_k_b": "self_attn.embed_q", "attn_v_b": "self_attn.unembed_out",
  ]
  private static let deltaNet = [
    "attn_qkv": "linear_attn.in_proj_qkv", "attn_gate": "linear_attn.in_proj_z",
    "ssm_alpha": "linear_attn.in_proj_a", "ssm_beta": "linear_attn.in_proj_b",
    "ssm_ba": "linear_attn.in_proj_ba", "ssm_conv1d": "linear_attn.conv1d",
    "ssm_norm": "linear_attn.norm", "ssm_out": "linear_attn.out_proj",
  ]
  private static let deltaNetParameters = [
    "ssm_a": "linear_attn.A_log", "ssm_dt.bias": "linear_attn.dt_bias",
  ]
  private static let deltaNetSettings = [
    "ssm.time_step_rank": "linear_num_value_heads", "ssm.group_count": "linear_num_key_heads",
    "ssm.state_size": "linear_key_head_dim", "ssm.conv_kernel": "linear_conv_kernel_dim",
    "expert_shared_feed_forward_length": "shared_expert_intermediate_size",
  ]

  private static func mamba(_ module: String) -> [String: String] {
    [
      "ssm_in": module + ".in_proj", "ssm_conv1d": module + ".conv1d", "ssm_norm": module + ".norm",
      "ssm_out": module + ".out_proj",
    ]
  }
  private static func mambaParameters(_ module: String) -> [String: String] {
    ["ssm_a": module + ".A_log", "ssm_d": module + ".D", "ssm_dt.bias": module + ".dt_bias"]
  }
  private static let mambaSettings = [
    "ssm.time_step_rank": "mamba_n_heads", "ssm.group_count": "mamba_n_groups",
    "ssm.state_size": "mamba_d_state", "ssm.conv_kernel": "mamba_d_conv",
  ]

  private static let shortConvolutions = [
    "attn_norm": "operator_norm", "ffn_norm": "ffn_norm", "attn_output": "self_attn.out_proj",
    "attn_q_norm": "self_attn.q_layernorm", "attn_k_norm": "self_attn.k_layernorm",
  ]
  private static let embeddingNorm = [
    "token_embd_norm": "model.embedding_norm", "output_norm": "model.embedding_norm",
  ]

  /// In the order of use. Ranked as downloads are; what has no golden here is refused.
  static let all: [GGUFArchitecture] = [
    .init(name: "llama", modelType: "llama", pairsRows: true, experts: "num_local_experts", expertWidth: nil),
    .init(name: "qwen2", modelType: "qwen2"),
    .init(name: "qwen3", modelType: "qwen3"),
    .init(name: "gemma3", modelType: "gemma3_text", shiftsNorms: true, modules: aroundMLP),
    .init(
      name: "gemma4", modelType: "gemma4_text",
      modules: secondInput.merging([
        "post_ffw_norm_1": "post_feedforward_layernorm_1", "pre_ffw_norm_2": "pre_feedforward_layernorm_2",
        "post_ffw_norm_2": "post_feedforward_layernorm_2", "ffn_gate_inp": "router.proj",
        "ffn_gate_exps": "experts.switch_glu.gate_proj", "ffn_up_exps": "experts.switch_glu.up_proj",
      ]) { $1 },
      parameters: [
        "layer_output_scale.weight": "layer_scalar", "ffn_gate_inp.scale": "router.scale",
        "ffn_down_exps.scale": "router.per_expert_scale",
        "ffn_gate_up_exps.weight": "experts.gate_up_proj", "ffn_down_exps.weight": "experts.down_proj",
      ],
      outer: secondEmbedding, expertsPerRow: "top_k_experts",
      settings: secondSettings.merging([
        "attention.key_length_swa": "head_dim", "attention.key_length": "global_head_dim",
      ]) { $1 },
      constants: ["hidden_activation": "gelu_pytorch_tanh"]),
    .init(
      name: "gemma3n", modelType: "gemma3n_text",
      modules: secondInput.merging([
        "altup_correct_coef": "altup.correction_coefs", "altup_predict_coef": "altup.prediction_coefs",
        "altup_router": "altup.modality_router", "altup_router_norm": "altup.router_norm",
        "laurel_l": "laurel.linear_left", "laurel_r": "laurel.linear_right",
        "laurel_post_norm": "laurel.post_laurel_norm",
      ]) { $1 },
      parameters: ["altup_correct_scale.weight": "altup.correct_output_scale"],
      outer: secondEmbedding.merging([
        "altup_proj": "model.altup_projections", "altup_unembd_proj": "model.altup_unembed_projections",
      ]) { $1 },
      settings: secondSettings.merging([
        "altup.num_inputs": "altup_num_inputs", "altup.active_idx": "altup_active_idx",
      ]) { $1 },
      constants: ["hidden_activation": "gelu_pytorch_tanh"]),
    .init(name: "qwen3moe", modelType: "qwen3_moe", constants: ["norm_topk_prob": true]),
    .init(
      name: "qwen35", modelType: "qwen3_5_text", shiftsNorms: true, modules: deltaNet,
      parameters: deltaNetParameters, settings: deltaNetSettings),
    .init(
      name: "qwen35moe", modelType: "qwen3_5_moe_text", shiftsNorms: true, modules: deltaNet,
      parameters: deltaNetParameters, settings: deltaNetSettings),
    .init(
      name: "gpt-oss", modelType: "gpt_oss",
      modules: [
        "ffn_gate_inp": "mlp.router", "ffn_gate_exps": "mlp.experts.gate_proj",
        "ffn_up_exps": "mlp.experts.up_proj", "ffn_down_exps": "mlp.experts.down_proj",
      ], experts: "num_local_experts", expertWidth: nil,
      settings: [
        "attention.sliding_window": "sliding_window", "expert_feed_forward_length": "intermediate_size",
      ]),
    .init(name: "phi3", modelType: "phi3", modules: ["ffn_up": "mlp.gate_up_proj"]),
    .init(name: "gemma2", modelType: "gemma2", shiftsNorms: true, modules: aroundMLP),
    .init(name: "gemma", modelType: "gemma", shiftsNorms: true),
    .init(
      name: "glm4moe", modelType: "glm4_moe", parameters: routerBias, shared: ".shared_experts",
      experts: "n_routed_experts", settings: routed),
    .init(
      name: "deepseek2", modelType: "deepseek_v3", modules: latent, parameters: routerBias,
      shared: ".shared_experts", experts: "n_routed_experts", settings: routed),
    .init(name: "mistral3", modelType: "ministral3", pairsRows: true),
    .init(
      name: "granite", modelType: "granite", pairsRows: true,
      settings: multipliers),
    .init(
      name: "granitehybrid", modelType: "granitemoehybrid", pairsRows: true,
      modules: mamba("mamba").merging([
        "ffn_gate_inp": ".router.layer", "ffn_down_shexp": "shared_mlp.output_linear",
      ]) { $1 },
      parameters: mambaParameters("mamba"), mlp: "block_sparse_moe", shared: "shared_mlp",
      experts: "num_local_experts", expertWidth: nil,
      settings: multipliers.merging(mambaSettings) { $1 }.merging([
        "expert_shared_feed_forward_length": "shared_intermediate_size"
      ]) { $1 }),
    .init(name: "smollm3", modelType: "smollm3", pairsRows: true),
    .init(
      name: "lfm2", modelType: "lfm2",
      modules: shortConvolutions.merging([
        "ffn_gate": "feed_forward.w1", "ffn_up": "feed_forward.w3", "ffn_down": "feed_forward.w2",
      ]) { $1 }, outer: embeddingNorm, epsilon: "norm_eps",
      settings: ["shortconv.l_cache": "conv_L_cache"], constants: ["block_auto_adjust_ff_dim": false]),
    .init(
      name: "lfm2moe", modelType: "lfm2_moe", modules: shortConvolutions,
      parameters: ["exp_probs_b.bias": "feed_forward.expert_bias"], outer: embeddingNorm, mlp: "feed_forward",
      epsilon: "norm_eps",
      settings: ["shortconv.l_cache": "conv_L_cache", "leading_dense_block_count": "num_dense_layers"]),
    .init(
      name: "llama4", modelType: "llama4_text",
      modules: [
        "ffn_gate_inp": ".router", "ffn_gate_exps": ".experts.gate_proj", "ffn_up_exps": ".experts.up_proj",
        "ffn_down_exps": ".experts.down_proj",
      ], mlp: "feed_forward", experts: "num_local_experts", expertWidth: "intermediate_size",
      settings: [
        "feed_forward_length": "intermediate_size_mlp",
        "interleave_moe_layer_step": "interleave_moe_layer_step",
      ],
      constants: ["attn_temperature_tuning": true]),
    .init(
      name: "minimax-m2", modelType: "minimax_m2",
      parameters: ["exp_probs_b.bias": "block_sparse_moe.e_score_correction_bias"], mlp: "block_sparse_moe",
      experts: "num_local_experts", expertWidth: "intermediate_size",
      settings: ["rope.dimension_count": "rotary_dim"]),
    .init(
      name: "qwen3next", modelType: "qwen3_next", shiftsNorms: true, modules: deltaNet,
      parameters: deltaNetParameters, settings: deltaNetSettings),
    .init(
      name: "nemotron_h_moe", modelType: "nemotron_h", modules: nemotronModules,
      parameters: nemotronParameters, outer: nemotronOuter, layers: "backbone.layers", mlp: "mixer",
      shared: ".shared_experts", epsilon: "layer_norm_epsilon", experts: "n_routed_experts",
      settings: nemotronSettings),
    .init(
      name: "nemotron_h", modelType: "nemotron_h", modules: nemotronModules, parameters: nemotronParameters,
      outer: nemotronOuter, layers: "backbone.layers", mlp: "mixer", epsilon: "layer_norm_epsilon",
      settings: nemotronSettings),
    .init(
      name: "kimi-linear", modelType: "kimi_linear",
      modules: latent.merging([
        "ssm_conv1d_q": "self_attn.q_conv.conv", "ssm_conv1d_k": "self_attn.k_conv.conv",
        "ssm_conv1d_v": "self_attn.v_conv.conv", "ssm_beta": "self_attn.b_proj",
        "ssm_f_a": "self_attn.f_a_proj", "ssm_f_b": "self_attn.f_b_proj", "ssm_g_a": "self_attn.g_a_proj",
        "ssm_g_b": "self_attn.g_b_proj", "ssm_norm": "self_attn.o_norm",
      ]) { $1 },
      parameters: [
        "ssm_a": "self_attn.A_log", "ssm_dt.bias": "self_attn.dt_bias",
        "exp_probs_b.bias": "mlp.e_score_correction_bias",
      ], shared: ".shared_experts", expertsPerRow: "num_experts_per_token",
      settings: [
        "leading_dense_block_count": "first_k_dense_replace", "expert_shared_count": "num_shared_experts",
        "expert_weights_scale": "routed_scaling_factor",
      ],
      constants: ["mla_use_nope": true, "moe_renormalize": true]),
    .init(name: "olmo2", modelType: "olmo2"),
    .init(
      name: "qwen2moe", modelType: "qwen2_moe",
      settings: ["expert_shared_feed_forward_length": "shared_expert_intermediate_size"],
      constants: ["norm_topk_prob": false]),
    .init(name: "olmoe", modelType: "olmoe", experts: "num_local_experts", expertWidth: nil),
    .init(
      name: "ernie4_5-moe", modelType: "ernie4_5_moe",
      parameters: ["exp_probs_b.bias": "mlp.gate.moe_statics.e_score_correction_bias"],
      shared: ".shared_experts", experts: "moe_num_experts", expertsPerRow: "moe_k",
      settings: [
        "leading_dense_block_count": "moe_layer_start_index", "expert_shared_count": "moe_num_shared_experts",
        "interleave_moe_layer_step": "moe_layer_interval",
      ]),
    .init(name: "seed_oss", modelType: "seed_oss"),
    .init(name: "hunyuan-dense", modelType: "hunyuan_v1_dense", modules: headNorms),
    .init(
      name: "hunyuan-moe", modelType: "hunyuan_v1_moe",
      modules: headNorms.merging(["ffn_gate_inp": ".gate.wg"]) { $1 }, shared: ".shared_mlp",
      expertsPerRow: "moe_topk", settings: ["expert_shared_count": "num_shared_expert"]),
    .init(name: "ernie4_5", modelType: "ernie4_5"),
    .init(
      name: "falcon-h1", modelType: "falcon_h1",
      modules: mamba("mamba").merging([
        "ffn_gate": "feed_forward.gate_proj", "ffn_up": "feed_forward.up_proj",
        "ffn_down": "feed_forward.down_proj",
      ]) { $1 },
      parameters: mambaParameters("mamba").merging(["ffn_norm": "pre_ff_layernorm.weight"]) { $1 },
      outer: ["output_norm": "model.final_layernorm"], settings: mambaSettings,
      constants: ["mamba_norm_before_gate": false]),
    .init(
      name: "exaone-moe", modelType: "exaone_moe", parameters: routerBias, shared: ".shared_experts",
      settings: [
        "expert_shared_count": "num_shared_experts", "expert_weights_scale": "routed_scaling_factor",
        "expert_weights_norm": "norm_topk_prob", "expert_group_count": "n_group",
        "expert_group_used_count": "topk_group", "attention.sliding_window": "sliding_window",
      ]),
    .init(
      name: "dots1", modelType: "dots1", parameters: routerBias, shared: ".shared_experts",
      experts: "n_routed_experts", settings: routed),
    .init(
      name: "afmoe", modelType: "afmoe",
      modules: [
        "ffn_norm": "pre_mlp_layernorm", "post_ffw_norm": "post_mlp_layernorm",
        "attn_gate": "self_attn.gate_proj", "ffn_gate_inp": "mlp.router.gate",
        "ffn_gate_exps": "mlp.experts.gate_proj", "ffn_up_exps": "mlp.experts.up_proj",
        "ffn_down_exps": "mlp.experts.down_proj",
      ],
      parameters: ["exp_probs_b.bias": "mlp.expert_bias"], shared: ".shared_experts",
      settings: [
        "leading_dense_block_count": "num_dense_layers", "expert_shared_count": "num_shared_experts",
        "expert_weights_scale": "route_scale", "attention.sliding_window": "sliding_window",
      ],
      constants: ["mup_enabled": true]),
    .init(
      name: "starcoder2", modelType: "starcoder2",
      modules: ["ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"], epsilon: "norm_epsilon",
      constants: ["hidden_act": "gelu_pytorch_tanh"]),
    .init(
      name: "glm4", modelType: "glm4",
      modules: [
        "post_attention_norm": "post_self_attn_layernorm", "post_ffw_norm": "post_mlp_layernorm",
        "ffn_up": "mlp.gate_up_proj",
      ]),
    .init(name: "exaone4", modelType: "exaone4"),
    .init(
      name: "bert", modelType: "bert",
      modules: [
        "attn_q": "attention.self.query", "attn_k": "attention.self.key", "attn_v": "attention.self.value",
        "attn_output": "attention.output.dense", "attn_output_norm": "attention.output.LayerNorm",
        "ffn_up": "intermediate.dense", "ffn_down": "output.dense", "layer_output_norm": "output.LayerNorm",
      ], outer: encoderOuter, layers: "encoder.layer", epsilon: "layer_norm_eps"),
    .init(
      name: "nomic-bert", modelType: "nomic_bert",
      modules: [
        "attn_qkv": "attn.Wqkv", "attn_output": "attn.out_proj", "attn_output_norm": "norm1",
        "ffn_gate": "mlp.fc12", "ffn_up": "mlp.fc11", "ffn_down": "mlp.fc2", "layer_output_norm": "norm2",
      ], outer: encoderOuter.merging(["token_embd_norm": "emb_ln"]) { $1 }, layers: "encoder.layers",
      epsilon: "layer_norm_eps"),
    .init(
      name: "gemma-embedding", modelType: "gemma3_text", shiftsNorms: true, modules: aroundMLP,
      outer: ["dense_2": "dense.0", "dense_3": "dense.1"],
      settings: ["attention.sliding_window": "sliding_window"],
      constants: ["hidden_activation": "gelu_pytorch_tanh", "use_bidirectional_attention": true]),
    .init(
      name: "command-r", modelType: "cohere", epsilon: "layer_norm_eps",
      settings: ["logit_scale": "logit_scale"]),
    .init(
      name: "cohere2", modelType: "cohere2", epsilon: "layer_norm_eps",
      settings: ["logit_scale": "logit_scale"]),
  ]

  private static let encoderOuter = [
    "token_embd": "embeddings.word_embeddings", "token_types": "embeddings.token_type_embeddings",
    "position_embd": "embeddings.position_embeddings", "token_embd_norm": "embeddings.LayerNorm",
  ]

  private static let nemotronModules = mamba("mixer").merging([
    "attn_norm": "norm", "attn_q": "mixer.q_proj", "attn_k": "mixer.k_proj", "attn_v": "mixer.v_proj",
    "attn_output": "mixer.o_proj", "ffn_up_exps": ".switch_mlp.fc1", "ffn_down_exps": ".switch_mlp.fc2",
    "ffn_latent_down": ".fc1_latent_proj", "ffn_latent_up": ".fc2_latent_proj",
  ]) { $1 }
  private static let nemotronParameters = mambaParameters("mixer").merging([
    "exp_probs_b.bias": "mixer.gate.e_score_correction_bias"
  ]) { $1 }
  private static let nemotronOuter = [
    "token_embd": "backbone.embeddings", "output_norm": "backbone.norm_f",
  ]
  private static let nemotronSettings = [
    "ssm.time_step_rank": "mamba_num_heads", "ssm.group_count": "n_groups",
    "ssm.state_size": "ssm_state_size",
    "ssm.conv_kernel": "conv_kernel", "expert_shared_count": "n_shared_experts",
    "expert_shared_feed_forward_length": "moe_shared_expert_intermediate_size",
    "expert_weights_norm": "norm_topk_prob", "expert_weights_scale": "routed_scaling_factor",
    "expert_group_count": "n_group", "expert_group_used_count": "topk_group",
    "moe_latent_size": "moe_latent_size",
  ]

  /// Names of tensors outside of layers.
  private static let outerNames = [
    "token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head",
  ]

  /// Names of modules in a layer; those that begin with a dot are in the MLP.
  private static let moduleNames = [
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "attn_qkv": "self_attn.qkv_proj",
    "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm", "post_attention_norm": "post_attention_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm", "ffn_gate": ".gate_proj", "ffn_up": ".up_proj",
    "ffn_down": ".down_proj", "ffn_gate_inp": ".gate", "ffn_gate_exps": ".switch_mlp.gate_proj",
    "ffn_up_exps": ".switch_mlp.up_proj", "ffn_down_exps": ".switch_mlp.down_proj",
    "ffn_gate_inp_shexp": ".shared_expert_gate", "shortconv.conv": "conv.conv",
    "shortconv.in_proj": "conv.in_proj", "shortconv.out_proj": "conv.out_proj",
  ]
  private static let sharedNames = [
    "ffn_gate_shexp": ".gate_proj", "ffn_up_shexp": ".up_proj", "ffn_down_shexp": ".down_proj",
  ]

  /// What a tensor is called in safetensors, and its module's name in the file; nil for one that no model asks for.
  func place(of name: String) -> (name: String, module: String)? {
    let parts = name.split(separator: ".").map(String.init)
    guard let ending = parts.last else { return nil }
    let isWeight = parts.count >= 2 && ["weight", "bias"].contains(ending)
    guard parts[0] == "blk" else {
      let module = parts.dropLast().joined(separator: ".")
      return isWeight ? (outer[module] ?? Self.outerNames[module]).map { ($0 + "." + ending, module) } : nil
    }
    guard parts.count >= 3, let layer = Int(parts[1]), layer >= 0 else { return nil }
    let start = "\(layers).\(layer)."
    let rest = parts[2...].joined(separator: ".")
    let module = isWeight && parts.count > 3 ? parts[2..<parts.count - 1].joined(separator: ".") : rest
    if let parameter = parameters[rest] { return (start + parameter, module) }
    if rest == "attn_sinks.weight" { return (start + "self_attn.sinks", module) }
    guard isWeight, parts.count > 3 else { return nil }
    guard
      let known = modules[module] ?? Self.sharedNames[module].map({ shared + $0 }) ?? Self.moduleNames[module]
    else { return nil }
    return (start + (known.hasPrefix(".") ? mlp : "") + known + "." + ending, module)
  }
}
