// Which model types GGUF's architectures are, and what their tensors are called in safetensors.

import Compute

/// An architecture of llama.cpp's that has a family here.
struct GGUFArchitecture: Sendable {
  let name: String
  /// `model_type` of config.json.
  let modelType: String
  /// Rows of queries and keys were put side by side in pairs, as llama.cpp's rotation wants them.
  var pairsRows = false
  /// Norms are stored plus one.
  var shiftsNorms = false
  /// Modules of a layer that are called otherwise than most.
  var modules: [String: String] = [:]
  /// The same of tensors outside of layers.
  var outer: [String: String] = [:]
  /// Where the MLP's modules are.
  var mlp = "mlp"

  private static let aroundMLP = ["ffn_norm": "pre_feedforward_layernorm"]

  /// In the order of use. Ranked as downloads are; what has no golden here is refused.
  static let all: [GGUFArchitecture] = [
    .init(name: "llama", modelType: "llama", pairsRows: true),
    .init(name: "qwen2", modelType: "qwen2"),
    .init(name: "qwen3", modelType: "qwen3"),
    .init(name: "gemma3", modelType: "gemma3_text", shiftsNorms: true, modules: aroundMLP),
    .init(name: "qwen3moe", modelType: "qwen3_moe"),
    .init(name: "phi3", modelType: "phi3", modules: ["ffn_up": "mlp.gate_up_proj"]),
    .init(name: "gemma2", modelType: "gemma2", shiftsNorms: true, modules: aroundMLP),
    .init(name: "gemma", modelType: "gemma", shiftsNorms: true),
    .init(
      name: "gpt-oss", modelType: "gpt_oss",
      modules: [
        "ffn_gate_inp": "mlp.router", "ffn_gate_exps": "mlp.experts.gate_proj",
        "ffn_up_exps": "mlp.experts.up_proj", "ffn_down_exps": "mlp.experts.down_proj",
      ]),
    .init(name: "mistral3", modelType: "ministral3", pairsRows: true),
    .init(name: "granite", modelType: "granite", pairsRows: true),
    .init(name: "smollm3", modelType: "smollm3", pairsRows: true),
    .init(
      name: "lfm2", modelType: "lfm2",
      modules: [
        "attn_norm": "operator_norm", "ffn_norm": "ffn_norm", "attn_output": "self_attn.out_proj",
        "attn_q_norm": "self_attn.q_layernorm", "attn_k_norm": "self_attn.k_layernorm",
        "ffn_gate": "feed_forward.w1", "ffn_up": "feed_forward.w3", "ffn_down": "feed_forward.w2",
      ], outer: ["token_embd_norm": "model.embedding_norm", "output_norm": "model.embedding_norm"]),
    .init(name: "olmo2", modelType: "olmo2"),
    .init(name: "qwen2moe", modelType: "qwen2_moe"),
    .init(name: "olmoe", modelType: "olmoe"),
    .init(name: "seed_oss", modelType: "seed_oss"),
    .init(
      name: "hunyuan-dense", modelType: "hunyuan_v1_dense",
      modules: ["attn_q_norm": "self_attn.query_layernorm", "attn_k_norm": "self_attn.key_layernorm"]),
    .init(name: "ernie4_5", modelType: "ernie4_5"),
    .init(
      name: "starcoder2", modelType: "starcoder2",
      modules: ["ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"]),
    .init(
      name: "glm4", modelType: "glm4",
      modules: [
        "post_attention_norm": "post_self_attn_layernorm", "post_ffw_norm": "post_mlp_layernorm",
        "ffn_up": "mlp.gate_up_proj",
      ]),
    .init(name: "exaone4", modelType: "exaone4"),
    .init(name: "command-r", modelType: "cohere"),
    .init(name: "cohere2", modelType: "cohere2"),
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
    "ffn_gate_shexp": ".shared_expert.gate_proj", "ffn_up_shexp": ".shared_expert.up_proj",
    "ffn_down_shexp": ".shared_expert.down_proj", "ffn_gate_inp_shexp": ".shared_expert_gate",
    "shortconv.conv": "conv.conv", "shortconv.in_proj": "conv.in_proj", "shortconv.out_proj": "conv.out_proj",
  ]

  /// What a tensor is called in safetensors, and its module's name in the file; nil for one that no model asks for.
  func place(of name: String) -> (name: String, module: String)? {
    let parts = name.split(separator: ".").map(String.init)
    guard parts.count >= 2, let ending = parts.last, ["weight", "bias"].contains(ending) else { return nil }
    guard parts[0] == "blk" else {
      let module = parts.dropLast().joined(separator: ".")
      return (outer[module] ?? Self.outerNames[module]).map { ($0 + "." + ending, module) }
    }
    guard parts.count >= 4, let layer = Int(parts[1]), layer >= 0 else { return nil }
    let module = parts[2..<parts.count - 1].joined(separator: ".")
    let start = "model.layers.\(layer)."
    // A vector by itself, no module's weight.
    if module == "attn_sinks" { return (start + "self_attn.sinks", module) }
    guard let known = modules[module] ?? Self.moduleNames[module] else { return nil }
    return (start + (known.hasPrefix(".") ? mlp : "") + known + "." + ending, module)
  }
}
