// What a person asks of a conversion, and which quantization a module gets by it: the recipes and rules of mlx-lm's.

package import Checkpoint
package import Compute
import Platform

/// What to make of a model.
package struct ConversionOptions: Sendable {
  /// Which modules get more bits than others.
  package enum Recipe: String, CaseIterable, Sendable {
    case mixed26 = "mixed_2_6"
    case mixed34 = "mixed_3_4"
    case mixed36 = "mixed_3_6"
    case mixed46 = "mixed_4_6"
    /// Scales and biases with the least error of products, by the activations of a text.
    case best

    /// Of most modules, and of those that lose most.
    var bits: (low: Int, high: Int)? {
      switch self {
      case .mixed26: (2, 6)
      case .mixed34: (3, 4)
      case .mixed36: (3, 6)
      case .mixed46: (4, 6)
      case .best: nil
      }
    }
  }

  /// `PATTERN=RULE`: what modules get whose name matches a pattern of the shell; nil leaves them plain.
  package struct ModuleRule: Sendable {
    let text: String
    let pattern: String
    let quantization: Quantization?

    /// - Returns: nil where the text is no rule: `plain`, bits and perhaps a group size (`6/32`), or the name of a mode.
    package init?(_ text: String) {
      self.text = text
      guard let split = text.lastIndex(of: "=") else { return nil }
      pattern = String(text[..<split])
      let rule = text[text.index(after: split)...]
      let numbers = rule.split(separator: "/", omittingEmptySubsequences: false).map { Int($0) }
      if rule == "plain" {
        quantization = nil
      } else if let mode = Quantization.Mode.named.first(where: { $0.rawValue == rule }) {
        quantization = ConversionOptions.usual(mode)
      } else if let bits = numbers[0], [2, 3, 4, 5, 6, 8].contains(bits), numbers.count <= 2,
        let size = numbers.count == 2 ? numbers[1] : 64, [32, 64, 128].contains(size)
      {
        quantization = Quantization(bits: bits, groupSize: size)
      } else {
        return nil
      }
      if pattern.isEmpty { return nil }
    }
  }

  package var bits: Int?
  package var groupSize: Int?
  package var mode: Quantization.Mode?
  package var recipe: Recipe?
  /// The type of floats; nil for the one that config.json names, or as they are stored.
  package var dtype: DType?
  /// Floats alone are written.
  package var dequantizes = false
  /// What is added to the weights before they are written.
  package var adapter: AdapterFolder?
  /// Numbers that are rounded already may be rounded again.
  package var requantizes = false
  package var rules: [ModuleRule] = []
  /// Most bytes of a file of weights, unless one tensor has more.
  package var shardBytes = 5 << 30
  /// Mean squares of the inputs of each module, by its name, where scales are searched for.
  package var importance: [String: [Float]] = [:]

  package init() {}

  /// Whether something is asked that needs rounding.
  var asksForRounding: Bool {
    bits != nil || groupSize != nil || mode != nil || recipe != nil || !rules.isEmpty
  }

  /// MLX's parameters where only the mode is given.
  static func usual(_ mode: Quantization.Mode) -> Quantization {
    switch mode {
    case .mxfp4: Quantization(mode: mode, bits: 4, groupSize: 32)
    case .mxfp8: Quantization(mode: mode, bits: 8, groupSize: 32)
    case .nvfp4: Quantization(mode: mode, bits: 4, groupSize: 16)
    case .affine, .fp8, .table: Quantization(bits: 4, groupSize: 64)
    }
  }

  /// The quantization of most modules.
  ///
  /// - Throws: for widths, group sizes and recipes that the mode does not have.
  package func base() throws(ConversionError) -> Quantization {
    let usual = Self.usual(mode ?? .affine)
    let asked = Quantization(
      mode: usual.mode, bits: bits ?? usual.bits, groupSize: groupSize ?? usual.groupSize)
    guard usual.mode == .affine || asked == usual else {
      throw .badOption(
        "\(usual.mode.rawValue) has \(usual.bits) bits in groups of \(usual.groupSize): leave out --bits and --group-size"
      )
    }
    guard
      usual.mode != .affine
        || [2, 3, 4, 5, 6, 8].contains(asked.bits) && [32, 64, 128].contains(asked.groupSize)
    else { throw .badOption("affine has 2, 3, 4, 5, 6 or 8 bits in groups of 32, 64 or 128") }
    guard recipe == nil || usual.mode == .affine else {
      throw .badOption("recipes are for the mode affine alone: leave out --mode or --recipe")
    }
    guard recipe?.bits == nil || bits == nil else {
      throw .badOption("the recipe says the bits: leave out --bits or --recipe")
    }
    guard !dequantizes || !asksForRounding else {
      throw .badOption("--dequantize writes floats alone: leave it out, or what asks for rounding")
    }
    return asked
  }

  /// All that decides about the bytes that are written.
  var words: String {
    let asked = [
      bits.map(String.init), groupSize.map(String.init), mode?.rawValue, recipe?.rawValue, dtype?.rawValue,
    ]
    return asked.map { $0 ?? "-" }.joined(separator: " ") + " \(dequantizes) \(requantizes) \(shardBytes) "
      + rules.map(\.text).joined(separator: " ")
  }
}

/// Which quantization modules get.
struct QuantizationRules {
  let options: ConversionOptions
  let base: Quantization
  /// `model_type` of config.json, or of its text_config.
  let types: [String]
  let layers: Int
  /// Which part of a module's name is the number of its layer.
  private let layerPart: Int?

  /// - Parameter modules: names of all modules.
  init(
    _ options: ConversionOptions, types: [String], layers: Int, modules: [String]
  ) throws(ConversionError) {
    (self.options, self.types, self.layers) = (options, types, layers)
    base = try options.base()
    let down = modules.first { $0.contains("down_proj") }
    layerPart = down?.split(separator: ".").firstIndex { Int($0) != nil }
    if options.recipe?.bits != nil, layerPart == nil {
      throw .badOption("the recipe is for models whose layers have a down_proj, which this one has not")
    }
  }

  /// Nil leaves the module plain.
  func quantization(of module: String, columns: Int) -> Quantization? {
    // As in mlx-lm the size for the whole model decides, also where a module has another.
    guard columns % base.groupSize == 0, columns % 32 == 0 else { return nil }
    let found = asked(module)
    return found.flatMap { columns % $0.groupSize == 0 ? $0 : nil }
  }

  /// Whether config.json names a module with its quantization although it is that of the whole model.
  var namesAll: Bool { options.recipe?.bits != nil }

  private func asked(_ module: String) -> Quantization? {
    if let rule = options.rules.last(where: { File.matches(module, pattern: $0.pattern) }) {
      return rule.quantization
    }
    if Self.encoders.contains(where: module.contains) { return nil }
    if let (low, high) = options.recipe?.bits {
      let parts = module.split(separator: ".")
      let index = layerPart.flatMap { $0 < parts.count ? Int(parts[$0]) : nil } ?? 0
      let ends = index < layers / 8 || index >= 7 * layers / 8
      // Python's remainder is never negative.
      let isThird = ((index - layers / 8) % 3 + 3) % 3 == 2
      let isDelicate = ["v_proj", "v_a_proj", "v_b_proj", "down_proj"].contains(where: module.contains)
      let hasMore = isDelicate && (ends || isThird) || module.contains("lm_head")
      return Quantization(bits: hasMore ? high : low, groupSize: base.groupSize)
    }
    for type in types {
      if Self.plain[type]?.contains(where: module.hasSuffix) == true { return nil }
      if Self.eightBits[type]?.contains(where: module.hasSuffix) == true {
        return Quantization(bits: 8, groupSize: 64)
      }
    }
    return base
  }

  /// Parts of names of encoders of images and audio, which stay plain.
  private static let encoders = [
    "vision_model", "vision_tower", "vl_connector", "audio_model", "audio_tower", "multi_modal_projector",
    "visual.", "img_projector", "patch_merge_mlp",
  ]

  private static let delicate = [".self_attn.o_proj", ".mlp.down_proj", "lm_head"]

  /// Modules that mlx-lm 0.32 gives 8 bits in groups of 64: routers, and what is too small for narrow floats.
  private static let eightBits: [String: [String]] = [
    "bailing_moe": [".mlp.gate", ".gate.gate_proj"], "bailing_moe_v2": [".mlp.gate", ".gate.gate_proj"],
    "gemma4": [".router.proj"], "gemma4_text": [".router.proj"], "gemma4_unified": [".router.proj"],
    "gpt_oss": [".router"], "granite": delicate, "granitemoe": [".router.layer"] + delicate,
    "granitemoehybrid": [".router.layer"], "kimi_linear": [".mlp.gate"], "lfm2_moe": [".feed_forward.gate"],
    "minimax": [".block_sparse_moe.gate"], "minimax_m2": [".block_sparse_moe.gate"],
    "qwen3_5_moe": [".mlp.gate", ".shared_expert_gate"],
    "qwen3_5_moe_text": [".mlp.gate", ".shared_expert_gate"],
    "qwen3_moe": [".mlp.gate"], "qwen3_next": [".mlp.gate", ".shared_expert_gate"],
    "qwen3_vl_moe": [".mlp.gate"],
  ]

  /// Modules that are no linear maps in mlx-lm: routers that compute in float32.
  private static let plain: [String: [String]] = [
    "deepseek_v2": [".mlp.gate"], "deepseek_v3": [".mlp.gate"], "kimi_k2": [".mlp.gate"],
    "glm4_moe": [".mlp.gate"],
    "glm4_moe_lite": [".mlp.gate"], "joyai_llm_flash": [".mlp.gate"], "nemotron_h": [".mixer.gate"],
  ]
}
