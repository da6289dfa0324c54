// Values of calls that are not JSON as a pattern: Gemma's objects with bare keys, Python's literals.

import Grammar
import JSON

/// Values of a notation. Used by one thread.
final class LiteralValues {
  /// What notations differ in.
  struct Notation {
    /// The strings of a schema, and a given one.
    let string: (JSONValue) -> Pattern
    let text: (String) -> Pattern
    /// The key of an object with what follows it.
    let key: (String) -> String
    let separator: String
    /// For true, false and null.
    let words: [String]
    /// Keys stand without quotes, and so have to be words.
    let hasBareKeys: Bool
    /// Keys are in the order of their letters, as the template prints them.
    let sortsKeys: Bool
  }

  private let notation: Notation
  /// Values described so far: references that fan out would describe them without end.
  private var count = 0

  private static let maxCount = 5_000

  init(_ notation: Notation) { self.notation = notation }

  // MARK: By schema

  func value(_ fields: SchemaFields, depth: Int) throws(GrammarError) -> Pattern {
    count += 1
    guard depth < SchemaFields.maxDepth, count <= Self.maxCount else {
      throw .unsupported(
        keyword: "$ref", path: fields.path, reason: "the schema is recursive, nested too deep or too large")
    }
    if let constants = fields.constants { return .choice(constants.map(constant)) }
    if let branches = fields.branches {
      if fields.schema["anyOf"] != nil { try fields.allow(["anyOf", "type"]) }
      var choices: [Pattern] = []
      for (index, branch) in branches.enumerated() {
        choices.append(
          try value(
            SchemaFields(branch, root: fields.root, path: "\(fields.path)/anyOf/\(index)"), depth: depth + 1))
      }
      return .choice(choices)
    }
    switch fields.type {
    case "string": return notation.string(fields.standalone())
    case "boolean":
      try fields.allow(["type"])
      return .choice(notation.words[..<2].map(Pattern.literal))
    case "null": return .literal(notation.words[2])
    case "number", "integer": return .schema(fields.standalone())
    case "array": return try array(fields, depth: depth)
    case "object":
      try fields.allow(["type", "properties", "required", "additionalProperties"])
      return try object(fields, depth: depth)
    default:
      throw .unsupported(
        keyword: "type", path: fields.path, reason: "this model's calls need one type for each value")
    }
  }

  private func constant(_ value: JSONValue) -> Pattern {
    switch value {
    case .string(let text): notation.text(text)
    case .bool(let isTrue): .literal(notation.words[isTrue ? 0 : 1])
    case .null: .literal(notation.words[2])
    case .array(let values): bracketed("[", values.map(constant), "]")
    case .object(let object):
      bracketed(
        "{", object.entries.map { .sequence([.literal(notation.key($0.key)), constant($0.value)]) }, "}")
    default: .literal(value.text)
    }
  }

  private func bracketed(_ open: String, _ items: [Pattern], _ close: String) -> Pattern {
    let separated = items.enumerated().flatMap {
      $0.offset == 0 ? [$0.element] : [separator, $0.element]
    }
    return .sequence([.literal(open)] + separated + [.literal(close)])
  }

  private func array(_ fields: SchemaFields, depth: Int) throws(GrammarError) -> Pattern {
    try fields.allow(["type", "items", "minItems", "maxItems"])
    guard let items = fields.schema["items"], items.objectValue != nil else {
      throw .unsupported(
        keyword: "items", path: fields.path, reason: "this model's calls need a schema of the items")
    }
    let item = try value(
      SchemaFields(items, root: fields.root, path: "\(fields.path)/items"), depth: depth + 1)
    let bounds = ["minItems", "maxItems"].map { fields.schema[$0]?.intValue.map { max(0, $0) } }
    return list(item, min: bounds[0] ?? 0, max: bounds[1])
  }

  private func list(_ item: Pattern, min: Int, max: Int?) -> Pattern {
    let rest = Pattern.repeated(
      .sequence([separator, item]), min: Swift.max(0, min - 1), max: max.map { Swift.max(0, $0 - 1) })
    let some = Pattern.sequence([item, rest])
    let body: Pattern =
      if max == 0 {
        .literal("")
      } else {
        min > 0 ? some : .choice([.literal(""), some])
      }
    return .sequence([.literal("["), body, .literal("]")])
  }

  private func object(_ fields: SchemaFields, depth: Int) throws(GrammarError) -> Pattern {
    var members: [(pattern: Pattern, isRequired: Bool)] = []
    let properties = try fields.properties()
    let ordered =
      notation.sortsKeys ? properties.sorted { $0.name.lowercased() < $1.name.lowercased() } : properties
    for property in ordered {
      let isWord = property.name.utf8.allSatisfy(Self.isKeyByte) && !property.name.utf8.isEmpty
      guard isWord || !notation.hasBareKeys else {
        throw .unsupported(
          keyword: "properties", path: property.path, reason: "this model's calls cannot hold such a name")
      }
      let value = try value(
        SchemaFields(property.schema, root: fields.root, path: property.path), depth: depth + 1)
      members.append((.sequence([.literal(notation.key(property.name)), value]), property.isRequired))
    }
    return .sequence([.literal("{"), self.members(members[...]), .literal("}")])
  }

  private static func isKeyByte(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "-"), UInt8(ascii: "."),
      UInt8(ascii: "$"):
      true
    default: false
    }
  }

  /// Members with commas between them, of which the optional ones may be left out.
  private func members(_ members: ArraySlice<(pattern: Pattern, isRequired: Bool)>) -> Pattern {
    // Each choice is of the member that comes first; after it every other one brings its own comma.
    var choices: [Pattern] = []
    for index in members.indices {
      let following = members[(index + 1)...].map { member -> Pattern in
        let withComma = Pattern.sequence([separator, member.pattern])
        return member.isRequired ? withComma : .choice([withComma, .literal("")])
      }
      choices.append(.sequence([members[index].pattern] + following))
      if members[index].isRequired { return .choice(choices) }
    }
    return .choice(choices + [.literal("")])
  }

  private var separator: Pattern { .literal(notation.separator) }

  /// The members of an object as arguments of a function are written: with the brackets and keys of the call.
  func arguments(_ schema: JSONValue, key: (String) -> String) throws(GrammarError) -> Pattern {
    let fields = try SchemaFields(schema, root: nil, path: "")
    try fields.allow(["type", "properties", "required", "additionalProperties"])
    var members: [(pattern: Pattern, isRequired: Bool)] = []
    for property in try fields.properties() {
      guard property.name.utf8.allSatisfy(Self.isKeyByte), !property.name.utf8.isEmpty else {
        throw .unsupported(
          keyword: "properties", path: property.path, reason: "this model's calls cannot hold such a name")
      }
      let value = try value(SchemaFields(property.schema, root: fields.root, path: property.path), depth: 1)
      members.append((.sequence([.literal(key(property.name)), value]), property.isRequired))
    }
    return self.members(members[...])
  }

  // MARK: Any object

  /// Any members, each with a key as `key` writes it.
  func anyMembers(_ key: Pattern, depth: Int) -> Pattern {
    let member = Pattern.sequence([key, anyValue(depth: depth)])
    let members = Pattern.sequence([
      member, .repeated(.sequence([separator, member]), min: 0, max: nil),
    ])
    return .choice([.literal(""), members])
  }

  func anyObject(depth: Int) -> Pattern {
    let name = Pattern.regex("[A-Za-z_][A-Za-z0-9_.-]{0,63}")
    let key =
      notation.hasBareKeys
      ? Pattern.sequence([name, .literal(notation.key(""))])
      : .sequence([.literal("\""), name, .literal("\": ")])
    return .sequence([.literal("{"), anyMembers(key, depth: depth), .literal("}")])
  }

  private func anyValue(depth: Int) -> Pattern {
    let scalars: [Pattern] =
      [notation.string(true), .schema(["type": "number"])] + notation.words.map(Pattern.literal)
    guard depth > 0 else { return .choice(scalars) }
    let inner = anyValue(depth: depth - 1)
    return .choice(scalars + [list(inner, min: 0, max: nil), anyObject(depth: depth - 1)])
  }
}
