// What the two call syntaxes that are not JSON need to know of a schema: types, properties, references.

import Grammar
import JSON

/// A schema with the root that its references point into.
struct SchemaFields {
  let schema: JSONObject
  let root: JSONObject
  /// JSON pointer of this schema in the root.
  let path: String

  static let maxDepth = 24

  init(_ value: JSONValue, root: JSONObject?, path: String, depth: Int = 0) throws(GrammarError) {
    guard let object = value.objectValue else {
      throw .unsupported(keyword: "\(value.text)", path: path, reason: "this model's calls need a type")
    }
    guard depth < Self.maxDepth else {
      throw .unsupported(keyword: "$ref", path: path, reason: "the schema is recursive or nested too deep")
    }
    let root = root ?? object
    if object["$ref"]?.stringValue != nil {
      let target = try Self.resolve(object, in: root, path: path)
      self = try SchemaFields(target, root: root, path: path, depth: depth + 1)
      return
    }
    schema = object
    (self.root, self.path) = (root, path)
  }

  /// What the reference of a schema points at: `#/$defs/name` or `#/definitions/name`.
  static func target(of schema: JSONObject, in root: JSONObject?) -> JSONValue? {
    guard let reference = schema["$ref"]?.stringValue else { return nil }
    for group in groups {
      let prefix = "#/\(group)/"
      guard reference.utf8.starts(with: prefix.utf8) else { continue }
      let name = Bytes.text(reference.utf8.dropFirst(prefix.utf8.count))
      if let target = root?[group]?[name] { return target }
    }
    return nil
  }

  private static func resolve(_ schema: JSONObject, in root: JSONObject, path: String) throws(GrammarError)
    -> JSONValue
  {
    if let target = target(of: schema, in: root) { return target }
    let reference = schema["$ref"]?.stringValue ?? ""
    throw .unsupported(
      keyword: "$ref", path: path, reason: "'\(reference.prefix(100))' is not among the schema's '$defs'")
  }

  private static let annotations: Set = [
    "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment",
    "$schema", "$id", "$defs", "definitions",
  ]

  /// Whether a schema says no more than its type.
  static func isPlain(_ schema: JSONValue) -> Bool {
    schema.objectValue?.keys.allSatisfy { $0 == "type" || annotations.contains($0) } ?? false
  }

  /// - Throws: for keywords other than these; annotations are always allowed.
  func allow(_ keywords: Set<String>) throws(GrammarError) {
    for key in schema.keys where !keywords.contains(key) && !Self.annotations.contains(key) {
      throw .unsupported(keyword: key, path: path, reason: "this model's calls cannot be held to it")
    }
  }

  /// The one type of the values; nil when the schema names several or none.
  var type: String? {
    switch schema["type"] {
    case .string(let type)?: return type
    case .array(let types)? where types.count == 1: return types[0].stringValue
    default: break
    }
    return schema["properties"] != nil ? "object" : nil
  }

  /// The values of `enum` or `const`; nil when there are neither.
  var constants: [JSONValue]? { schema["const"].map { [$0] } ?? schema["enum"]?.arrayValue }

  /// The branches of `anyOf` or `oneOf`, or one for each of several types; nil when it has none.
  var branches: [JSONValue]? {
    if let branches = schema["anyOf"]?.arrayValue { return branches }
    guard let types = schema["type"]?.arrayValue, types.count > 1 else { return nil }
    return types.map { type in
      var branch = schema
      branch["type"] = type
      return .object(branch)
    }
  }

  struct Property {
    let name: String
    let schema: JSONValue
    let isRequired: Bool
    let path: String
    /// Whether it is among the properties.
    var isDeclared = true
  }

  /// The properties of an object, required ones among them.
  ///
  /// - Parameter allowingOthers: whether those that are required may be no properties. They are last.
  func properties(allowingOthers: Bool = false) throws(GrammarError) -> [Property] {
    let required = (schema["required"]?.arrayValue ?? []).compactMap(\.stringValue)
    let properties = schema["properties"]?.objectValue ?? JSONObject()
    var others: [String] = []
    for name in required where properties[name] == nil && !others.contains(name) { others.append(name) }
    if !allowingOthers, let name = others.first {
      throw .unsupported(
        keyword: "required", path: path, reason: "'\(name.prefix(100))' is not among the properties")
    }
    return properties.entries.map { name, value in
      Property(
        name: name, schema: value,
        isRequired: required.contains { $0.utf8.elementsEqual(name.utf8) },
        path: "\(path)/properties/\(Self.escaped(name))")
    } + others.map { Property(name: $0, schema: true, isRequired: true, path: path, isDeclared: false) }
  }

  /// A schema within this one that stands alone, whatever its references point at.
  func alone(_ schema: JSONValue) -> JSONValue {
    guard var alone = schema.objectValue else { return schema }
    guard Self.refersElsewhere(.object(root)) else {
      for group in Self.groups where root[group] != nil { alone[group] = root[group] }
      return .object(alone)
    }
    // The whole schema goes along, under a name of its own.
    let id = root["$id"]?.stringValue ?? "mlxserve:parameters"
    var (whole, group) = (root, root["$defs"]?.objectValue ?? JSONObject())
    group["mlxserve:property"] = schema
    (whole["$id"], whole["$defs"]) = (.string(id), .object(group))
    return [
      "$ref": .string(id + "#/$defs/mlxserve:property"), "$defs": ["mlxserve:parameters": .object(whole)],
    ]
  }

  private static let groups = ["$defs", "definitions"]

  /// Whether there are references to anything but `$defs` and `definitions`.
  private static func refersElsewhere(_ schema: JSONValue) -> Bool {
    switch schema {
    case .array(let items): items.contains(where: refersElsewhere)
    case .object(let members):
      members.entries.contains { key, value in
        guard ["$ref", "$dynamicRef", "$recursiveRef"].contains(key),
          let text = value.stringValue
        else { return refersElsewhere(value) }
        return !groups.contains { text.utf8.starts(with: "#/\($0)/".utf8) }
      }
    default: false
    }
  }

  /// A sub-schema that stands alone: references still find their targets.
  func standalone() -> JSONValue {
    var alone = schema
    for group in Self.groups where root[group] != nil { alone[group] = root[group] }
    return .object(alone)
  }

  private static func escaped(_ name: String) -> String {
    var text = ""
    for scalar in name.unicodeScalars {
      switch scalar {
      case "~": text += "~0"
      case "/": text += "~1"
      default: text.unicodeScalars.append(scalar)
      }
    }
    return text
  }
}
