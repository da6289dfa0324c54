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

  /// - Throws: `.badValue` with the key of the file that is missing or does not fit.
  init(_ files: [GGUFFile], _ architecture: GGUFArchitecture) throws(CheckpointError) {
    (self.files, file, self.architecture) = (files, files[0], architecture)
    object["model_type"] = .string(architecture.modelType)
    try readSizes()
    try readRotation()
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

  private func required(_ name: String) throws(CheckpointError) -> Int {
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
    kvHeads = try size("attention.head_count_kv") ?? heads
    guard kvHeads > 0 else { throw fault(key("attention.head_count_kv"), "is 0") }
    let layers = try required("block_count") - (try size("nextn_predict_layers") ?? 0)
    guard (1...Self.mostLayers).contains(layers) else {
      throw fault(key("block_count"), "leaves \(layers) layers, expected 1 to \(Self.mostLayers)")
    }
    set("hidden_size", hidden)
    set("num_hidden_layers", layers)
    set("num_attention_heads", heads)
    set("num_key_value_heads", kvHeads)
    set("intermediate_size", try size("feed_forward_length"))
    set("max_position_embeddings", try size("context_length"))
    let width = try size("attention.key_length") ?? hidden / heads
    if let values = try size("attention.value_length"), values != width {
      throw fault(key("attention.value_length"), "is not attention.key_length, which is not supported")
    }
    set("head_dim", width)
    guard let table = shape("token_embd.weight"), table.count == 2 else {
      throw fault("token_embd.weight", "is missing: this is no language model, or not all of one")
    }
    set("vocab_size", table[0])
    object["tie_word_embeddings"] = .bool(shape("output.weight") == nil)
    let epsilon = float("attention.layer_norm_rms_epsilon") ?? float("attention.layer_norm_epsilon")
    set(Self.epsilonNames[architecture.name] ?? "rms_norm_eps", epsilon)
    if let experts = try size("expert_count"), experts > 0 {
      set("num_experts_per_tok", try required("expert_used_count"))
      // Of these, feed_forward_length is the width of an expert.
      let isLocal = ["llama", "gpt-oss", "olmoe"].contains(architecture.name)
      set(isLocal ? "num_local_experts" : "num_experts", experts)
      if !isLocal { set("moe_intermediate_size", try required("expert_feed_forward_length")) }
    }
  }

  /// As families take; lists are made of it.
  private static let mostLayers = 1_024

  private static let epsilonNames = [
    "lfm2": "norm_eps", "starcoder2": "norm_epsilon", "command-r": "layer_norm_eps",
    "cohere2": "layer_norm_eps",
  ]

  private mutating func readRotation() throws(CheckpointError) {
    let theta = float("rope.freq_base") ?? 10_000
    set("rope_theta", theta)
    let width = object["head_dim"]?.intValue ?? 0
    let turned = try size("rope.dimension_count") ?? width
    if turned > 0, turned < width { set("partial_rotary_factor", Double(turned) / Double(width)) }
    let original = try size("rope.scaling.original_context_length")
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
      let layers = object["num_hidden_layers"]?.intValue ?? 0
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
    case "gpt-oss":
      set("sliding_window", try size("attention.sliding_window"))
      set("intermediate_size", try size("expert_feed_forward_length"))
      try readLayerTypes(period: 2)
    case "granite":
      set("attention_multiplier", float("attention.scale"))
      set("embedding_multiplier", float("embedding_scale"))
      set("residual_multiplier", float("residual_scale"))
      set("logits_scaling", float("logit_scale"))
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
      object["rope_scaling"] = nil
      object["rope_parameters"] = .object(rope)
    case "lfm2":
      guard let counts = file.numbers(key("attention.head_count_kv")) else {
        throw fault(key("attention.head_count_kv"), "does not say which layers have attention")
      }
      object["layer_types"] = .array(counts.map { $0 == 0 ? "conv" : "full_attention" })
      set("conv_L_cache", try required("shortconv.l_cache"))
      object["block_auto_adjust_ff_dim"] = false
    case "olmo2":
      guard let window = try positive("attention.sliding_window") else { break }
      object["model_type"] = "olmo3"
      set("sliding_window", window)
      try readLayerTypes(period: 4)
    case "qwen2moe":
      set("shared_expert_intermediate_size", try required("expert_shared_feed_forward_length"))
      object["norm_topk_prob"] = false
      readDenseLayers()
    case "qwen3moe":
      object["norm_topk_prob"] = true
      readDenseLayers()
    case "hunyuan-dense": object["use_qk_norm"] = .bool(shape("blk.0.attn_q_norm.weight") != nil)
    case "starcoder2":
      object["hidden_act"] = "gelu_pytorch_tanh"
      object["use_bias"] = .bool(shape("blk.0.attn_q.bias") != nil)
      set("sliding_window", try positive("attention.sliding_window"))
    case "exaone4":
      guard let window = try positive("attention.sliding_window") else { break }
      set("sliding_window", window)
      try readLayerTypes(period: 4)
    case "command-r", "cohere2":
      set("logit_scale", float("logit_scale"))
      object["use_qk_norm"] = .bool(shape("blk.0.attn_q_norm.weight") != nil)
      guard architecture.name == "cohere2" else { break }
      set("sliding_window", try positive("attention.sliding_window"))
      try readLayerTypes(period: 4)
    default: break
    }
  }

  /// Layers of a model with experts that have none.
  private mutating func readDenseLayers() {
    let names = Set(files.flatMap { $0.tensors.map(\.name) })
    let dense = (0..<(object["num_hidden_layers"]?.intValue ?? 0)).filter {
      !names.contains("blk.\($0).ffn_gate_inp.weight")
    }
    object["mlp_only_layers"] = .array(dense.map(JSONValue.int))
  }

  private func positive(_ name: String) throws(CheckpointError) -> Int? {
    let value = try size(name)
    return value == 0 ? nil : value
  }

  /// Sliding layers, of which every so many one sees all: as the file says, or as llama.cpp has it for the family.
  private mutating func readLayerTypes(period usual: Int) throws(CheckpointError) {
    let layers = object["num_hidden_layers"]?.intValue ?? 0
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
      "<|return|>", "<|call|>",
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
