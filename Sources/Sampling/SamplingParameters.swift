// How to choose the next token: the settings of one request. The defaults draw from the model's own distribution.

/// All settings of one request. Those that are one number each are rows of `SamplingField`.
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

  /// The defaults, with what the overrides say in their place.
  package init(_ overrides: SamplingOverrides) {
    for field in SamplingField.allCases {
      if let value = overrides[field] { set(field, value) }
    }
  }

  /// Whether every step takes the most likely token, so that the seed has no effect.
  package var isGreedy: Bool { !(temperature >= 1e-5) }
}

extension SamplingParameters {
  /// The parameter that a field sets.
  package subscript(field: SamplingField) -> Double {
    switch field.row.setting {
    case .number(let path, _): Double(self[keyPath: path])
    case .count(let path, _): Double(self[keyPath: path])
    }
  }

  private mutating func set(_ field: SamplingField, _ value: Double) {
    switch field.row.setting {
    case .number(let path, _): self[keyPath: path] = Float(value)
    // No vocabulary is as large as the bound.
    case .count(let path, _): self[keyPath: path] = Int(max(0, min(value, Double(Int32.max))))
    }
  }

  /// The parameter in its own words: `0.7`, `20`.
  package func text(of field: SamplingField) -> String {
    switch field.row.setting {
    case .number(let path, _): "\(self[keyPath: path])"
    case .count(let path, _): "\(self[keyPath: path])"
    }
  }

  /// - Throws: when a value has no meaning. The sampler copes with such values, but not usefully.
  package func check() throws(SamplingError) {
    for field in SamplingField.allCases {
      let row = field.row
      try demand(
        row.usable.contains(self[field]), field.name, text(of: field), row.usable.words(for: row.setting))
    }
    try demand(minTokens >= 0, "min_tokens", "\(minTokens)", "an integer from 0")
    for (token, bias) in logitBias {
      try demand(
        !bias.isNaN && bias < .infinity, "logit_bias of token \(token)", "\(bias)", "a finite number")
    }
  }

  private func demand(_ holds: Bool, _ name: String, _ value: String, _ expected: String)
    throws(SamplingError)
  {
    if !holds { throw .badParameter(name, found: value, expected: expected) }
  }
}
