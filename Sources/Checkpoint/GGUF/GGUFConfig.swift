// config.json as it would be, made from the metadata of a GGUF file.

import Compute
import JSON
import Platform

/// The settings of a model by their keys in config.json. What a model's family takes for an absent key is left out.
struct GGUFConfig {
  private(set) var object = JSONObject()
  private(set) var heads = 1
  private(set) var kvHeads = 1
  private let file: GGUFFile
  private let files: [GGUFFile]
  private let architecture: GGUFArchitecture
  private let tensors: Set<String>

  /// - Throws: `.badValue` with the key of the file that is missing or does not fit.
  init(_ files: [GGUFFile], _ architecture: GGUFArchitecture) throws(CheckpointError) {
    (self.files, file, self.architecture) = (files, files[0], architecture)
    tensors = Set(files.flatMap { $0.tensors.map(\.name) })
    object["model_type"] = .string(architecture.modelType)
    for (key, value) in architecture.constants { object[key] = value }
    try readSizes()
    try readRotation()
    try readSettings()
    try readFamily()
    readEnds()
  }

  // MARK: Reading

  /// The value of a key of the architecture's own.
  private func key(_ name: String) -> String { architecture.name + "." + name }

  private func fault(_ name: String, _ problem: String) -> CheckpointError {
    GGUFModel.fault(file, name, problem)
  }

  /// An integer, or one for each layer of which all, but those that are 0, are the same.
  private func size(_ name: String, most: Int = 1 << 30) throws(CheckpointError) -> Int? {
    let name = key(name)
    var value = file.int(name)
    if value == nil, let numbers = file.numbers(name) {
      let kinds = Set(numbers.filter { $0 != 0 })
      guard kinds.count == 1, let only = kinds.first.flatMap({ Int(exactly: $0) }) else {
        throw fault(name, "differs between layers, which is not supported")
      }
      value = only
    }
    guard let value else { return nil }
    guard (0...most).contains(value) else { throw fault(name, "is \(value), expected 0 to \(most)") }
    return value
  }

  /// - Parameter other: the key that has it in older files.
  private func required(_ name: String, or other: String? = nil) throws(CheckpointError) -> Int {
    if let other, !file.has(key(name)) { return try required(other) }
    guard let value = try size(name), value > 0 else { throw fault(key(name), "is missing or 0") }
    return value
  }

  private mutating func set(_ name: String, _ value: Int?) { if let value { object[name] = .int(value) } }
  private mutating func set(_ name: String, _ value: Double?) {
    if let value { object[name] = .double(value) }
  }

  /// A float32 of the file's as people write it: 1e-06, not 9.999999974752427e-07.
  private func float(_ name: String) -> Double? {
    file.double(key(name)).map { value in
      let short = Float(value)
      return Double(short) == value ? Double("\(short)") ?? value : value
    }
  }

  /// The number of layers, and of each one whether it has a tensor.
  private var layers: Int { object["num_hidden_layers"]?.intValue ?? 0 }
  private func layersHave(_ tensor: String) -> [Bool] {
    (0..<layers).map { tensors.contains("blk.\($0).\(tensor)") }
  }

  private func shape(_ name: String) -> [Int]? {
    files.lazy.flatMap(\.tensors).first { $0.name == name }?.shape
  }

  /// The floats of a small tensor.
  private func floats(_ name: String) -> [Double]? {
    for file in files {
      guard let tensor = file.tensors.first(where: { $0.name == name }), tensor.storage == .dense(.f32),
        tensor.range.count <= 1 << 16
      else { continue }
      let bytes = UnsafeRawBufferPointer(rebasing: file.file.bytes[tensor.range])
      return (0..<bytes.count / 4).map { Double(bytes.loadUnaligned(fromByteOffset: 4 * $0, as: Float.self)) }
    }
    return nil
  }

  // MARK: What all families have

  private mutating func readSizes() throws(CheckpointError) {
    let hidden = try required("embedding_length")
    heads = try required("attention.head_count")
    // Full layers of Gemma 4 have another number than sliding ones.
    let stored = architecture.name == "gemma4" ? nil : try size("attention.head_count_kv")
    kvHeads = stored ?? heads
    guard kvHeads > 0 else { throw fault(key("attention.head_count_kv"), "is 0") }
    let layers = try required("block_count") - (try size("nextn_predict_layers") ?? 0)
    guard (1...Self.mostLayers).contains(layers) else {
      throw fault(key("block_count"), "leaves \(layers) layers, expected 1 to \(Self.mostLayers)")
    }
    set("hidden_size", hidden)
    set("num_hidden_layers", layers)
    set("num_attention_heads", heads)
    set("num_key_value_heads", kvHeads)
    // Upper layers of Gemma 4 may be twice as wide, and layers of Nemotron-H have no MLP or experts.
    if architecture.name != "gemma4", !architecture.name.hasPrefix("nemotron_h") {
      set("intermediate_size", try size("feed_forward_length"))
    }
    set("max_position_embeddings", try size("context_length"))
    let width = try size("attention.key_length") ?? hidden / heads
    let isLatent = try size("attention.kv_lora_rank") != nil
    if let values = try size("attention.value_length"), values != width, !isLatent {
      throw fault(key("attention.value_length"), "is not attention.key_length, which is not supported")
    }
    set("head_dim", width)
    guard let table = shape("token_embd.weight"), table.count == 2 else {
      throw fault("token_embd.weight", "is missing: this is no language model, or not all of one")
    }
    set("vocab_size", table[0])
    object["tie_word_embeddings"] = .bool(shape("output.weight") == nil)
    let epsilon = float("attention.layer_norm_rms_epsilon") ?? float("attention.layer_norm_epsilon")
    set(architecture.epsilon, epsilon)
    if let experts = try size("expert_count"), experts > 0 {
      set(architecture.expertsPerRow, try required("expert_used_count"))
      set(architecture.experts, experts)
      // Of others, feed_forward_length is the width of an expert.
      if let name = architecture.expertWidth { set(name, try required("expert_feed_forward_length")) }
    }
  }

  /// As families take; lists are made of it.
  private static let mostLayers = 1_024

  /// What is only called otherwise. A 0 says that there is none.
  private mutating func readSettings() throws(CheckpointError) {
    for (stored, name) in architecture.settings.sorted(by: { $0.key < $1.key }) {
      if let flag = file.bool(key(stored)) {
        object[name] = .bool(flag)
      } else if file.int(key(stored)) != nil {
        set(name, try size(stored))
      } else {
        set(name, float(stored))
      }
    }
  }

  private mutating func readRotation() throws(CheckpointError) {
    let theta = float("rope.freq_base") ?? 10_000
    set("rope_theta", theta)
    let width = object["head_dim"]?.intValue ?? 0
    let turned = try size("rope.dimension_count") ?? width
    if turned > 0, turned < width { set("partial_rotary_factor", Double(turned) / Double(width)) }
    let original = try size("rope.scaling.original_context_length")
    // Gemma 4 says by the divisors which part of a head turns in full layers.
    guard architecture.name != "gemma4" else { return }
    if let divisors = floats("rope_freqs.weight") {
      object["rope_scaling"] = .object(try llama3(divisors, theta: theta, width: turned))
      return
    }
    if let long = floats("rope_factors_long.weight"), let short = floats("rope_factors_short.weight") {
      object["rope_scaling"] = [
        "type": "longrope", "long_factor": .array(long.map(JSONValue.double)),
        "short_factor": .array(short.map(JSONValue.double)),
      ]
      set("original_max_position_embeddings", original)
      return
    }
    guard let factor = float("rope.scaling.factor"), factor > 0 else { return }
    switch file.string(key("rope.scaling.type")) {
    case "linear": object["rope_scaling"] = ["rope_type": "linear", "factor": .double(factor)]
    case "yarn":
      var scaling = JSONObject([("rope_type", "yarn"), ("factor", .double(factor))])
      scaling["original_max_position_embeddings"] = original.map(JSONValue.int)
      scaling["beta_fast"] = float("rope.scaling.yarn_beta_fast").map(JSONValue.double)
      scaling["beta_slow"] = float("rope.scaling.yarn_beta_slow").map(JSONValue.double)
      if architecture.name == "gpt-oss" { scaling["truncate"] = false }
      if architecture.name == "deepseek2", let log = float("rope.scaling.yarn_log_multiplier") {
        (scaling["mscale"], scaling["mscale_all_dim"]) = (.double(10 * log), .double(10 * log))
      }
      object["rope_scaling"] = .object(scaling)
    case nil, "none"?: break
    case let other?:
      throw fault(
        key("rope.scaling.type"), "is \(CheckpointError.quoted(other)): linear and yarn are supported")
    }
  }

  /// Llama 3's scaling, of which the file has nothing but the divisor of each pair's frequency.
  private func llama3(
    _ divisors: [Double], theta: Double, width: Int
  ) throws(CheckpointError) -> JSONObject {
    let (low, high, original) = (1.0, 4.0, 8192.0)
    // The slowest pair is divided by the whole factor. Files of tests have other contexts.
    for original in [original, 64, 128, 256, 512, 1024, 2048, 4096, 16_384, 32_768] {
      for factor in [divisors.max() ?? 1, 8, 32, 16, 4, 2] where divisors.count == width / 2 {
        let fits = divisors.indices.allSatisfy { index in
          let length = 2 * Double.pi * pow(theta, 2 * Double(index) / Double(width))
          let expected: Double
          if length < original / high {
            expected = 1
          } else if length > original / low {
            expected = factor
          } else {
            let share = (original / length - low) / (high - low)
            expected = 1 / ((1 - share) / factor + share)
          }
          return abs(divisors[index] - expected) <= 1e-4 * expected
        }
        guard fits else { continue }
        return JSONObject([
          ("rope_type", "llama3"), ("factor", .double(factor)), ("low_freq_factor", .double(low)),
          ("high_freq_factor", .double(high)), ("original_max_position_embeddings", .int(Int(original))),
        ])
      }
    }
    throw fault("rope_freqs.weight", "has divisors that no scaling of Llama 3 explains")
  }

  // MARK: What one family has

  private mutating func readFamily() throws(CheckpointError) {
    let width = object["head_dim"]?.intValue ?? 1
    switch architecture.name {
    case "llama":
      if object["num_local_experts"] != nil { object["model_type"] = "mixtral" }
    case "gemma": object["hidden_activation"] = "gelu_pytorch_tanh"
    case "gemma2", "gemma3":
      object["hidden_activation"] = "gelu_pytorch_tanh"
      // The largest of each scales by the width per head instead of the head's.
      let hidden = object["hidden_size"]?.intValue ?? 1
      set(
        "query_pre_attn_scalar", layers == (architecture.name == "gemma2" ? 46 : 62) ? hidden / heads : width)
      set("sliding_window", try size("attention.sliding_window"))
      set("attn_logit_softcapping", float("attn_logit_softcapping"))
      set("final_logit_softcapping", float("final_logit_softcapping"))
      if architecture.name == "gemma3" {
        if object["rope_theta"]?.doubleValue == 10_000, float("rope.freq_base") == nil {
          set("rope_theta", 1e6)
        }
        set("rope_local_base_freq", float("rope.freq_base_swa") ?? 10_000)
        try readLayerTypes(period: 6)
      }
    case "phi3": set("sliding_window", try positive("attention.sliding_window"))
    case "bert", "nomic-bert":
      set("type_vocab_size", shape("token_types.weight")?.first ?? 0)
      if let positions = shape("position_embd.weight")?.first { set("max_position_embeddings", positions) }
      guard file.int(key("pooling_type")) != GGUFModel.ranks else {
        throw fault(key("pooling_type"), "is a reranker's, which is not read: use the model's folder")
      }
    case "gemma-embedding":
      set("query_pre_attn_scalar", width)
      set("rope_local_base_freq", float("rope.freq_base_swa") ?? 10_000)
      try readLayerTypes(period: 6)
    case "gemma3n": try readGemma3n()
    case "gemma4": try readGemma4()
    case "gpt-oss": try readLayerTypes(period: 2)
    case "granitehybrid":
      setLayerTypes("attn_q.weight", "attention", otherwise: "mamba")
      try readMamba("mamba_d_head", heads: "mamba_n_heads")
      object["position_embedding_type"] = .string(
        file.bool(key("rope.scaling.finetuned")) ?? false ? "rope" : "nope")
      if object["num_local_experts"] == nil {
        object["shared_intermediate_size"] = object["intermediate_size"]
      }
    case "nemotron_h", "nemotron_h_moe": try readNemotron()
    case "falcon-h1":
      try readMamba("mamba_d_head", heads: "mamba_n_heads")
      set("mamba_d_ssm", try size("ssm.inner_size"))
      object["mamba_rms_norm"] = .bool(tensors.contains("blk.0.ssm_norm.weight"))
    case "qwen35", "qwen35moe", "qwen3next":
      setLayerTypes("ssm_a", "linear_attention", otherwise: "full_attention")
      try readMamba("linear_value_head_dim", heads: "linear_num_value_heads")
      let isTiled = object["linear_num_value_heads"] != object["linear_num_key_heads"]
      if architecture.name != "qwen3next", isTiled { object["linear_value_heads_tiled"] = true }
    case "deepseek2": try readLatentAttention()
    case "kimi-linear":
      try readLatentAttention()
      try readDeltaLayers()
    case "llama4":
      set("attention_chunk_size", try size("attention.sliding_window") ?? 8192)
      // Of the two that there are, the one with 128 experts does not normalise.
      object["use_qk_norm"] = .bool(object["num_local_experts"] != 128)
    case "minimax-m2": object["partial_rotary_factor"] = nil
    case "glm4moe":
      object["use_qk_norm"] = .bool(tensors.contains("blk.0.attn_q_norm.weight"))
      object["attention_bias"] = .bool(tensors.contains("blk.0.attn_q.bias"))
    case "hunyuan-moe": object["use_mixed_mlp_moe"] = .bool(object["num_shared_expert"] != nil)
    case "exaone-moe":
      try readLayerTypes(period: 4)
      object["mlp_layer_types"] = .array(
        layersHave("ffn_gate_inp.weight").map { $0 ? "sparse" : "dense" })
    case "afmoe": try readLayerTypes(period: 4)
    case "mistral3":
      guard var rope = object["rope_scaling"]?.objectValue else { break }
      rope["rope_theta"] = object["rope_theta"]
      if let beta = float("attention.temperature_scale") {
        rope["llama_4_scaling_beta"] = .double(beta)
      }
      // YaRN with a factor of attention that cancels out, as the model's own config.json has it.
      if float("rope.scaling.yarn_log_multiplier") != nil {
        (rope["mscale"], rope["mscale_all_dim"]) = (1, 1)
      }
      (object["rope_scaling"], object["rope_theta"]) = (nil, nil)
      object["rope_parameters"] = .object(rope)
    case "lfm2", "lfm2moe": setLayerTypes("attn_q.weight", "full_attention", otherwise: "conv")
    case "olmo2":
      guard let window = try positive("attention.sliding_window") else { break }
      object["model_type"] = "olmo3"
      set("sliding_window", window)
      try readLayerTypes(period: 4)
    case "qwen2moe", "qwen3moe":
      let dense = layersHave("ffn_gate_inp.weight").enumerated().filter { !$0.element }
      object["mlp_only_layers"] = .array(dense.map { .int($0.offset) })
    case "hunyuan-dense": object["use_qk_norm"] = .bool(shape("blk.0.attn_q_norm.weight") != nil)
    case "starcoder2":
      object["use_bias"] = .bool(shape("blk.0.attn_q.bias") != nil)
      set("sliding_window", try positive("attention.sliding_window"))
    case "exaone4":
      guard let window = try positive("attention.sliding_window") else { break }
      set("sliding_window", window)
      try readLayerTypes(period: 4)
    case "command-r", "cohere2":
      object["use_qk_norm"] = .bool(shape("blk.0.attn_q_norm.weight") != nil)
      guard architecture.name == "cohere2" else { break }
      set("sliding_window", try positive("attention.sliding_window"))
      try readLayerTypes(period: 4)
    default: break
    }
  }

  private mutating func setLayerTypes(_ tensor: String, _ kind: JSONValue, otherwise: JSONValue) {
    object["layer_types"] = .array(layersHave(tensor).map { $0 ? kind : otherwise })
  }

  /// The width of a head of a recurrence: the file has that of all heads.
  private mutating func readMamba(_ name: String, heads: String) throws(CheckpointError) {
    let (inner, count) = (try required("ssm.inner_size"), object[heads]?.intValue ?? 0)
    guard count > 0, inner % count == 0 else {
      throw fault(key("ssm.time_step_rank"), "is \(count), no divisor of ssm.inner_size = \(inner)")
    }
    set(name, inner / count)
  }

  private mutating func readGemma3n() throws(CheckpointError) {
    try readLayerTypes(period: 5)
    set("rope_local_base_freq", float("rope.freq_base_swa") ?? 10_000)
    set("laurel_rank", shape("blk.0.laurel_l.weight")?.first)
    set("vocab_size_per_layer_input", shape("per_layer_token_embd.weight")?.first)
    // The file has how many standard deviations above the mean counts, config.json the share below it.
    let deviations = file.numbers(key("activation_sparsity_scale")) ?? []
    object["activation_sparsity_pattern"] = .array(
      deviations.map { .double($0.isFinite ? (1 + erf($0 / 2.0.squareRoot())) / 2 : 0) })
  }

  private mutating func readGemma4() throws(CheckpointError) {
    let name = "attention.sliding_window_pattern"
    try readLayerTypes(period: 6)
    let sliding = (object["layer_types"]?.arrayValue ?? []).map { $0 == "sliding_attention" }
    func each(_ name: String) throws(CheckpointError) -> [Int] {
      if let one = try? size(name) { return [Int](repeating: one, count: layers) }
      let list = (file.numbers(key(name)) ?? []).compactMap { Int(exactly: $0) }
      guard list.count == layers else { throw fault(key(name), "has not a number for each layer") }
      return list
    }
    let heads = zip(sliding, try each("attention.head_count_kv"))
    guard let local = heads.first(where: \.0)?.1, let full = heads.first(where: { !$0.0 })?.1 else {
      throw fault(key(name), "leaves no layer of one kind")
    }
    set("num_key_value_heads", local)
    let widths = try each("feed_forward_length")
    set("intermediate_size", widths[0])
    object["use_double_wide_mlp"] = .bool(widths.last == 2 * widths[0])
    object["enable_moe_block"] = .bool(tensors.contains("blk.0.ffn_gate_inp.weight"))
    // Full layers without a matrix of values of their own take their keys.
    let values = layersHave("attn_v.weight")
    let shares = zip(sliding, zip(layersHave("attn_k.weight"), values)).contains { !$0 && $1.0 && !$1.1 }
    object["attention_k_eq_v"] = .bool(shares)
    if shares { set("num_global_key_value_heads", full) }
    set("vocab_size_per_layer_input", shape("per_layer_token_embd.weight")?.first)
    let divisors = floats("rope_freqs.weight") ?? [1]
    let turning = Double(divisors.count { $0 < 1e29 }) / Double(max(1, divisors.count))
    object["rope_theta"] = nil
    object["rope_parameters"] = [
      "full_attention": [
        "rope_type": "proportional", "rope_theta": .double(float("rope.freq_base") ?? 1e6),
        "partial_rotary_factor": .double(turning),
      ],
      "sliding_attention": [
        "rope_type": "default", "rope_theta": .double(float("rope.freq_base_swa") ?? 10_000),
      ],
    ]
  }

  /// Heads of latent attention. Files of before 2025 have their widths where others have those of the cache.
  private mutating func readLatentAttention() throws(CheckpointError) {
    let turned = try required("rope.dimension_count")
    let keys = try required("attention.key_length_mla", or: "attention.key_length")
    guard keys > turned else {
      throw fault(key("attention.key_length_mla"), "is \(keys), not above rope.dimension_count = \(turned)")
    }
    set("qk_rope_head_dim", turned)
    set("qk_nope_head_dim", keys - turned)
    set("v_head_dim", try required("attention.value_length_mla", or: "attention.value_length"))
    set("kv_lora_rank", try required("attention.kv_lora_rank"))
    set("q_lora_rank", try size("attention.q_lora_rank"))
    set("num_key_value_heads", heads)
    (object["head_dim"], object["partial_rotary_factor"]) = (.int(turned), nil)
    guard architecture.name == "deepseek2" else { return }
    // GLM-4.7-Flash has the layers of V3 with norms of its own. V2 chooses by shares, without a bias.
    let isV2 = !layersHave("exp_probs_b.bias").contains(true) && file.int(key("expert_gating_func")) != 2
    let isGLM = (object["rms_norm_eps"]?.doubleValue ?? 0) > 5e-6
    object["model_type"] = isV2 ? "deepseek_v2" : isGLM ? "glm4_moe_lite" : "deepseek_v3"
    let groups = object["n_group"]?.intValue ?? 1
    if isV2 { object["topk_method"] = groups > 1 ? "group_limited_greedy" : "greedy" }
    if object["norm_topk_prob"] == nil { object["norm_topk_prob"] = .bool(!isV2) }
  }

  private mutating func readDeltaLayers() throws(CheckpointError) {
    let isLinear = layersHave("ssm_a")
    func places(_ linear: Bool) -> JSONValue {
      .array(isLinear.indices.filter { isLinear[$0] == linear }.map { .int($0 + 1) })
    }
    let rates = isLinear.firstIndex(of: true).flatMap { shape("blk.\($0).ssm_a") } ?? []
    object["linear_attn_config"] = [
      "full_attn_layers": places(false), "kda_layers": places(true),
      "head_dim": .int(try required("kda.head_dim")), "num_heads": .int(rates.reduce(1, *)),
      "short_conv_kernel_size": .int(try required("ssm.conv_kernel")),
    ]
  }

  private mutating func readNemotron() throws(CheckpointError) {
    let (attends, routes) = (layersHave("attn_q.weight"), layersHave("ffn_gate_inp.weight"))
    let recurs = layersHave("ssm_in.weight")
    object["hybrid_override_pattern"] = .string(
      (0..<layers).map { attends[$0] ? "*" : recurs[$0] ? "M" : routes[$0] ? "E" : "-" }.joined())
    try readMamba("mamba_head_dim", heads: "mamba_num_heads")
    let dense = (0..<layers).first { !attends[$0] && !recurs[$0] && !routes[$0] }
    set("intermediate_size", dense.flatMap { shape("blk.\($0).ffn_up.weight")?.first })
    object["mlp_hidden_act"] = "relu2"
  }

  private func positive(_ name: String) throws(CheckpointError) -> Int? {
    let value = try size(name)
    return value == 0 ? nil : value
  }

  /// Sliding layers, of which every so many one sees all: as the file says, or as llama.cpp has it for the family.
  private mutating func readLayerTypes(period usual: Int) throws(CheckpointError) {
    let name = key("attention.sliding_window_pattern")
    let sliding: [Bool]
    if let flags = file.numbers(name), flags.count == layers {
      sliding = flags.map { $0 != 0 }
    } else {
      let period = file.int(name) ?? usual
      guard period > 0 else { throw fault(name, "is \(period)") }
      sliding = (0..<layers).map { ($0 + 1) % period != 0 }
    }
    object["layer_types"] = .array(sliding.map { $0 ? "sliding_attention" : "full_attention" })
  }

  // MARK: Ends

  /// Control tokens that end a turn, or a text.
  private static let ends: Set<[UInt8]> = Set(
    [
      "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>",
      "<|eom_id|>",
      "<|return|>", "<|call|>", "<turn|>",
    ].map { Array($0.utf8) })

  private mutating func readEnds() {
    set("bos_token_id", file.int("tokenizer.ggml.bos_token_id"))
    var ids = ["eos", "eot", "eom"].compactMap { file.int("tokenizer.ggml.\($0)_token_id") }
    let kinds = file.numbers("tokenizer.ggml.token_type") ?? []
    let control = kinds.indices.filter { kinds[$0] == 3 }
    for (id, token) in file.strings("tokenizer.ggml.tokens", at: Set(control)).sorted(by: { $0.key < $1.key })
    where Self.ends.contains(token) && !ids.contains(id) {
      ids.append(id)
    }
    // Of gpt-oss, whose messages end within an answer, the template decides.
    if architecture.name == "gpt-oss" { ids = Array(ids.prefix(1)) }
    object["eos_token_id"] = ids.isEmpty ? nil : .array(ids.map(JSONValue.int))
  }
}
