// Texts that come as text or as the ids of tokens: prompts of completions, inputs of embeddings.

import JSON

/// A text, or the ids of tokens.
package enum TextInput: Sendable, Equatable {
  case text(String)
  case tokens([Int32])
}

/// Reads the four forms: a text, token ids, or a list of either.
struct TextInputReader {
  /// What they are called in errors: "prompts", "inputs".
  let noun: String
  let maxCount: Int
  /// Token ids must be below it.
  let vocabularySize: Int

  /// - Returns: at least one, and whether they came as a list of several.
  func read(_ value: JSONValue, field: String) throws(APIError) -> (inputs: [TextInput], isList: Bool) {
    switch value {
    case .string(let text): return ([.text(text)], false)
    case .array(let elements):
      guard let first = elements.first else { throw .invalidValue(field, "it is empty") }
      if isInteger(first) { return ([.tokens(try tokens(elements, path: field))], false) }
      guard elements.count <= maxCount else {
        throw .invalidValue(field, "there are \(elements.count) \(noun), more than \(maxCount)")
      }
      var inputs: [TextInput] = []
      for (index, element) in elements.enumerated() {
        inputs.append(try input(element, like: first, path: "\(field)[\(index)]"))
      }
      return (inputs, true)
    default:
      throw .wrongType(field, expected: "a string, token ids, or an array of either", found: value)
    }
  }

  private func input(_ element: JSONValue, like first: JSONValue, path: String) throws(APIError) -> TextInput
  {
    switch (element, first) {
    case (.string(let text), .string): return .text(text)
    case (.array(let ids), .array): return .tokens(try tokens(ids, path: path))
    default:
      throw .wrongType(
        path, expected: "\(noun) of one kind (strings, or arrays of token ids)", found: element)
    }
  }

  private func tokens(_ elements: [JSONValue], path: String) throws(APIError) -> [Int32] {
    guard !elements.isEmpty else { throw .invalidValue(path, "it is empty") }
    var ids: [Int32] = []
    ids.reserveCapacity(elements.count)
    for (index, element) in elements.enumerated() {
      ids.append(try TokenID.read(element, vocabularySize: vocabularySize, name: "\(path)[\(index)]"))
    }
    return ids
  }

  private func isInteger(_ value: JSONValue) -> Bool {
    switch value {
    case .int, .bigInteger: true
    default: false
    }
  }
}
