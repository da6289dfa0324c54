// A light check of a tool's parameter schema: bounded size and depth, known types, patterns that can be patterns.

import JSON

/// Finds the mistakes that make a schema meaningless for everybody; it does not compile the schema.
struct SchemaCheck {
  /// Where the schema stands in the body.
  let path: String
  let maxBytes: Int
  let maxDepth = 64

  private static let types = ["null", "boolean", "integer", "number", "string", "array", "object"]

  func checkSize(of schema: JSONValue) throws(APIError) {
    guard schema.bytes.count <= maxBytes else {
      throw .invalidValue(path, "the schema is larger than \(maxBytes) bytes")
    }
  }

  /// - Returns: the schema, which is an object.
  func check(_ schema: JSONValue) throws(APIError) -> JSONObject {
    guard let object = schema.objectValue else {
      throw .wrongType(path, expected: "an object", found: schema)
    }
    try check(schema, depth: 0)
    return object
  }

  private func check(_ schema: JSONValue, depth: Int) throws(APIError) {
    guard depth <= maxDepth else {
      throw .invalidValue(path, "the schema is nested more than \(maxDepth) deep")
    }
    guard case .object(let object) = schema else {
      guard schema.boolValue != nil else {
        throw .wrongType(path, expected: "a schema (an object or a boolean)", found: schema)
      }
      return
    }
    for (key, value) in object.entries {
      switch key {
      case "type": try checkType(value)
      case "pattern": try checkPattern(value)
      case "properties", "$defs", "definitions":
        guard let members = value.objectValue else {
          throw .wrongType("\(path)", expected: "an object in '\(key)'", found: value)
        }
        for member in members.entries { try check(member.value, depth: depth + 1) }
      case "anyOf", "oneOf", "allOf":
        guard let branches = value.arrayValue else {
          throw .wrongType("\(path)", expected: "an array in '\(key)'", found: value)
        }
        for branch in branches { try check(branch, depth: depth + 1) }
      case "items":
        // Before draft 2020-12 `items` may be a list of schemas.
        for item in value.arrayValue ?? [value] { try check(item, depth: depth + 1) }
      case "additionalProperties", "not": try check(value, depth: depth + 1)
      default: break
      }
    }
  }

  private func checkType(_ value: JSONValue) throws(APIError) {
    for word in value.arrayValue ?? [value] {
      guard let name = word.stringValue else {
        throw .wrongType("\(path)", expected: "a type name or a list of them in 'type'", found: word)
      }
      guard Self.types.contains(name) else {
        throw .invalidValue(path, "'\(APIError.shortened(name))' is not a type of JSON Schema")
      }
    }
  }

  /// Balanced groups and classes, no backslash at the end, nothing repeated that is not there.
  private func checkPattern(_ value: JSONValue) throws(APIError) {
    guard let pattern = value.stringValue else {
      throw .wrongType("\(path)", expected: "a string in 'pattern'", found: value)
    }
    var groups = 0
    var isInClass = false
    var isEscaped = false
    var isStart = true
    for byte in pattern.utf8 {
      if isEscaped {
        isEscaped = false
        isStart = false
        continue
      }
      switch byte {
      case UInt8(ascii: "\\"): isEscaped = true
      case UInt8(ascii: "]") where isInClass: isInClass = false
      case _ where isInClass: break
      case UInt8(ascii: "["): isInClass = true
      case UInt8(ascii: "("): groups += 1
      case UInt8(ascii: ")"):
        groups -= 1
        if groups < 0 { throw malformed(pattern, "')' closes nothing") }
      case UInt8(ascii: "*"), UInt8(ascii: "+"):
        if isStart { throw malformed(pattern, "there is nothing to repeat") }
      default: break
      }
      isStart = byte == UInt8(ascii: "(") || byte == UInt8(ascii: "|")
    }
    if groups > 0 { throw malformed(pattern, "'(' is not closed") }
    if isInClass { throw malformed(pattern, "'[' is not closed") }
    if isEscaped { throw malformed(pattern, "it ends with a backslash") }
  }

  private func malformed(_ pattern: String, _ problem: String) -> APIError {
    .invalidValue(path, "the pattern '\(APIError.shortened(pattern))' is malformed: \(problem)")
  }
}
