// From config.json's model_type to the class that runs it.

package import Checkpoint
package import Compute
import JSON
package import Media

/// The table of families. `docs/models.md` lists the same names for people.
package enum ModelFamily {
  /// The values of `model_type` that `load` accepts.
  package static let supportedTypes = [
    "gemma3", "gemma3_text", "gemma3n", "gemma3n_text", "gemma4", "gemma4_text", "gemma4_unified", "granite",
    "llama", "ministral3", "mistral", "mistral3", "mixtral", "phi3", "qwen2", "qwen2_5_vl", "qwen2_vl",
    "qwen3",
    "qwen3_moe", "qwen3_vl", "qwen3_vl_moe", "smollm3",
  ]

  /// Binds a checkpoint's tensors to its family's model. Reads norms and biases; matrices stay in the mapping.
  ///
  /// - Parameter media: which encoders of images and audio are wanted.
  /// - Throws: `ModelError` naming the config key or tensor that does not fit.
  package static func load(
    _ folder: ModelFolder, compute: ComputeContext, media: MediaOptions = MediaOptions()
  ) throws(ModelError) -> any CausalModel {
    let config = ConfigFields(folder.config)
    defer { compute.endDecoder() }
    guard let type = try config.string("model_type") else { throw .missingKey("model_type") }
    switch type {
    case "gemma3", "gemma3_text":
      return try Gemma3(text(config), weights: folder.weights, compute: compute)
    case "gemma3n", "gemma3n_text":
      return try Gemma3n(text(config), weights: folder.weights, compute: compute)
    case "gemma4", "gemma4_text", "gemma4_unified":
      let towers = try Gemma4Towers(
        config, processor: folder.processorConfig.map { ConfigFields($0) }, weights: folder.weights,
        compute: compute, options: media)
      return try Gemma4(text(config), weights: folder.weights, compute: compute, towers: towers)
    case "granite", "llama", "ministral3", "mistral", "mixtral", "smollm3":
      return try Llama(type, config, weights: folder.weights, compute: compute)
    case "mistral3":
      let text = try text(config)
      let inner = try text.string("model_type") ?? "mistral"
      guard inner == "mistral" || inner == "ministral3" else {
        throw .unsupportedSetting(
          key: "text_config.model_type", value: inner, supported: "mistral, ministral3")
      }
      return try Llama(inner, text, weights: folder.weights, compute: compute)
    case "phi3":
      return try Phi3(config, weights: folder.weights, compute: compute)
    case "qwen2", "qwen2_vl", "qwen2_5_vl":
      return try Qwen2(text(config), weights: folder.weights, compute: compute)
    case "qwen3", "qwen3_vl":
      return try Qwen3(text(config), weights: folder.weights, compute: compute)
    case "qwen3_moe", "qwen3_vl_moe":
      return try Qwen3(text(config), weights: folder.weights, compute: compute, sparse: true)
    default:
      throw .unsupportedFamily(type: type, supported: supportedTypes)
    }
  }

  /// The text model's part of a multimodal config.json; the whole of any other.
  private static func text(_ config: ConfigFields) throws(ModelError) -> ConfigFields {
    try config.object("text_config") ?? config
  }
}
