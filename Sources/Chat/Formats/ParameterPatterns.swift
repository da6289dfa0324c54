// Arguments written as elements with raw text: the part of patterns that several syntaxes share.
//
// Such formats have no quotes, so a value's type follows from the schema alone: text where it allows strings, else JSON.

import Grammar
import JSON

/// How a syntax writes one argument.
struct ParameterPatterns {
  /// Before the value, by the name of the parameter; nil for a name that the model chooses.
  let open: (_ name: String?, _ isText: Bool) -> Pattern
  /// After the value.
  let close: Pattern
  /// Texts that no value may hold: the reader takes them for its end.
  let excluded: [String]
  /// Whether the opening says if a text follows: values without a schema then may be either.
  var marksText = false

  static let anyName = Pattern.regex("[A-Za-z_][A-Za-z0-9_.-]{0,63}")

  /// - Throws: when a schema cannot be expressed.
  func pattern(of arguments: CallableTool.Arguments) throws(GrammarError) -> Pattern {
    switch arguments {
    case .none: .literal("")
    case .anyObject:
      .repeated(.choice(free), min: 0, max: nil)
    case .schema(let schema): try elements(schema)
    case .text(let name, let text): .sequence([open(name, true), text, close])
    }
  }

  /// A parameter without a schema.
  private var free: [Pattern] {
    let text = Pattern.sequence([open(nil, true), .text(excluding: excluded), close])
    return marksText ? [text, .sequence([open(nil, false), .schema(true), close])] : [text]
  }

  private func elements(_ schema: JSONValue) throws(GrammarError) -> Pattern {
    let fields = try SchemaFields(schema, root: nil, path: "")
    try fields.allow(["type", "properties", "required", "additionalProperties"])
    var elements: [Pattern] = []
    for property in try fields.properties() {
      let (value, isText) = try value(
        SchemaFields(property.schema, root: fields.root, path: property.path))
      let element = Pattern.sequence([open(property.name, isText), value, close])
      elements.append(property.isRequired ? element : .choice([element, .literal("")]))
    }
    return .sequence(elements)
  }

  private func value(_ fields: SchemaFields) throws(GrammarError) -> (Pattern, isText: Bool) {
    guard fields.type == "string" else {
      guard fields.type != nil else {
        throw .unsupported(
          keyword: "type", path: fields.path, reason: "this model's calls need one type for each parameter")
      }
      return (.schema(fields.standalone()), false)
    }
    try fields.allow(["type", "enum", "const"])
    guard let constants = fields.constants else { return (.text(excluding: excluded), true) }
    return (.choice(constants.compactMap(\.stringValue).map(Pattern.literal)), true)
  }
}
