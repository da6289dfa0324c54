// Sampling parameters that cannot be used, with the range they should be in.

/// Thrown by `SamplingParameters.check` and by the reader of generation_config.json.
package enum SamplingError: Error, Equatable, CustomStringConvertible {
  /// `parameter` is spelled as in the OpenAI API and in generation_config.json.
  case badParameter(_ parameter: String, found: String, expected: String)

  package var description: String {
    switch self {
    case .badParameter(let parameter, let found, let expected):
      "\(parameter) is \(found), expected \(expected)"
    }
  }
}
