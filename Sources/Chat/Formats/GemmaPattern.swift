// Gemma 4's calls as a pattern: an object notation with bare keys and `<|"|>` around strings.
//
// Keys come in the order in which Gemma's template prints them, sorted without regard to case.

import Grammar
import JSON

extension GemmaCalls {
  func pattern(of tools: [CallableTool], _ writer: CallWriter) throws(GrammarError) -> Pattern {
    let values = GemmaValues(quote: writer.marker("<|\"|>"))
    var calls: [Pattern] = []
    for tool in tools {
      let arguments: Pattern =
        switch tool.arguments {
        case .none: .literal("{}")
        case .anyObject: values.anyObject(depth: 2)
        case .schema(let schema): try values.value(SchemaFields(schema, root: nil, path: ""), depth: 0)
        }
      calls.append(.sequence([.literal("call:\(tool.name)"), arguments]))
    }
    return writer.list(
      .sequence([writer.marker("<|tool_call>"), .choice(calls), writer.marker("<tool_call|>")]),
      separator: .literal(""))
  }
}

/// Used by one thread.
private final class GemmaValues {
  /// Stands on both sides of a string.
  private let quote: Pattern
  /// Values described so far: references that fan out would describe them without end.
  private var count = 0

  private static let maxCount = 5_000

  init(quote: Pattern) { self.quote = quote }

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
    case "string":
      try fields.allow(["type"])
      return string
    case "number", "integer", "boolean", "null": return .schema(fields.standalone())
    case "array": return try array(fields, depth: depth)
    case "object":
      try fields.allow(["type", "properties", "required", "additionalProperties"])
      return try object(fields, depth: depth)
    default:
      throw .unsupported(
        keyword: "type", path: fields.path, reason: "this model's calls need one type for each value")
    }
  }

  private var string: Pattern { .sequence([quote, .text(excluding: ["<|\"|>"]), quote]) }

  private func constant(_ value: JSONValue) -> Pattern {
    switch value {
    case .string(let text): .sequence([quote, .literal(text), quote])
    case .array(let values): bracketed("[", values.map(constant), "]")
    case .object(let object):
      bracketed("{", object.entries.map { .sequence([.literal("\($0.key):"), constant($0.value)]) }, "}")
    default: .literal(value.text)
    }
  }

  private func bracketed(_ open: String, _ items: [Pattern], _ close: String) -> Pattern {
    let separated = items.enumerated().flatMap {
      $0.offset == 0 ? [$0.element] : [.literal(","), $0.element]
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
      .sequence([.literal(","), item]), min: Swift.max(0, min - 1), max: max.map { Swift.max(0, $0 - 1) })
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
    let sorted = try fields.properties().sorted { $0.name.lowercased() < $1.name.lowercased() }
    for property in sorted {
      guard property.name.utf8.allSatisfy(Self.isKeyByte), !property.name.utf8.isEmpty else {
        throw .unsupported(
          keyword: "properties", path: property.path, reason: "this model's calls cannot hold such a name")
      }
      let value = try value(
        SchemaFields(property.schema, root: fields.root, path: property.path), depth: depth + 1)
      members.append((.sequence([.literal("\(property.name):"), value]), property.isRequired))
    }
    return .sequence([.literal("{"), Self.members(members[...]), .literal("}")])
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
  private static func members(_ members: ArraySlice<(pattern: Pattern, isRequired: Bool)>) -> Pattern {
    // Each choice is of the member that comes first; after it every other one brings its own comma.
    var choices: [Pattern] = []
    for index in members.indices {
      let following = members[(index + 1)...].map { member -> Pattern in
        let withComma = Pattern.sequence([.literal(","), member.pattern])
        return member.isRequired ? withComma : .choice([withComma, .literal("")])
      }
      choices.append(.sequence([members[index].pattern] + following))
      if members[index].isRequired { return .choice(choices) }
    }
    return .choice(choices + [.literal("")])
  }

  // MARK: Any object

  func anyObject(depth: Int) -> Pattern {
    let member = Pattern.sequence([
      .regex("[A-Za-z_][A-Za-z0-9_.-]{0,63}"), .literal(":"), anyValue(depth: depth),
    ])
    let members = Pattern.sequence([
      member, .repeated(.sequence([.literal(","), member]), min: 0, max: nil),
    ])
    return .sequence([.literal("{"), .choice([.literal(""), members]), .literal("}")])
  }

  private func anyValue(depth: Int) -> Pattern {
    let scalars: [Pattern] = [string, .schema(["type": ["number", "boolean", "null"]])]
    guard depth > 0 else { return .choice(scalars) }
    let inner = anyValue(depth: depth - 1)
    return .choice(scalars + [list(inner, min: 0, max: nil), anyObject(depth: depth - 1)])
  }
}
