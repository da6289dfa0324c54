// From config.json's model_type to the class that runs it.

package import Checkpoint
package import Compute
import JSON

package enum ModelFamily {
  /// The values of `model_type` that `load` accepts.
  package static let supportedTypes = [
    "gemma3", "gemma3_text", "gemma4", "gemma4_text", "llama", "mistral", "phi3", "qwen2", "qwen3",
  ]

  /// Binds a checkpoint's tensors to its family's model. Reads norms and biases; matrices stay in the mapping.
  ///
  /// - Throws: `ModelError` naming the config key or tensor that does not fit.
  package static func load(
    _ folder: ModelFolder, compute: ComputeContext
  ) throws(ModelError) -> any CausalModel {
    let config = ConfigFields(folder.config)
    guard let type = try config.string("model_type") else { throw .missingKey("model_type") }
    switch type {
    case "gemma3", "gemma3_text":
      return try Gemma3(text(config), weights: folder.weights, compute: compute)
    case "gemma4", "gemma4_text":
      return try Gemma4(text(config), weights: folder.weights, compute: compute)
    case "llama":
      return try Llama(config, weights: folder.weights, compute: compute, slides: false)
    case "mistral":
      return try Llama(config, weights: folder.weights, compute: compute, slides: true)
    case "phi3":
      return try Phi3(config, weights: folder.weights, compute: compute)
    case "qwen2":
      return try Qwen2(config, weights: folder.weights, compute: compute)
    case "qwen3":
      return try Qwen3(config, weights: folder.weights, compute: compute)
    default:
      throw .unsupportedFamily(type: type, supported: supportedTypes)
    }
  }

  /// The text model's part of a multimodal config.json; the whole of any other.
  private static func text(_ config: ConfigFields) throws(ModelError) -> ConfigFields {
    try config.object("text_config") ?? config
  }
}
