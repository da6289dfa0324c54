// Why a tokenizer.json cannot be used.

package import JSON

/// Thrown while a tokenizer is made. Encoding and decoding throw nothing.
package enum TokenizerError: Error, CustomStringConvertible {
  /// The file is not JSON.
  case json(JSONError)
  /// A field is absent, of the wrong type or out of range.
  case field(path: String, problem: String)
  /// A component, option or pattern that this implementation does not have.
  case unsupported(path: String, what: String)

  package var description: String {
    switch self {
    case .json(let error):
      "tokenizer.json: \(error). Re-download the file."
    case .field(let path, let problem):
      "tokenizer.json: \(path): \(problem). Re-download the file or convert the tokenizer again."
    case .unsupported(let path, let what):
      "tokenizer.json: \(path): \(what) is not supported."
    }
  }
}
