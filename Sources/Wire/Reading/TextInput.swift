// Texts that come as text or as the ids of tokens: prompts of completions, inputs of embeddings.

package import JSON

/// A text, or the ids of tokens.
package enum TextInput: Sendable, Equatable {
  case text(String)
  case tokens([Int32])
}

extension Fields {
  /// The four forms: a text, token ids, or a list of either.
  ///
  /// - Parameter noun: what they are called in errors: "prompts", "inputs".
  /// - Returns: at least one, and whether they came as a list of several.
  package mutating func requiredInputs(
    _ field: String, _ noun: String, maxCount: Int, _ words: @autoclosure () -> Words,
    like example: @autoclosure () -> String = #""x""#
  ) throws(APIError) -> (inputs: [TextInput], isList: Bool) {
    func list(of shape: String) -> String { Shape.array(of: shape, 1...maxCount) }
    let value = try required(
      field, Shape.any(Shape.string, Shape.tokens, list(of: Shape.string), list(of: Shape.tokens)), words(),
      like: example())
    return try TextInputReader(noun: noun, maxCount: maxCount, vocabularySize: vocabularySize)
      .read(value, field: field)
  }

  /// Ids of tokens; nil when absent or null.
  mutating func tokens(
    _ field: String, minCount: Int = 0, maxCount: Int, vocabularySize: Int, _ words: @autoclosure () -> Words,
    like example: @autoclosure () -> String = "[65,66]"
  ) throws(APIError) -> [Int32]? {
    let values = try array(
      field, of: Shape.integer(0...Int.max), minCount: minCount, maxCount: maxCount, words(), like: example())
    return try values.map { (values) throws(APIError) in
      try TokenID.read(values, vocabularySize: vocabularySize, path: name(of: field))
    }
  }
}

/// Reads the four forms.
private struct TextInputReader {
  let noun: String
  let maxCount: Int
  let vocabularySize: Int

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
    return try TokenID.read(elements, vocabularySize: vocabularySize, path: path)
  }

  private func isInteger(_ value: JSONValue) -> Bool {
    switch value {
    case .int, .bigInteger: true
    default: false
    }
  }
}

/// Token ids on the wire.
package enum TokenID {
  /// ASCII digits only: `٣` and `+3` are no token ids.
  static func parse(_ text: String) -> Int32? {
    guard !text.utf8.isEmpty, text.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }) else { return nil }
    return Int32(text)
  }

  /// - Parameter name: the path of the id, for the error.
  static func read(_ value: JSONValue, vocabularySize: Int, name: String) throws(APIError) -> Int32 {
    Int32(clamping: try Fields.integer(value, in: 0...max(0, vocabularySize - 1), name: name))
  }

  /// The ids of a list.
  ///
  /// - Parameter path: of the list, for errors.
  package static func read(_ values: [JSONValue], vocabularySize: Int, path: String) throws(APIError)
    -> [Int32]
  {
    var tokens: [Int32] = []
    tokens.reserveCapacity(values.count)
    for (index, value) in values.enumerated() {
      tokens.append(try read(value, vocabularySize: vocabularySize, name: "\(path)[\(index)]"))
    }
    return tokens
  }
}
