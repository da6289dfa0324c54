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
  /// Tokens that the repetition penalty looks at, the last ones; -1 for all, 0 for none.
  package var repeatLastN: Int = -1
  /// What "don't repeat yourself" subtracts where a sequence of the allowed length would be repeated; 0 is off.
  package var dryMultiplier: Float = 0
  /// The factor for each further token of the sequence.
  package var dryBase: Float = 1.75
  /// Tokens of the shortest sequence that costs something.
  package var dryAllowedLength: Int = 2
  /// Tokens in which repetitions are looked for, the last ones; -1 for all, 0 for none.
  package var dryPenaltyLastN: Int = -1
  /// What repeated sequences do not reach across.
  package var dryBreakers = SequenceBreakers()
  /// Keep tokens whose logits are within this many standard deviations of the largest; 0 and below keep all.
  package var topNSigma: Float = -1
  /// Keep the tokens whose surprise is nearest to the entropy, until they reach this probability; 1 keeps all.
  package var typicalP: Float = 1
  /// How often all but the least likely of the tokens from `xtcThreshold` up are left out; 0 is never.
  package var xtcProbability: Float = 0
  /// Above a half there is at most one such token.
  package var xtcThreshold: Float = 0.1
  /// How far the entropy moves the temperature, to both sides; 0 is off.
  package var dynatempRange: Float = 0
  /// The power of the entropy's share of the largest possible one.
  package var dynatempExponent: Float = 1
  /// The version of Mirostat: 1 or 2; 0 is off.
  package var mirostat: Int = 0
  /// Its aim, bits of surprise.
  package var mirostatTau: Float = 5
  /// How fast it learns.
  package var mirostatEta: Float = 0.1
  /// Nil: the server picks one.
  package var seed: UInt64?
  /// Added to the logits of these tokens; negative infinity bans a token.
  package var logitBias: [Int32: Float] = [:]
  /// Stop tokens are banned until the answer has this many tokens.
  package var minTokens: Int = 0
  /// Sequences of tokens that the answer must not hold.
  package var bannedSequences: [[Int32]] = []
  /// The samplers in the order in which they work, and no others; nil for all in this server's order. Mirostat comes in
  /// their place.
  package var order: [SamplerStage]?
  /// The only tokens that may be chosen; nil for all.
  package var allowedTokens: [Int32]?

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
    case .count(let path, _):
      self[keyPath: path] = Int(max(field.row.least, min(value, Double(Int32.max))))
    }
  }

  /// The parameter in its own words: `0.7`, `20`.
  package func text(of field: SamplingField) -> String {
    switch field.row.setting {
    case .number(let path, _): "\(self[keyPath: path])"
    case .count(let path, _): "\(self[keyPath: path])"
    }
  }

  /// What is said, in the order of the table: `temperature 0.8, top_k 40`.
  package static func words(_ overrides: SamplingOverrides) -> String {
    let parameters = SamplingParameters(overrides)
    let said = SamplingField.allCases.filter { overrides[$0] != nil }
    return said.map { "\($0.name) \(parameters.text(of: $0))" }.joined(separator: ", ")
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
