// The kinds of JSON values that a schema may allow: how raw text of a call is read.

import JSON

struct ValueKinds: OptionSet {
  let rawValue: UInt8

  static let null = ValueKinds(rawValue: 1)
  static let boolean = ValueKinds(rawValue: 2)
  static let integer = ValueKinds(rawValue: 4)
  /// Numbers that are no integers, as they are written.
  static let fraction = ValueKinds(rawValue: 8)
  static let string = ValueKinds(rawValue: 16)
  static let array = ValueKinds(rawValue: 32)
  static let object = ValueKinds(rawValue: 64)
  static let all = ValueKinds(rawValue: 127)

  private static let names: [(name: String, kinds: ValueKinds)] = [
    ("null", .null), ("boolean", .boolean), ("integer", .integer), ("number", [.integer, .fraction]),
    ("string", .string), ("array", .array), ("object", .object),
  ]

  /// The names of these types in a schema.
  var types: [JSONValue] {
    Self.names.filter { !intersection($0.kinds).isEmpty && ($0.name != "integer" || !contains(.fraction)) }
      .map { .string($0.name) }
  }

  private static let maxDepth = 8
  private static let maxBranches = 64

  init(rawValue: UInt8) { self.rawValue = rawValue }

  init(of value: JSONValue) {
    switch value {
    case .null: self = .null
    case .bool: self = .boolean
    case .int, .bigInteger: self = .integer
    case .double: self = .fraction
    case .string: self = .string
    case .array: self = .array
    case .object: self = .object
    }
  }

  /// What a schema allows by its types, its branches and the values that it lists. Where it says nothing that is known
  /// here, all of them.
  ///
  /// - Parameter root: what references point into.
  init(_ schema: JSONValue?, root: JSONValue?, depth: Int = 0) {
    guard let schema = schema?.objectValue, depth < Self.maxDepth else {
      self = .all
      return
    }
    var all = Self.all
    func kinds(_ schema: JSONValue) -> ValueKinds { ValueKinds(schema, root: root, depth: depth + 1) }
    func union(_ schemas: [JSONValue]) -> ValueKinds {
      schemas.prefix(Self.maxBranches).reduce(into: []) { $0.formUnion(kinds($1)) }
    }
    if let type = schema["type"] {
      let words = (type.arrayValue ?? [type]).map { $0.stringValue ?? "" }
      all.formIntersection(
        words.reduce(into: []) { found, word in
          found.formUnion(Self.names.first { $0.name.utf8.elementsEqual(word.utf8) }?.kinds ?? .all)
        })
    } else if schema["properties"] != nil {
      all.formIntersection(.object)
    }
    if let target = SchemaFields.target(of: schema, in: root?.objectValue) {
      all.formIntersection(kinds(target))
    }
    // A number that is listed may be written as either.
    for value in [schema["enum"]?.arrayValue, schema["const"].map { [$0] }].compactMap({ $0 }) {
      all.formIntersection(
        value.reduce(into: []) { found, value in
          let kind = ValueKinds(of: value)
          found.formUnion(kind == .fraction ? [.integer, .fraction] : kind)
        })
    }
    for key in ["anyOf", "oneOf"] {
      if let branches = schema[key]?.arrayValue { all.formIntersection(union(branches)) }
    }
    for part in (schema["allOf"]?.arrayValue ?? []).prefix(Self.maxBranches) {
      all.formIntersection(kinds(part))
    }
    self = all.isEmpty ? .all : all
  }
}
