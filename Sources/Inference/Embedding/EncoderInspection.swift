// What can be learned of an encoder by binding its weights, without running it.

package import Checkpoint
import Models

/// A folder of an encoder whose weights fit its config.json.
package struct EncoderInspection: Sendable {
  package let limits: EmbeddingLimits
  /// Tensors of the checkpoint that the encoder does not use.
  package let unusedTensors: [String]

  /// - Throws: `modelLoading` with the words of what refused the checkpoint.
  package init(_ folder: ModelFolder, _ configuration: EngineConfiguration) throws(InferenceError) {
    do {
      var single = configuration
      single.threads = 1
      let answers = configuration.answerTokens.map { AnswerTokens(yes: $0.yes, no: $0.no) }
      let model = try EncoderFamily.load(folder, answers: answers, compute: try single.makeContext())
      limits = EmbeddingLimits(model, maxContext: configuration.maxContext)
      unusedTensors = folder.weights.unusedNames
    } catch {
      throw .modelLoading(String(describing: error))
    }
  }
}

extension EmbeddingLimits {
  /// - Parameter maxContext: what the configuration allows; nil for all that the model takes.
  init(_ model: SentenceEncoder, maxContext: Int?) {
    self.init(
      maxTokens: min(model.maxTokens, maxContext ?? .max), vocabularySize: model.vocabularySize,
      dimensions: model.dimensions, hidden: model.hidden)
    labels = model.labels
    isSparse = model.makesSparseVectors
    pooling = model.pooling
    poolsPrompt = model.poolsPrompt
  }
}
