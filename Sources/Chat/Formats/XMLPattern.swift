// Calls of Qwen3-Coder and Qwen3.5 as a pattern: parameters as elements, values as raw text.
//
// The format has no quotes, so a value's type follows from the schema alone: text where it allows strings, else JSON.

import Grammar
import JSON

extension XMLCalls {
  func pattern(of tools: [CallableTool], _ writer: CallWriter) throws(GrammarError) -> Pattern {
    var calls: [Pattern] = []
    for tool in tools {
      let parameters: Pattern =
        switch tool.arguments {
        case .none: .literal("")
        case .anyObject: anyParameters
        case .schema(let schema): try self.parameters(schema)
        }
      calls.append(
        .sequence([.literal("\n<function=\(tool.name)>\n"), parameters, .literal("</function>\n")]))
    }
    return writer.list(
      .sequence([writer.marker("<tool_call>"), .choice(calls), writer.marker("</tool_call>")]),
      separator: .literal("\n"))
  }

  private static let valueEnd = "\n</parameter>"

  private var anyParameters: Pattern {
    .repeated(
      .sequence([
        .literal("<parameter="), .regex("[A-Za-z_][A-Za-z0-9_.-]{0,63}"), .literal(">\n"), freeText,
        .literal("\(Self.valueEnd)\n"),
      ]), min: 0, max: nil)
  }

  /// Text that the reader takes as one value.
  private var freeText: Pattern {
    .text(excluding: ["</parameter>", "\n<parameter=", "\n</function>"])
  }

  private func parameters(_ schema: JSONValue) throws(GrammarError) -> Pattern {
    let fields = try SchemaFields(schema, root: nil, path: "")
    try fields.allow(["type", "properties", "required", "additionalProperties"])
    var elements: [Pattern] = []
    for property in try fields.properties() {
      let value = try value(SchemaFields(property.schema, root: fields.root, path: property.path))
      let element = Pattern.sequence([
        .literal("<parameter=\(property.name)>\n"), value, .literal("\(Self.valueEnd)\n"),
      ])
      elements.append(property.isRequired ? element : .choice([element, .literal("")]))
    }
    return .sequence(elements)
  }

  private func value(_ fields: SchemaFields) throws(GrammarError) -> Pattern {
    guard fields.type == "string" else {
      guard fields.type != nil else {
        throw .unsupported(
          keyword: "type", path: fields.path, reason: "this model's calls need one type for each parameter")
      }
      return .schema(fields.standalone())
    }
    try fields.allow(["type", "enum", "const"])
    guard let constants = fields.constants else { return freeText }
    return .choice(constants.compactMap(\.stringValue).map(Pattern.literal))
  }
}
