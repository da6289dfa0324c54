// Arguments written as elements with raw text: the part of patterns that several syntaxes share.
//
// Such formats have no quotes, so what a text is follows from the schema, as `ToolSchemas.value` reads it.

import Grammar
import JSON

/// How a syntax writes one argument.
struct ParameterPatterns {
  /// White space that the reader takes away at both ends of a value.
  enum Trimming {
    case none
    /// One line break.
    case line
    case all
  }

  /// Before the value, by the name of the parameter; nil for a name that the model chooses.
  let open: (_ name: String?, _ isText: Bool) -> Pattern
  /// After the value.
  let close: Pattern
  /// Texts that no value may hold: the reader takes them for its end, or for that of the call.
  let excluded: [String]
  /// The ends of the texts around a value: neither with them does it hold what it may not.
  var around = (before: "", after: "")
  var trimming = Trimming.none
  /// Whether the opening says if a text follows.
  var marksText = false

  static let anyName = Pattern.regex("[A-Za-z_][A-Za-z0-9_.-]{0,63}")

  /// - Throws: when a schema cannot be expressed.
  func pattern(of arguments: CallableTool.Arguments) throws(GrammarError) -> Pattern {
    switch arguments {
    case .none: .literal("")
    case .anyObject: .repeated(.choice(elements(nil, true)), min: 0, max: nil)
    case .schema(let schema): try elements(schema)
    case .text(let name, let text): .sequence([open(name, true), .without(excluded, text), close])
    }
  }

  private func elements(_ schema: JSONValue) throws(GrammarError) -> Pattern {
    let fields = try SchemaFields(schema, root: nil, path: "")
    try fields.allow(["type", "properties", "required", "additionalProperties"])
    var elements: [Pattern] = []
    for property in try fields.properties() where property.isRequired || property.schema != false {
      let kinds = ValueKinds(property.schema, root: .object(fields.root))
      let element = Pattern.choice(self.elements(property.name, fields.alone(property), kinds))
      elements.append(property.isRequired ? element : .choice([element, .literal("")]))
    }
    return .sequence(elements)
  }

  /// The ways to write a parameter: as text, and as JSON.
  ///
  /// - Parameter name: nil for one that the model chooses.
  private func elements(_ name: String?, _ schema: JSONValue, _ kinds: ValueKinds = .all) -> [Pattern] {
    let others = kinds.subtracting(.string)
    // Where anything may stand, it makes no difference as what it is read.
    let isFree = schema == true || SchemaFields.isPlain(schema) && schema["type"] == nil
    var out: [Pattern] = []
    if kinds.contains(.string) {
      let isAny = isFree || SchemaFields.isPlain(schema) && others.isEmpty
      let unlike = unlike(readAs: marksText || isFree ? [] : others, isTrimmed: !isAny)
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
  /// - Parameters:
  ///   - others: kinds of values that a text is read as where it can be.
  ///   - isTrimmed: whether a text is another without the white space that the reader takes away.
  private func unlike(readAs others: ValueKinds, isTrimmed: Bool) -> String? {
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
    switch trimming {
    case .line where isTrimmed: parts += [#"\n"# + any, any + #"\n"#]
    case .all where isTrimmed: parts += [#"[\t-\r ]"# + any, any + #"[\t-\r ]"#]
    case .none, .line, .all: break
    }
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
