// Arguments written as elements with raw text: the part of patterns that several syntaxes share.
//
// Such formats have no quotes, so what a text is follows from the schema, as `ToolSchemas.value` reads it.

import Grammar
import JSON

/// How a syntax writes one argument.
struct ParameterPatterns {
  /// Before the value, by the name of the parameter.
  let open: (_ name: Pattern, _ isText: Bool) -> Pattern
  /// After the value.
  let close: Pattern
  /// Texts that no value may hold: the reader takes them for its end, or for that of the call.
  let excluded: [String]
  /// The ends of the texts around a value: neither with them does it hold what it may not.
  var around = (before: "", after: "")
  /// Whether the opening says if a text follows.
  var marksText = false

  private static let anyName = Pattern.regex("[A-Za-z_][A-Za-z0-9_.-]{0,63}")

  /// - Throws: when a schema cannot be expressed.
  func pattern(of arguments: CallableTool.Arguments) throws(GrammarError) -> Pattern {
    switch arguments {
    case .none: .literal("")
    case .anyObject: .repeated(.choice(elements(Self.anyName, true)), min: 0, max: nil)
    case .schema(let schema): try elements(schema)
    case .text(let name, let text):
      .sequence([open(.literal(name), true), .without(excluded, text), close])
    }
  }

  private func elements(_ schema: JSONValue) throws(GrammarError) -> Pattern {
    let fields = try SchemaFields(schema, root: nil, path: "")
    try fields.allow(["type", "properties", "required", "additionalProperties", "patternProperties"])
    let properties = try fields.properties(allowingOthers: true)
    let kinds = try MemberKinds(fields)
    var elements: [Pattern] = []
    for property in properties where property.isRequired || property.schema != false {
      let ways = kinds.named(property).flatMap { self.elements($0.name, $0.schema, fields) }
      elements.append(property.isRequired ? .choice(ways) : .choice(ways + [.literal("")]))
    }
    let others = kinds.others(than: properties).flatMap { self.elements($0.name, $0.schema, fields) }
    return .sequence(elements + (others.isEmpty ? [] : [.repeated(.choice(others), min: 0, max: nil)]))
  }

  private func elements(_ name: Pattern, _ schema: JSONValue, _ fields: SchemaFields) -> [Pattern] {
    schema == false
      ? [] : elements(name, fields.alone(schema), ValueKinds(schema, root: .object(fields.root)))
  }

  /// The ways to write a parameter: as text, and as JSON.
  private func elements(_ name: Pattern, _ schema: JSONValue, _ kinds: ValueKinds = .all) -> [Pattern] {
    let others = kinds.subtracting(.string)
    // Where anything may stand, it makes no difference as what it is read.
    let isFree = schema == true || SchemaFields.isPlain(schema) && schema["type"] == nil
    var out: [Pattern] = []
    if kinds.contains(.string) {
      let isAny = isFree || SchemaFields.isPlain(schema) && others.isEmpty
      let unlike = unlike(readAs: marksText || isFree ? [] : others)
      out.append(.sequence([open(name, true), .string(isAny ? true : schema, unlike: unlike), close]))
    }
    if !others.isEmpty, marksText || !isFree {
      let values: JSONValue =
        kinds.contains(.string) ? Self.schema(schema, of: others.types) : schema
      out.append(.sequence([open(name, false), .without(excluded, .schema(values)), close]))
    }
    return out
  }

  /// The same for some types alone. References still find their targets.
  private static func schema(_ schema: JSONValue, of types: [JSONValue]) -> JSONValue {
    var both = JSONObject([("allOf", .array([schema, ["type": .array(types)]]))])
    for group in ["$schema", "$defs", "definitions"] {
      if let definitions = schema[group] { both[group] = definitions }
    }
    return .object(both)
  }

  /// An expression of the texts that would not be read as the string that they are.
  ///
  /// - Parameter others: kinds of values that a text is read as where it can be.
  private func unlike(readAs others: ValueKinds) -> String? {
    let any = #"[\s\S]*"#
    func choice(_ texts: [some Collection<UInt8>]) -> String {
      "(?:" + texts.map { Self.escaped(Bytes.text($0)) }.joined(separator: "|") + ")"
    }
    let words = excluded.map { Array($0.utf8) }.filter { !$0.isEmpty }
    var parts = words.isEmpty ? [] : [any + choice(words) + any]
    let beginnings = words.flatMap { word in
      (1..<max(1, word.count)).filter { Array(around.before.utf8).suffix($0).elementsEqual(word.prefix($0)) }
        .map { word.dropFirst($0) }
    }
    if !beginnings.isEmpty { parts.append(choice(beginnings) + any) }
    let endings = words.flatMap { word in
      (1..<max(1, word.count)).map { word.prefix($0) }
        .filter { ($0 + Array(around.after.utf8)).starts(with: word) }
    }
    if !endings.isEmpty { parts.append(any + choice(endings)) }
    let space = #"[ \t\n\r]*"#
    let read: [(ValueKinds, String)] = [
      (.null, "null"), (.boolean, "(?:true|false)"), (.integer, "-?(?:0|[1-9][0-9]*)"),
      (.fraction, #"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"#), (.array, #"\["# + any + #"\]"#),
      (.object, #"\{"# + any + #"\}"#),
    ]
    parts += read.filter { others.contains($0.0) }.map { space + $0.1 + space }
    return parts.isEmpty ? nil : parts.joined(separator: "|")
  }

  private static func escaped(_ text: String) -> String {
    text.unicodeScalars.map { scalar in
      let isPlain = scalar.properties.isAlphabetic || !scalar.isASCII
      return isPlain
        ? String(scalar) : "\\x" + (scalar.value < 16 ? "0" : "") + String(scalar.value, radix: 16)
    }.joined()
  }
}

/// The kinds of members that an object may have: by the expressions of `patternProperties` that a name matches.
private struct MemberKinds {
  private struct Kind {
    var matched: [JSONValue] = []
    var missed: [JSONValue] = []
    /// What a value has to be.
    var schemas: [JSONValue] = []

    /// The names of the kind that one more schema allows, and others do not.
    func name(_ schema: JSONValue, not others: [JSONValue] = []) -> Pattern {
      let wrong: JSONValue = ["anyOf": .array(missed + others + [false])]
      return .string(["type": "string", "allOf": .array(matched + [schema]), "not": wrong], unlike: nil)
    }
  }

  /// The first is of names that match no expression.
  private var kinds = [Kind()]
  /// What is allowed under such a name, beside what is declared; nil for nothing.
  private let rest: JSONValue?

  private static let maxPatterns = 4

  init(_ fields: SchemaFields) throws(GrammarError) {
    let patterns = fields.schema["patternProperties"]?.objectValue ?? JSONObject()
    guard patterns.count <= Self.maxPatterns else {
      throw .unsupported(
        keyword: "patternProperties", path: fields.path,
        reason: "this model's calls take up to \(Self.maxPatterns) expressions")
    }
    for (pattern, schema) in patterns.entries {
      let expression: JSONValue = ["pattern": .string(pattern)]
      let matching = kinds.map {
        Kind(matched: $0.matched + [expression], missed: $0.missed, schemas: $0.schemas + [schema])
      }
      for index in kinds.indices { kinds[index].missed.append(expression) }
      kinds += matching
    }
    let isOpen = fields.schema["properties"] == nil && patterns.isEmpty
    rest = fields.schema["additionalProperties"] ?? (isOpen ? .some(true) : .none)
  }

  /// A member of a known name: as it is of each kind.
  func named(_ property: SchemaFields.Property) -> [(name: Pattern, schema: JSONValue)] {
    kinds.map { kind in
      let own = property.isDeclared ? [property.schema] : kind.schemas.isEmpty ? [rest ?? true] : []
      let name = kinds.count == 1 ? .literal(property.name) : kind.name(["const": .string(property.name)])
      return (name, Self.all(own + kind.schemas))
    }
  }

  /// Members that the model names.
  func others(than properties: [SchemaFields.Property]) -> [(name: Pattern, schema: JSONValue)] {
    kinds.compactMap { kind in
      guard let schema = kind.schemas.isEmpty ? rest : Self.all(kind.schemas) else { return nil }
      // Without what ends a name in some syntax.
      let name = kind.name(
        ["pattern": #"^[^\s<>"']{1,64}$"#], not: properties.map { ["const": .string($0.name)] })
      return (name, schema)
    }
  }

  private static func all(_ schemas: [JSONValue]) -> JSONValue {
    schemas.count == 1 ? schemas[0] : ["allOf": .array(schemas)]
  }
}
