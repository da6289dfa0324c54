// Gemma 4's calls as a pattern: an object notation with bare keys and `<|"|>` around strings.
//
// Keys come in the order in which Gemma's template prints them, sorted without regard to case.

import Grammar
import JSON

extension GemmaCalls {
  func pattern(of tools: [CallableTool], _ writer: CallWriter) throws(GrammarError) -> Pattern {
    let quote = writer.marker("<|\"|>")
    let values = LiteralValues(
      LiteralValues.Notation(
        string: { .sequence([quote, .string($0, unlike: #"[\s\S]*<\|"\|>[\s\S]*"#), quote]) },
        text: { .sequence([quote, .without(["<|\"|>"], .literal($0)), quote]) }, key: { $0 + ":" },
        separator: ",",
        words: ["true", "false", "null"], hasBareKeys: true, sortsKeys: true))
    var calls: [Pattern] = []
    for tool in tools {
      let arguments: Pattern =
        switch tool.arguments {
        case .none: .literal("{}")
        case .anyObject: values.anyObject(depth: 2)
        case .text(let name, let text):
          .sequence([.literal("{\(name):"), quote, .without(["<|\"|>"], text), quote, .literal("}")])
        case .schema(let schema): try values.value(SchemaFields(schema, root: nil, path: ""), depth: 0)
        }
      calls.append(.sequence([.literal("call:\(tool.name)"), arguments]))
    }
    return writer.list(
      .sequence([writer.marker("<|tool_call>"), .choice(calls), writer.marker("<tool_call|>")]),
      separator: .literal(""))
  }
}
