// What can be learned of a model by binding its weights, without running it.

package import Checkpoint
import Compute
import Models
import Platform

/// A folder whose weights fit its config.json.
package struct ModelInspection: Sendable {
  /// config.json's limit, tokens.
  package let contextLength: Int
  /// Rows of the output matrix.
  package let vocabularySize: Int
  /// Bytes of weights that one decode step reads.
  package let weightBytesPerToken: Int
  /// Bytes of keys and values of one token of context, in the format that the configuration stores them in.
  package let kvBytesPerToken: Int
  /// Memory that the engine would give to keys and values.
  package let kvMemoryBytes: Int
  /// Tensors of the checkpoint that the model does not use.
  package let unusedTensors: [String]
  /// Settings of config.json of which nothing is known here.
  package let unknownSettings: [String]

  /// - Throws: `modelLoading` with the words of what refused the checkpoint.
  package init(_ folder: ModelFolder, _ configuration: EngineConfiguration) throws(InferenceError) {
    do {
      var single = configuration
      single.threads = 1
      let compute = try single.makeContext()
      var unknown: [String] = []
      let model = try ModelFamily.load(folder, compute: compute) { unknown = $0 }
      unknownSettings = unknown
      contextLength = model.contextLength
      vocabularySize = model.vocabularySize
      weightBytesPerToken = model.weightBytesPerToken
      kvBytesPerToken =
        try KVCache.bytesPerToken(
          model.cacheShape.keysValues, format: configuration.kvFormat(beside: compute.mode))
      kvMemoryBytes = max(0, configuration.kvBytes(weights: folder.weightBytes))
      unusedTensors = folder.weights.unusedNames
    } catch {
      throw .modelLoading(String(describing: error))
    }
  }

  /// Those of `model_type` whose models see, if their files hold the tower.
  package static var seeingTypes: [String] { TowerFamily.supportedTypes }

  /// Every value of `model_type` that can be loaded, of models that write and of those that encode.
  package static var supportedTypes: [String] {
    (ModelFamily.supportedTypes + EncoderFamily.supportedTypes).sorted()
  }
}
