// The table of sampling fields: what each is called, what it may say, and which parameter it sets.
//
// Everything that names such a field walks this table: the readers of all wires, the OpenAPI document, the reader of
// generation_config.json, `mlxserve verify`, and the tests that compare them with docs/api.md.

/// A setting of the sampler that is one number.
package enum SamplingField: String, CaseIterable, Sendable {
  case temperature
  case topP = "top_p"
  case topK = "top_k"
  case minP = "min_p"
  case repetitionPenalty = "repetition_penalty"
  case presencePenalty = "presence_penalty"
  case frequencyPenalty = "frequency_penalty"
  case repeatLastN = "repeat_last_n"
  case dryMultiplier = "dry_multiplier"
  case dryBase = "dry_base"
  case dryAllowedLength = "dry_allowed_length"
  case dryPenaltyLastN = "dry_penalty_last_n"
  case topNSigma = "top_n_sigma"
  case typicalP = "typical_p"
  case xtcProbability = "xtc_probability"
  case xtcThreshold = "xtc_threshold"
  case dynatempRange = "dynatemp_range"
  case dynatempExponent = "dynatemp_exponent"
  case mirostat
  case mirostatTau = "mirostat_tau"
  case mirostatEta = "mirostat_eta"

  /// What it is called on every wire and in generation_config.json.
  package var name: String { rawValue }

  /// What other servers call it: a request may say it too. `name` wins.
  package var aliases: [String] {
    switch self {
    case .repetitionPenalty: ["repeat_penalty"]
    case .typicalP: ["typ_p"]
    default: []
    }
  }

  /// Its row of the table.
  package var row: Row {
    switch self {
    case .temperature:
      Row(
        .number(\.temperature, in: 0...2), usable: .fromZero, isInModelFiles: true,
        note: "0 always takes the likeliest token")
    case .topP:
      Row(
        .number(\.topP, in: 0...1), usable: .zeroToOne, isInModelFiles: true,
        note: "keeps the likeliest tokens that together have this probability")
    case .topK:
      Row(
        .count(\.topK, in: -1...Int(Int32.max)), usable: .fromZero, isInModelFiles: true,
        note: "0 and -1: off")
    case .minP:
      Row(
        .number(\.minP, in: 0...1), usable: .zeroToOne, isInModelFiles: true,
        note: "keeps tokens at least this many times as likely as the likeliest one")
    case .repetitionPenalty:
      Row(
        .number(\.repetitionPenalty, in: 0.01...10), usable: .aboveZero, isInModelFiles: true,
        note: "divides positive and multiplies negative logits of tokens in the prompt or the answer")
    case .presencePenalty:
      Row(
        .number(\.presencePenalty, in: -2...2), usable: .finite, isInModelFiles: false,
        note: "subtracted from the logits of tokens in the answer")
    case .frequencyPenalty:
      Row(
        .number(\.frequencyPenalty, in: -2...2), usable: .finite, isInModelFiles: false,
        note: "subtracted from the logits of tokens in the answer, once per occurrence")
    case .repeatLastN, .dryMultiplier, .dryBase, .dryAllowedLength, .dryPenaltyLastN: repetitionRow
    case .topNSigma, .typicalP, .xtcProbability, .xtcThreshold: filterRow
    case .dynatempRange, .dynatempExponent, .mirostat, .mirostatTau, .mirostatEta: adaptiveRow
    }
  }

  /// Rows of what looks for repetitions.
  private var repetitionRow: Row {
    switch self {
    case .repeatLastN:
      Row(
        .count(\.repeatLastN, in: -1...Int(Int32.max)), usable: .fromMinusOne, isInModelFiles: false,
        note: "the repetition penalty looks at this many last tokens; -1: at all, 0: it is off")
    case .dryMultiplier:
      Row(
        .number(\.dryMultiplier, in: 0...100), usable: .fromZero, isInModelFiles: false,
        note:
          "times dry_base to the power of the surplus length is subtracted from the logit of a token that "
          + "would repeat a sequence; 0: off")
    case .dryBase:
      Row(
        .number(\.dryBase, in: 1...100), usable: .aboveZero, isInModelFiles: false,
        note: "how fast that grows with the length of the sequence")
    case .dryAllowedLength:
      Row(
        .count(\.dryAllowedLength, in: 0...Int(Int32.max)), usable: .fromZero, isInModelFiles: false,
        note: "the length in tokens from which a repeated sequence costs something")
    default:
      Row(
        .count(\.dryPenaltyLastN, in: -1...Int(Int32.max)), usable: .fromMinusOne, isInModelFiles: false,
        note: "repetitions are looked for in this many last tokens; -1: in all, 0: in none")
    }
  }

  /// Rows of filters that leave tokens out.
  private var filterRow: Row {
    switch self {
    case .topNSigma:
      Row(
        .number(\.topNSigma, in: -1...100), usable: .finite, isInModelFiles: false,
        note: "keeps tokens whose logits are within this many standard deviations of the largest; "
          + "0 and below: off")
    case .typicalP:
      Row(
        .number(\.typicalP, in: 0...1), usable: .zeroToOne, isInModelFiles: true,
        note: "keeps the tokens of about average surprise that together have this probability; 1: off")
    case .xtcProbability:
      Row(
        .number(\.xtcProbability, in: 0...1), usable: .zeroToOne, isInModelFiles: false,
        note: "how often the top choices but the least likely of them are left out; 0: off")
    default:
      Row(
        .number(\.xtcThreshold, in: 0...1), usable: .zeroToOne, isInModelFiles: false,
        note: "the probability that makes a token one of the top choices; above 0.5: off")
    }
  }

  /// Rows of what changes with the text, or with the distribution.
  private var adaptiveRow: Row {
    switch self {
    case .dynatempRange:
      Row(
        .number(\.dynatempRange, in: 0...10), usable: .fromZero, isInModelFiles: false,
        note: "the temperature moves by this to both sides, with the entropy of what the filters kept; 0: off"
      )
    case .dynatempExponent:
      Row(
        .number(\.dynatempExponent, in: 0...10), usable: .fromZero, isInModelFiles: false,
        note: "the power of that entropy, as a share of the largest possible")
    case .mirostat:
      Row(
        .count(\.mirostat, in: 0...2), usable: .fromZero, isInModelFiles: false,
        note: "1 and 2: the version of Mirostat, which takes the place of all filters; 0: off")
    case .mirostatTau:
      Row(
        .number(\.mirostatTau, in: 0...100), usable: .fromZero, isInModelFiles: false,
        note: "the surprise in bits that Mirostat aims at")
    default:
      Row(
        .number(\.mirostatEta, in: 0...10), usable: .fromZero, isInModelFiles: false,
        note: "how fast Mirostat learns")
    }
  }
}

extension SamplingField {
  /// What the table says about a field.
  package struct Row: Sendable {
    /// The parameter that it sets, and what a request may say.
    package let setting: Setting
    /// What the sampler can work with: more than a request may say, for a model's file.
    package let usable: Domain
    /// Whether generation_config.json is read for it.
    package let isInModelFiles: Bool
    /// What it does, for /openapi.json and docs/api.md.
    package let note: String
    /// The least value that is a setting of its own; what is below it means the same.
    package var least: Double {
      switch usable {
      case .fromMinusOne: -1
      case .fromZero, .aboveZero, .zeroToOne: 0
      case .finite: -.infinity
      }
    }

    fileprivate init(_ setting: Setting, usable: Domain, isInModelFiles: Bool, note: String) {
      (self.setting, self.usable, self.isInModelFiles) = (setting, usable, isInModelFiles)
      self.note = note
    }
  }

  /// A parameter, and the values that a request may give it.
  package enum Setting: Sendable {
    case number(any WritableKeyPath<SamplingParameters, Float> & Sendable, in: ClosedRange<Double>)
    /// An integer; the largest of 32 bits stands for no bound.
    case count(any WritableKeyPath<SamplingParameters, Int> & Sendable, in: ClosedRange<Int>)
  }

  /// The values with which a parameter has a meaning.
  package enum Domain: String, Sendable {
    case fromZero = "from 0"
    case fromMinusOne = "from -1"
    case aboveZero = "above 0"
    case zeroToOne = "from 0 to 1"
    case finite

    func contains(_ value: Double) -> Bool {
      switch self {
      case .fromZero: value >= 0 && value.isFinite
      case .fromMinusOne: value >= -1 && value.isFinite
      case .aboveZero: value > 0 && value.isFinite
      case .zeroToOne: value >= 0 && value <= 1
      case .finite: value.isFinite
      }
    }

    /// "a number from 0", "a finite number".
    func words(for setting: Setting) -> String {
      if self == .finite { return "a finite number" }
      return if case .count = setting { "an integer \(rawValue)" } else { "a number \(rawValue)" }
    }
  }
}

/// Some of the settings, as a request or a model's file says them; the others stay what they were.
package struct SamplingOverrides: Sendable, Equatable, ExpressibleByDictionaryLiteral {
  private var values: [SamplingField: Double]

  package init(dictionaryLiteral values: (SamplingField, Double)...) {
    self.values = Dictionary(values) { $1 }
  }

  /// Whether nothing is said.
  package var isEmpty: Bool { values.isEmpty }

  /// Nil where nothing is said.
  package subscript(field: SamplingField) -> Double? {
    get { values[field] }
    set { values[field] = newValue }
  }

  /// What both say together; where both say something, `others` win.
  package func merging(_ others: SamplingOverrides) -> SamplingOverrides {
    var both = self
    both.values.merge(others.values) { $1 }
    return both
  }

  /// What holds: the value that is said, else that of `SamplingParameters()`.
  package func effective(_ field: SamplingField) -> Double { self[field] ?? SamplingParameters()[field] }
}
