// The settings that hold where neither a request nor the model's files say anything.

/// Whose defaults they are: `--sampling` of the command line.
package enum DefaultSampling: String, CaseIterable, Sendable {
  /// What llama-server takes. Small models need it: of eight answers that SmolLM2-135M-Instruct drew from its whole
  /// vocabulary, four had invented words; with these settings none had.
  case local
  /// What OpenAI's API says: temperature 1 over the whole vocabulary.
  case openai

  package var overrides: SamplingOverrides {
    switch self {
    case .local: [.temperature: 0.8, .topK: 40, .topP: 0.95, .minP: 0.05]
    case .openai: [:]
    }
  }

  /// What holds where a request says nothing. Settings that a model's authors chose together are not mixed with others.
  ///
  /// - Parameter recommended: what they recommend; empty where their files name no setting.
  package func settings(beside recommended: SamplingOverrides) -> SamplingOverrides {
    recommended.isEmpty ? overrides : recommended
  }
}
