// The values of model_type that are known and not run, with the reason. docs/models.md lists the same.

/// Every model type of mlx-lm is here or in `ModelFamily`'s table, and some that are newer.
package enum RefusedTypes {
  /// Reasons, in the words of an error and of docs/models.md.
  private static let groups: [(reason: String, types: [String])] = [
    ("Mamba 1: a selective scan", ["falcon_mamba", "jamba", "mamba", "plamo2"]),
    ("a recurrence of its own", ["bailing_moe_linear", "mamba2", "recurrent_gemma", "rwkv7"]),
    ("convolutions of keys and values", ["baichuan_m1"]),
    ("ternary weights", ["bitnet"]),
    ("an indexer that picks keys", ["deepseek_v32", "glm_moe_dsa"]),
    ("block-sparse attention", ["phi3small"]),
    ("looped layers", ["iquestloopcoder"]),
    ("embeddings of n-grams", ["longcat_flash_ngram"]),
    ("adapters and reused keys and values", ["afm7"]),
    (
      "learned positions or layer norms around fused projections",
      ["dbrx", "gpt2", "gpt_bigcode", "gpt_neox", "phi", "phimoe", "phixtral", "stablelm"]
    ),
    ("a SwiGLU clipped after its activation", ["step3p5"]),
    (
      "names or factors of its own that nobody has written down here",
      [
        "Klear", "helium", "iquestcoder", "laguna", "lille-130m", "llava", "longcat_flash", "mellum",
        "mimo_v2_flash", "minicpm3", "nanochat", "nemotron", "nemotron-nas", "olmo", "openelm", "pixtral",
        "plamo", "qwen", "telechat3", "youtu_llm",
      ]
    ),
    (
      "newer than the reference implementations",
      [
        "cohere2_moe", "deepseek_v4", "exaone4_5", "glm5_next", "granite_swa", "hy_v3", "hy_v4", "inkling",
        "kimi_k3",
        "lfm3", "minimax_m3", "mistral4", "muse_glimmer", "olmo_hybrid", "qwen4_exp", "step3p7", "zaya",
      ]
    ),
  ]

  /// Type and reason, in order.
  package static let all: [(type: String, reason: String)] =
    groups.flatMap { group in group.types.map { ($0, group.reason) } }.sorted { $0.type < $1.type }

  /// Why a type is not run; nil for one that is not known.
  static func reason(for type: String) -> String? { all.first { $0.type == type }?.reason }
}
