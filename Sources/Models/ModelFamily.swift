// From config.json's model_type to the class that runs it.

package import Checkpoint
package import Compute
import JSON
package import Media

/// The table of families. `docs/models.md` lists the same names for people.
package enum ModelFamily {
  /// What a family is made from.
  private struct Source {
    let type: String
    /// The whole of config.json.
    let config: ConfigFields
    /// The text model's part of a multimodal config.json; the whole of any other.
    let text: ConfigFields
    let processor: ConfigFields?
    let media: MediaOptions
    /// Of the decoder, whose matrices are copied into panels.
    let weights: LayerLoader
    /// Of encoders, whose matrices stay in the file.
    let mappedWeights: LayerLoader
  }

  private typealias Make = @Sendable (Source) throws(ModelError) -> any CausalModel

  /// Values of `model_type`, and what runs them.
  private static let table: [(types: [String], make: Make)] = [
    (["gemma3", "gemma3_text"], { source throws(ModelError) in try Gemma3(source.text, source.weights) }),
    (["gemma3n", "gemma3n_text"], { source throws(ModelError) in try Gemma3n(source.text, source.weights) }),
    (["gemma4", "gemma4_text", "gemma4_unified"], gemma4),
    (
      ["granite", "llama", "ministral3", "mistral", "mixtral", "phi3", "smollm3"],
      { source throws(ModelError) in try Llama(source.type, source.config, source.weights) }
    ),
    (["mistral3"], mistral3),
    (
      ["qwen2", "qwen2_5_vl", "qwen2_vl"],
      { source throws(ModelError) in try Llama("qwen2", source.text, source.weights) }
    ),
    (["qwen3", "qwen3_vl"], { source throws(ModelError) in try Qwen3(source.text, source.weights) }),
    (
      ["qwen3_moe", "qwen3_vl_moe"],
      { source throws(ModelError) in try Qwen3(source.text, sparse: true, source.weights) }
    ),
  ]

  /// The values of `model_type` that `load` accepts.
  package static let supportedTypes = table.flatMap(\.types).sorted()

  /// Binds a checkpoint's tensors to its family's model. Reads norms and biases; matrices stay in the mapping.
  ///
  /// - Parameter media: which encoders of images and audio are wanted.
  /// - Throws: `ModelError` naming the config key or tensor that does not fit.
  package static func load(
    _ folder: ModelFolder, compute: ComputeContext, media: MediaOptions = MediaOptions()
  ) throws(ModelError) -> any CausalModel {
    let config = ConfigFields(folder.config)
    guard let type = try config.string("model_type") else { throw .missingKey("model_type") }
    guard let make = table.first(where: { $0.types.contains(type) })?.make else {
      throw .unsupportedFamily(type: type, supported: supportedTypes)
    }
    return try make(
      Source(
        type: type, config: config, text: try config.object("text_config") ?? config,
        processor: folder.processorConfig.map { ConfigFields($0) }, media: media,
        weights: LayerLoader(folder.weights, compute: compute, arena: compute.makeArena()),
        mappedWeights: LayerLoader(folder.weights, compute: compute)))
  }

  @Sendable private static func gemma4(_ source: Source) throws(ModelError) -> any CausalModel {
    let towers = try Gemma4Towers(
      source.config, processor: source.processor, options: source.media, source.mappedWeights)
    return try Gemma4(source.text, towers: towers, source.weights)
  }

  /// A multimodal config.json around a Mistral or Ministral 3.
  @Sendable private static func mistral3(_ source: Source) throws(ModelError) -> any CausalModel {
    let inner = try source.text.string("model_type") ?? "mistral"
    guard inner == "mistral" || inner == "ministral3" else {
      throw .unsupportedSetting(key: "text_config.model_type", value: inner, supported: "mistral, ministral3")
    }
    return try Llama(inner, source.text, source.weights)
  }
}
