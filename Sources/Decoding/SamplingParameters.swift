// How to choose the next token: the settings of one request. The defaults draw from the model's own distribution.

/// Fields have the names of the OpenAI API and of generation_config.json; `check` knows their ranges.
package struct SamplingParameters: Sendable, Equatable {
  /// Divides the logits. Below 1e-5 the most likely token is taken (greedy).
  package var temperature: Float = 1
  /// Keep the `topK` most likely tokens; 0 keeps all.
  package var topK: Int = 0
  /// Keep the most likely tokens that together reach this probability; 1 keeps all.
  package var topP: Float = 1
  /// Keep tokens at least this many times as likely as the most likely one; 0 keeps all.
  package var minP: Float = 0
  /// Divides positive and multiplies negative logits of tokens in the prompt or the answer; 1 is off.
  package var repetitionPenalty: Float = 1
  /// Subtracted from the logits of tokens in the answer.
  package var presencePenalty: Float = 0
  /// Subtracted from the logits of tokens in the answer once per occurrence.
  package var frequencyPenalty: Float = 0
  /// Nil: the server picks one.
  package var seed: UInt64?
  /// Added to the logits of these tokens; negative infinity bans a token.
  package var logitBias: [Int32: Float] = [:]
  /// Stop tokens are banned until the answer has this many tokens.
  package var minTokens: Int = 0

  package init() {}

  /// Whether every step takes the most likely token, so that the seed has no effect.
  package var isGreedy: Bool { !(temperature >= 1e-5) }

  /// - Throws: when a value has no meaning. `Sampler` copes with such values, but not usefully.
  package func check() throws(DecodingError) {
    func demand(_ holds: Bool, _ name: String, _ value: some Any, _ range: String) throws(DecodingError) {
      if !holds { throw .badParameter(name, found: "\(value)", expected: range) }
    }
    try demand(temperature >= 0 && temperature.isFinite, "temperature", temperature, "a number from 0")
    try demand(topK >= 0, "top_k", topK, "an integer from 0")
    try demand(topP >= 0 && topP <= 1, "top_p", topP, "a number from 0 to 1")
    try demand(minP >= 0 && minP <= 1, "min_p", minP, "a number from 0 to 1")
    try demand(
      repetitionPenalty > 0 && repetitionPenalty.isFinite, "repetition_penalty", repetitionPenalty,
      "a number above 0")
    try demand(presencePenalty.isFinite, "presence_penalty", presencePenalty, "a finite number")
    try demand(frequencyPenalty.isFinite, "frequency_penalty", frequencyPenalty, "a finite number")
    try demand(minTokens >= 0, "min_tokens", minTokens, "an integer from 0")
    for (token, bias) in logitBias {
      try demand(!bias.isNaN && bias < .infinity, "logit_bias of token \(token)", bias, "a finite number")
    }
  }
}
