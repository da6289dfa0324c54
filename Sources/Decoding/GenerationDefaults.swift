// The sampling settings that a model's authors recommend: generation_config.json.

package import JSON
package import Sampling

extension SamplingOverrides {
  /// What a model's authors recommend.
  ///
  /// - Parameter config: generation_config.json; nil when the model has none.
  /// - Throws: when one of the settings has a value without meaning.
  package init(generationConfig config: JSONValue?) throws(SamplingError) {
    self = [:]
    for field in SamplingField.allCases where field.row.isInModelFiles {
      guard let value = config?[field.name], !value.isNull else { continue }
      self[field] = try Self.read(value, as: field)
    }
    if config?["do_sample"]?.boolValue == false { self[.temperature] = 0 }
    try SamplingParameters(self).check()
  }

  private static func read(_ value: JSONValue, as field: SamplingField) throws(SamplingError) -> Double {
    switch field.row.setting {
    case .number:
      guard let number = value.doubleValue else { throw fault(field, value, "a number") }
      return number
    case .count:
      guard let count = value.intValue else { throw fault(field, value, "an integer") }
      return max(Double(count), field.row.least)  // vLLM and others write -1 for "all"
    }
  }

  private static func fault(_ field: SamplingField, _ value: JSONValue, _ expected: String) -> SamplingError {
    .badParameter("generation_config.json: " + field.name, found: value.kind, expected: expected)
  }
}
