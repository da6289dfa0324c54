// A small validator of JSON Schema, written apart from the grammar: it judges what the grammar lets through.

import JSON

/// Draft 2020-12 and the common parts of draft 7; formats and identifiers are not judged here, and of patterns
/// only those in `patterns`.
struct SmallValidator {
  let root: JSONValue

  func isValid(_ value: JSONValue) -> Bool { check(value, root, 0) }

  private func resolve(_ reference: String) -> JSONValue? {
    var at = root
    for part in reference.split(separator: "/").dropFirst() {
      let key = part.split(separator: "~1", omittingEmptySubsequences: false).joined(separator: "/")
      guard let next = at[key] ?? Int(key).flatMap({ at[$0] }) else { return nil }
      at = next
    }
    return at
  }

  private func check(_ value: JSONValue, _ schema: JSONValue, _ depth: Int) -> Bool {
    guard depth < 200 else { return false }
    if let holds = schema.boolValue { return holds }
    guard case .object(let members) = schema else { return false }
    for (key, rule) in members.entries {
      guard keyword(key, rule, value, schema, depth + 1) else { return false }
    }
    return true
  }

  private func keyword(
    _ key: String, _ rule: JSONValue, _ value: JSONValue, _ schema: JSONValue, _ depth: Int
  ) -> Bool {
    func all(_ schemas: [JSONValue]) -> [Bool] { schemas.map { check(value, $0, depth) } }
    switch key {
    case "$ref" where rule.stringValue == "#": return check(value, root, depth)
    case "$ref": return rule.stringValue.flatMap(resolve).map { check(value, $0, depth) } ?? false
    case "type": return (rule.arrayValue ?? [rule]).contains { Self.hasType(value, $0.stringValue ?? "") }
    case "enum": return (rule.arrayValue ?? []).contains(value)
    case "const": return rule == value
    case "allOf": return all(rule.arrayValue ?? []).allSatisfy { $0 }
    case "anyOf": return all(rule.arrayValue ?? []).contains(true)
    case "oneOf": return all(rule.arrayValue ?? []).count { $0 } == 1
    case "not": return !check(value, rule, depth)
    case "if":
      return check(value, (check(value, rule, depth) ? schema["then"] : schema["else"]) ?? true, depth)
    default: break
    }
    switch value {
    case .int, .double, .bigInteger: return Self.number(key, rule, value.doubleValue ?? 0)
    case .string(let text):
      let length = text.unicodeScalars.count
      if key == "minLength" { return length >= rule.intValue ?? 0 }
      if key == "maxLength" { return length <= rule.intValue ?? 0 }
      if key == "pattern" {
        return Self.patterns[rule.stringValue ?? ""]?(Array(text.unicodeScalars)) ?? true
      }
      return true
    case .array(let items): return array(key, rule, items, schema, depth)
    case .object(let object): return members(key, rule, object, schema, depth)
    case .null, .bool: return true
    }
  }

  /// What these expressions mean, without an engine for expressions.
  static let patterns: [String: @Sendable ([Unicode.Scalar]) -> Bool] = [
    "^[a-z]{2,8}$": { (2...8).contains($0.count) && $0.allSatisfy { ("a"..."z").contains($0) } },
    "[0-9]": { $0.contains { ("0"..."9").contains($0) } },
    "^(red|green|blue)$": { ["red", "green", "blue"].contains(String(String.UnicodeScalarView($0))) },
    "^\\p{Lu}\\p{Ll}*$": {
      $0.first?.properties.generalCategory == .uppercaseLetter
        && $0.dropFirst().allSatisfy { $0.properties.generalCategory == .lowercaseLetter }
    },
    // ECMA 262 counts U+FEFF among white space, and not U+0085.
    "^[^\\s]*-$": {
      $0.last == "-"
        && !$0.contains { $0 == "\u{FEFF}" || $0 != "\u{85}" && $0.properties.isWhitespace }
    },
  ]

  private static func hasType(_ value: JSONValue, _ name: String) -> Bool {
    switch (value, name) {
    case (.null, "null"), (.bool, "boolean"), (.string, "string"), (.array, "array"), (.object, "object"):
      true
    case (.int, "number"), (.double, "number"), (.bigInteger, "number"), (.int, "integer"),
      (.bigInteger, "integer"):
      true
    case (.double(let number), "integer"): number.rounded() == number
    default: false
    }
  }

  private static func number(_ key: String, _ rule: JSONValue, _ value: Double) -> Bool {
    guard let bound = rule.doubleValue else { return true }
    switch key {
    case "minimum": return value >= bound
    case "maximum": return value <= bound
    case "exclusiveMinimum": return value > bound
    case "exclusiveMaximum": return value < bound
    case "multipleOf":
      let quotient = value / bound
      return abs(quotient - quotient.rounded()) < 1e-6 * max(1, abs(quotient))
    default: return true
    }
  }

  private func array(
    _ key: String, _ rule: JSONValue, _ items: [JSONValue], _ schema: JSONValue, _ depth: Int
  ) -> Bool {
    switch key {
    case "items":
      if let list = rule.arrayValue { return zip(items, list).allSatisfy { check($0, $1, depth) } }
      let start = schema["prefixItems"]?.arrayValue?.count ?? 0
      return items.dropFirst(start).allSatisfy { check($0, rule, depth) }
    case "prefixItems": return zip(items, rule.arrayValue ?? []).allSatisfy { check($0, $1, depth) }
    case "minItems": return items.count >= rule.intValue ?? 0
    case "maxItems": return items.count <= rule.intValue ?? 0
    case "uniqueItems":
      return rule != true || items.indices.allSatisfy { index in !items[..<index].contains(items[index]) }
    case "contains":
      let count = items.count { check($0, rule, depth) }
      return count >= schema["minContains"]?.intValue ?? 1
        && count <= schema["maxContains"]?.intValue ?? Int.max
    default: return true
    }
  }

  private func members(
    _ key: String, _ rule: JSONValue, _ object: JSONObject, _ schema: JSONValue, _ depth: Int
  ) -> Bool {
    switch key {
    case "properties":
      return object.entries.allSatisfy { entry in
        rule[entry.key].map { check(entry.value, $0, depth) } ?? true
      }
    case "additionalProperties":
      return object.entries.allSatisfy { entry in
        // Whether an expression matches is not judged here.
        schema["properties"]?[entry.key] != nil || schema["patternProperties"] != nil
          || check(entry.value, rule, depth)
      }
    case "required": return (rule.arrayValue ?? []).allSatisfy { object[$0.stringValue ?? ""] != nil }
    case "minProperties": return object.count >= rule.intValue ?? 0
    case "maxProperties": return object.count <= rule.intValue ?? 0
    case "propertyNames": return object.keys.allSatisfy { check(.string($0), rule, depth) }
    case "dependentRequired":
      return (rule.objectValue?.entries ?? []).allSatisfy { entry in
        object[entry.key] == nil
          || (entry.value.arrayValue ?? []).allSatisfy { object[$0.stringValue ?? ""] != nil }
      }
    default: return true
    }
  }
}
