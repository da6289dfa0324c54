// What the families that share Llama's layers do differently, read from their config.json.

import Compute
import JSON

/// Everything about a decoder of `Llama` that is not a size.
struct LlamaVariant {
  /// The sliding window of each layer, nil for full attention.
  private(set) var windows: [Int?]
  /// Whether each layer's queries and keys are rotated (SmolLM3 leaves some without positions).
  private(set) var rotates: [Bool]
  /// Factors of embeddings, of what a layer adds to the residual stream, and of the logits (Granite).
  private(set) var embeddingScale: Float = 1
  private(set) var residualScale: Float = 1
  private(set) var logitScale: Float = 1
  /// Biases and norms of attention.
  private(set) var attention = SelfAttention.Options()
  /// Whether config.json promises biases of the MLP.
  private(set) var mlpBias: Bool
  /// The factor of attention scores.
  private(set) var scoreScale: Float
  private(set) var queryGrowth: QueryGrowth?
  /// Whether a pair of RoPE is two neighbours (ERNIE 4.5).
  private(set) var isInterleaved = false
  /// Instead of one MLP per layer (Mixtral).
  private(set) var experts: Experts.Sizes?

  /// What a family's reference implementation takes for `max_position_embeddings` and `rope_theta` when they are absent.
  static func defaults(_ type: String) -> (contextLength: Int, theta: Double) {
    switch type {
    case "phi3": (4096, 10_000)
    case "qwen2": (32_768, 1_000_000)
    case "ernie4_5": (131_072, 500_000)
    case "seed_oss": (524_288, 10_000_000)
    case "hunyuan_v1_dense", "internlm3": (32_768, 10_000)
    default: (2048, 10_000)
    }
  }

  /// - Parameter type: `model_type`, one of those that `ModelFamily` gives to `Llama`.
  init(_ type: String, _ config: ConfigFields, sizes: DecoderSizes) throws(ModelError) {
    // In the configs of these `sliding_window` alone makes layers sliding; in Llama's `layer_types` must say so.
    let slides = ["mistral", "mixtral", "ministral3", "phi3"].contains(type)
    windows = try sizes.windows(config) { _ in slides }
    attention.bias = try config.bool("attention_bias", default: false)
    attention.outputBias = attention.bias
    mlpBias = try config.bool("mlp_bias", default: false)
    rotates = [Bool](repeating: true, count: sizes.layers)
    scoreScale = 1 / Float(sizes.headDim).squareRoot()
    switch type {
    case "granite": try readGranite(config)
    case "ministral3": queryGrowth = try Self.queryGrowth(config)
    case "mixtral":
      experts = try Experts.Sizes(
        config, count: "num_local_experts", perRow: "num_experts_per_tok", intermediate: "intermediate_size")
    case "phi3": (attention.bias, attention.outputBias, mlpBias) = (false, false, false)
    case "qwen2":
      windows = try Qwen3.windows(config, sizes)
      (attention.bias, attention.outputBias, mlpBias) = (true, false, false)
    case "seed_oss": attention.outputBias = try config.bool("attention_out_bias", default: false)
    case "ernie4_5":
      isInterleaved = true
      let bias = try config.bool("use_bias", default: false)
      (attention.bias, attention.outputBias, mlpBias) = (bias, bias, bias)
    case "hunyuan_v1_dense":
      attention.norms = try config.bool("use_qk_norm", default: true) ? .heads : .none
      attention.rotatesFirst = true
      (attention.names.qNorm, attention.names.kNorm) = ("query_layernorm", "key_layernorm")
    case "minicpm":
      func number(_ key: String) throws(ModelError) -> Float { Float(try config.double(key, in: 1e-6...1e6)) }
      embeddingScale = try number("scale_emb")
      residualScale = try number("scale_depth") / Float(sizes.layers).squareRoot()
      logitScale = try number("dim_model_base") / Float(sizes.hidden)
    case "internlm3":
      // The references disagree about the output where only one of the two is set.
      let bias = try config.bool("qkv_bias", default: attention.bias)
      mlpBias = try config.bool("bias", default: mlpBias)
      guard bias == mlpBias else {
        throw .unsupportedSetting(key: "qkv_bias", value: "\(bias)", supported: "the same as bias")
      }
      (attention.bias, attention.outputBias) = (bias, bias)
    case "smollm3": try readSmolLM3(config, sizes: sizes)
    default: break
    }
  }

  /// The frequencies of all layers that rotate.
  func rope(_ config: ConfigFields, sizes: DecoderSizes, theta: Double) throws(ModelError) -> RoPEScaling {
    try RoPEScaling(config, sizes: sizes, theta: theta, interleaved: isInterleaved)
  }

  /// The MLP of a layer, or several to choose from.
  func mlp(_ sizes: DecoderSizes, _ weights: LayerLoader) throws(ModelError) -> FeedForward {
    guard let experts else {
      return .dense(try DenseMLP(sizes.hidden, sizes.intermediate, bias: mlpBias, weights.at("mlp")))
    }
    var options = Experts.Options()
    options.names.single = .init(gate: "w1", up: "w3", down: "w2")
    return .experts(
      try Experts(
        experts, hidden: sizes.hidden, rule: ExpertRule(perRow: experts.perRow, scores: .chosen), options,
        weights.at("block_sparse_moe")))
  }

  private mutating func readGranite(_ config: ConfigFields) throws(ModelError) {
    func factor(_ key: String) throws(ModelError) -> Float {
      Float(try config.double(key, in: 1e-6...1e6, default: 1))
    }
    embeddingScale = try factor("embedding_multiplier")
    residualScale = try factor("residual_multiplier")
    logitScale = 1 / (try factor("logits_scaling"))
    scoreScale = try factor("attention_multiplier")
  }

  private mutating func readSmolLM3(_ config: ConfigFields, sizes: DecoderSizes) throws(ModelError) {
    let key = "no_rope_layers"
    if config.has(key) {
      let flags = try config.ints(key, in: 0...1)
      guard flags.count == sizes.layers else {
        throw .invalidValue(
          key: key, found: "an array of \(flags.count)",
          expected: "num_hidden_layers = \(sizes.layers) entries")
      }
      rotates = flags.map { $0 == 1 }
    } else {
      let interval = try config.int("no_rope_layer_interval", in: 1...1024, default: 4)
      rotates = (0..<sizes.layers).map { ($0 + 1) % interval != 0 }
    }
    if try config.bool("use_sliding_window", default: false) {
      let rotates = rotates
      windows = try sizes.windows(config) { !rotates[$0] }
    }
  }

  private static func queryGrowth(_ config: ConfigFields) throws(ModelError) -> QueryGrowth? {
    guard let rope = try config.object("rope_parameters"), rope.has("llama_4_scaling_beta") else {
      return nil
    }
    return QueryGrowth(
      beta: try rope.double("llama_4_scaling_beta", in: 0...1e3),
      original: try rope.double("original_max_position_embeddings", in: 1...1e9))
  }
}
