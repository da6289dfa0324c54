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

  /// What it is called on every wire and in generation_config.json.
  package var name: String { rawValue }

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
    case .topK: Row(.count(\.topK, from: -1), usable: .fromZero, isInModelFiles: true, note: "0 and -1: off")
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

    fileprivate init(_ setting: Setting, usable: Domain, isInModelFiles: Bool, note: String) {
      self.setting = setting
      self.usable = usable
      self.isInModelFiles = isInModelFiles
      self.note = note
    }
  }

  /// A parameter, and the values that a request may give it.
  package enum Setting: Sendable {
    case number(any WritableKeyPath<SamplingParameters, Float> & Sendable, in: ClosedRange<Double>)
    /// An integer; what is below 0 means the same as 0.
    case count(any WritableKeyPath<SamplingParameters, Int> & Sendable, from: Int)
  }

  /// The values with which a parameter has a meaning.
  package enum Domain: String, Sendable {
    case fromZero = "from 0"
    case aboveZero = "above 0"
    case zeroToOne = "from 0 to 1"
    case finite

    func contains(_ value: Double) -> Bool {
      switch self {
      case .fromZero: value >= 0 && value.isFinite
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
