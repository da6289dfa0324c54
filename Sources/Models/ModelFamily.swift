// From config.json's model_type to the class that runs it.

package import Checkpoint
package import Compute
import JSON
package import Media
import Platform

/// The table of families. `docs/models.md` lists the same names for people.
package enum ModelFamily {
  /// What a family is made from.
  private struct Source {
    let type: String
    /// The whole of config.json.
    let config: ConfigFields
    /// The text model's part of a multimodal config.json; the whole of any other.
    let text: ConfigFields
    /// Of the decoder, whose matrices are copied into panels.
    let weights: LayerLoader
    let towers: MediaTowers
  }

  private typealias Make = @Sendable (Source) throws(ModelError) -> any CausalModel

  /// A family that reads the whole of config.json, and perhaps which of its types it is.
  private static func whole(
    _ make: @escaping @Sendable (ConfigFields, LayerLoader) throws(ModelError) -> Decoder
  ) -> Make {
    { source throws(ModelError) in try make(source.config, source.weights) }
  }

  private static func typed(
    _ make: @escaping @Sendable (String, ConfigFields, LayerLoader) throws(ModelError) -> Decoder
  ) -> Make {
    { source throws(ModelError) in try make(source.type, source.config, source.weights) }
  }

  /// Values of `model_type`, and what runs them.
  private static let table: [(types: [String], make: Make)] = [
    (["afmoe"], whole(Afmoe.decoder)),
    (["apertus"], whole(Apertus.decoder)),
    (["bailing_moe", "bailing_moe_v2"], whole(Ling.decoder)),
    (["cohere", "cohere2"], typed(Cohere.decoder)),
    (["deepseek_v2", "deepseek_v3", "glm4_moe_lite", "joyai_llm_flash", "kimi_k2"], typed(DeepSeek.decoder)),
    (["ernie4_5_moe"], whole(Ernie45MoE.decoder)),
    (["exaone"], whole(Exaone.decoder)),
    (["exaone4", "exaone_moe"], typed(Exaone4.decoder)),
    (["gemma", "gemma2"], typed(Gemma2.decoder)),
    (
      ["gemma3", "gemma3_text"],
      { source throws(ModelError) in try Gemma3.decoder(source.text, source.weights) }
    ),
    (["gemma3n", "gemma3n_text"], { source throws(ModelError) in try Gemma3n(source.text, source.weights) }),
    (
      ["gemma4", "gemma4_text", "gemma4_unified"],
      { source throws(ModelError) in try Gemma4(source.text, towers: source.towers, source.weights) }
    ),
    (["glm", "glm4"], typed(GLM4.decoder)),
    (["deepseek", "dots1", "glm4_moe", "solar_open"], typed(GLM4.sparse)),
    (["gpt_oss"], whole(GptOss.decoder)),
    (
      [
        "ernie4_5", "granite", "hunyuan_v1_dense", "internlm3", "llama", "minicpm", "ministral3", "mistral",
        "mixtral", "phi3", "seed_oss", "smollm3",
      ], typed(Llama.decoder)
    ),
    (["internlm2"], whole(InternLM2.decoder)),
    (["hunyuan", "hunyuan_v1_moe"], whole(HunyuanMoE.decoder)),
    (["granitemoe", "granitemoehybrid"], typed(Granite4.decoder)),
    (["falcon_h1"], whole(FalconH1.decoder)),
    (["lfm2", "lfm2-vl"], { source throws(ModelError) in try LFM2.decoder(source.text, source.weights) }),
    (
      ["lfm2_moe"],
      { source throws(ModelError) in try LFM2.decoder(source.config, sparse: true, source.weights) }
    ),
    (["nemotron_h"], whole(NemotronH.decoder)),
    (["kimi_linear"], whole(KimiLinear.decoder)),
    (
      ["kimi_k25", "kimi_vl"],
      { source throws(ModelError) in try DeepSeek.decoder("deepseek_v3", source.text, source.weights) }
    ),
    (
      ["llama4", "llama4_text"],
      { source throws(ModelError) in try Llama4.decoder(source.text, source.weights) }
    ),
    (["minimax", "minimax_m2"], whole(MiniMaxM2.decoder)),
    (["idefics3", "smolvlm"], wrapped(["llama"])),
    (["mistral3"], wrapped(["mistral", "ministral3"])),
    (["olmoe"], whole(OLMo.sparse)),
    (["olmo2", "olmo3"], typed(OLMo.decoder)),
    (
      ["mimo", "qwen2", "qwen2_5_vl", "qwen2_vl"],
      { source throws(ModelError) in try Llama.decoder("qwen2", source.text, source.weights) }
    ),
    (["qwen2_moe"], whole(Qwen2MoE.decoder)),
    (["qwen3", "qwen3_vl"], { source throws(ModelError) in try Qwen3.decoder(source.text, source.weights) }),
    (
      ["qwen3_moe", "qwen3_vl_moe"],
      { source throws(ModelError) in try Qwen3.decoder(source.text, sparse: true, source.weights) }
    ),
    (
      ["qwen3_5", "qwen3_5_text"],
      { source throws(ModelError) in try Qwen35.decoder(source.text, source.weights) }
    ),
    (
      ["qwen3_5_moe", "qwen3_5_moe_text", "qwen3_next"],
      { source throws(ModelError) in try Qwen35.decoder(source.text, sparse: true, source.weights) }
    ),
    (["starcoder2"], whole(StarCoder2.decoder)),
  ]

  /// The values of `model_type` that `load` accepts.
  package static let supportedTypes = table.flatMap(\.types).sorted()

  /// Binds a checkpoint's tensors to its family's model. Reads norms and biases; matrices stay in the mapping.
  ///
  /// - Parameters:
  ///   - media: which encoders of images and audio are wanted.
  ///   - arena: where weights are copied; nil for one of the model's own.
  ///   - onUnknown: called with settings of config.json of which nothing is known; they are told in the log too.
  /// - Throws: `ModelError` naming the config key or tensor that does not fit.
  package static func load(
    _ folder: ModelFolder, compute: ComputeContext, media: MediaOptions = MediaOptions(),
    arena: PanelArena? = nil, onUnknown: (([String]) -> Void)? = nil
  ) throws(ModelError) -> any CausalModel {
    let reads = ReadKeys()
    let config = ConfigFields(folder.config, reads: reads)
    guard let type = try config.string("model_type") else { throw .missingKey("model_type") }
    guard let make = table.first(where: { $0.types.contains(type) })?.make else {
      if let reason = RefusedTypes.reason(for: type) {
        throw .refusedFamily(type: type, reason: reason, supported: supportedTypes)
      }
      throw .unsupportedFamily(type: type, supported: supportedTypes)
    }
    let text = try config.object("text_config") ?? config
    let towers = try TowerFamily.towers(
      TowerSource(
        type: type, config: config, processor: folder.processorConfig.map { ConfigFields($0) },
        imageProcessor: ConfigFields(
          folder.imageProcessorConfig ?? [:], prefix: "preprocessor_config.json: "), options: media,
        weights: LayerLoader(folder.weights, compute: compute)))
    let model = try make(
      Source(
        type: type, config: config, text: text,
        weights: LayerLoader(
          folder.weights, compute: compute,
          arena: arena ?? compute.makeArena(identity: folder.mappedFiles.identity),
          shelf: AdapterShelf(compute)), towers: towers))
    (model as? Decoder)?.towers = towers
    try UnreadSettings.check(text, read: reads)
    let unknown = UnreadSettings.unknown(config, read: reads) + UnreadSettings.unknown(text, read: reads)
    if !unknown.isEmpty {
      let names = Set(unknown).sorted()
      onUnknown?(names)
      Log.warning(
        "config.json has settings that are not known and not used", ["keys": names.joined(separator: ", ")])
    }
    return model
  }

  /// A multimodal config.json around one of `types` that share Llama's layers, the first of them if it does not say.
  private static func wrapped(_ types: [String]) -> Make {
    { source throws(ModelError) in
      let inner = try source.text.string("model_type") ?? types[0]
      guard types.contains(inner) else {
        throw .unsupportedSetting(
          key: "text_config.model_type", value: inner, supported: types.joined(separator: ", "))
      }
      return try Llama.decoder(inner, source.text, source.weights)
    }
  }
}
