// The sampling settings that a model's authors recommend: generation_config.json.

package import JSON

/// Nil where the file says nothing.
package struct GenerationDefaults: Sendable, Equatable {
  package var temperature: Float?
  package var topK: Int?
  package var topP: Float?
  package var minP: Float?
  package var repetitionPenalty: Float?

  /// No recommendations.
  package init() {}

  /// - Parameter config: generation_config.json; nil when the model has none.
  /// - Throws: when one of the settings has a value without meaning.
  package init(_ config: JSONValue?) throws(DecodingError) {
    func number(_ key: String) throws(DecodingError) -> Float? {
      guard let value = config?[key], !value.isNull else { return nil }
      guard let number = value.doubleValue else { throw Self.fault(key, value, "a number") }
      return Float(number)
    }
    temperature = try number("temperature")
    topP = try number("top_p")
    minP = try number("min_p")
    repetitionPenalty = try number("repetition_penalty")
    if let value = config?["top_k"], !value.isNull {
      guard let count = value.intValue else { throw Self.fault("top_k", value, "an integer") }
      topK = max(count, 0)  // vLLM and others write -1 for "all"
    }
    if config?["do_sample"]?.boolValue == false { temperature = 0 }
    try parameters.check()
  }

  private static func fault(_ key: String, _ value: JSONValue, _ expected: String) -> DecodingError {
    .badParameter("generation_config.json: " + key, found: value.kind, expected: expected)
  }

  /// Sampling parameters with these defaults in place of the API's.
  package var parameters: SamplingParameters {
    var parameters = SamplingParameters()
    if let temperature { parameters.temperature = temperature }
    if let topK { parameters.topK = topK }
    if let topP { parameters.topP = topP }
    if let minP { parameters.minP = minP }
    if let repetitionPenalty { parameters.repetitionPenalty = repetitionPenalty }
    return parameters
  }
}
