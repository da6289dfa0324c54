// What is wrong with a model folder: one line that says what, where, and what to do about it.

package import JSON
package import Platform

/// Names of files and tensors come from the folder: `description` escapes and shortens them.
package enum CheckpointError: Error, Equatable, CustomStringConvertible {
  /// The path leads nowhere, is a file, or cannot be a path.
  case badFolder(path: String, problem: String)
  /// The folder lacks a file that every model has.
  case missingFile(folder: String, name: String, advice: String)
  case file(PlatformError)
  /// The file holds something else than its place demands: GGUF, pickle, a Git LFS pointer.
  case foreignFormat(file: String, format: String, advice: String)
  case json(file: String, error: JSONError)
  /// A JSON file parses, but `key` holds the wrong thing.
  case badValue(file: String, key: String, problem: String)
  /// The header of a safetensors file breaks a rule of the format. `offset` counts from the header's start.
  case badHeader(file: String, offset: Int?, problem: String)
  /// A GGUF file breaks a rule of the format. `offset` counts from the file's start.
  case badGGUF(file: String, offset: Int, problem: String)
  case duplicateTensor(name: String, first: String, second: String)
  case missingTensor(name: String, folder: String)
  case wrongShape(file: String, tensor: String, found: [Int], expected: [Int], because: String)
  case wrongType(file: String, tensor: String, found: String, expected: String)
  /// The tensors of one quantized matrix contradict each other or the configuration.
  case badQuantization(file: String, tensor: String, problem: String)
  /// The checkpoint was quantized by a method whose layout is not MLX's.
  case foreignQuantization(file: String, method: String, option: String? = nil)
  /// A folder with an adapter that cannot be served, or does not fit its model.
  case badAdapter(path: String, problem: String)

  package var description: String {
    switch self {
    case .badFolder(let path, let problem): "model folder \(Self.quoted(path)): \(problem)"
    case .missingFile(let folder, let name, let advice):
      "\(Self.place(folder)) has no \(Self.escaped(name)). \(advice)"
    case .file(let error): Self.place(error.description)
    case .foreignFormat(let file, let format, let advice): "\(Self.place(file)) is \(format). \(advice)"
    case .json(let file, let error): "\(Self.place(file)): \(error). \(Self.again)"
    case .badValue(let file, let key, let problem): "\(Self.place(file)): \(Self.escaped(key)) \(problem)"
    case .badHeader(let file, let offset, let problem):
      "\(Self.place(file)): not a valid safetensors file: \(problem)"
        + (offset.map { " (byte \($0) of the header)" } ?? "") + ". \(Self.again)"
    case .badGGUF(let file, let offset, let problem):
      "\(Self.place(file)): not a GGUF file that can be read: \(problem) (byte \(offset)). \(Self.again)"
    case .duplicateTensor(let name, let first, let second):
      "tensor \(Self.quoted(name)) is stored twice, in \(Self.place(first)) and in \(Self.place(second)). Remove the stray file."
    case .missingTensor(let name, let folder):
      "\(Self.place(folder)): tensor \(Self.quoted(name)) is missing. "
        + "The checkpoint is incomplete or not of the model_type that config.json says."
    case .wrongShape(let file, let tensor, let found, let expected, let because):
      "\(Self.place(file)): tensor \(Self.quoted(tensor)) is \(found), expected \(expected)\(Self.clause(because)). "
        + "Re-download the checkpoint or fix config.json."
    case .wrongType(let file, let tensor, let found, let expected):
      "\(Self.place(file)): tensor \(Self.quoted(tensor)) has elements of type \(found), expected \(expected)."
    case .badQuantization(let file, let tensor, let problem):
      "\(Self.place(file)): quantized tensor \(Self.quoted(tensor)): \(problem)."
    case .foreignQuantization(let file, let method, let option):
      "\(Self.place(file)): the checkpoint is quantized with \(Self.quoted(method))"
        + (option.map { " and \(Self.escaped($0))" } ?? "") + ", which is not supported. "
        + "Use an MLX conversion (mlx_lm.convert -q) of the original model."
    case .badAdapter(let path, let problem): "the adapter \(Self.place(path)): \(problem)."
    }
  }

  private static let again = "Download the file again."

  private static func clause(_ words: String) -> String { words.isEmpty ? "" : ": " + words }

  /// A path: longer than a tensor's name may be.
  private static func place(_ path: String) -> String { escaped(path, limit: 1000) }

  /// A name from a file, in one line.
  package static func quoted(_ text: String) -> String { "'" + escaped(text) + "'" }

  /// One line of bounded length, whatever a hostile file put into a name.
  static func escaped(_ text: String, limit: Int = 200) -> String {
    var out = ""
    for scalar in text.unicodeScalars {
      if out.utf8.count >= limit { return out + "…" }
      if scalar.steersText {
        out += "\\u{" + String(scalar.value, radix: 16) + "}"
      } else {
        out.unicodeScalars.append(scalar)
      }
    }
    return out
  }
}
