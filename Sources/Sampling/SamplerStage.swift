// The steps of sampling that a request may put in an order of its own.

/// What a step does is said where `SamplingParameters` has its settings.
package enum SamplerStage: Sendable, CaseIterable {
  case penalties, dry, topNSigma, topK, typicalP, topP, minP, xtc, temperature
}
