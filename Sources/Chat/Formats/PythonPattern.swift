// LFM2's calls as a pattern: a Python list of calls whose arguments are literals, in the order of the schema.

import Grammar
import JSON

extension PythonCalls {
  func pattern(of tools: [CallableTool], _ writer: CallWriter) throws(GrammarError) -> Pattern {
    .sequence([
      writer.marker("<|tool_call_start|>"), .literal("["),
      writer.list(
        .choice(try Self.patterns(of: tools, without: openings.flatMap(\.words))), separator: .literal(", ")),
      .literal("]"),
      writer.marker("<|tool_call_end|>"),
    ])
  }

  /// A call of each tool.
  ///
  /// - Parameter ends: what its strings may not hold, for the reader takes it for the end of the calls.
  static func patterns(of tools: [CallableTool], without ends: [String]) throws(GrammarError) -> [Pattern] {
    // JSON's strings are strings of Python too.
    let values = LiteralValues(
      LiteralValues.Notation(
        string: { .without(ends, .schema($0 == true ? ["type": "string"] : $0)) },
        text: { .without(ends, .literal(JSONValue.string($0).text)) },
        key: { JSONValue.string($0).text + ": " }, separator: ", ", words: ["True", "False", "None"],
        hasBareKeys: false, sortsKeys: false))
    var calls: [Pattern] = []
    for tool in tools {
      let arguments: Pattern =
        switch tool.arguments {
        case .none: .literal("")
        case .anyObject:
          values.anyMembers(
            .sequence([.regex("[A-Za-z_][A-Za-z0-9_]{0,63}"), .literal("=")]), depth: 2)
        case .text(let name, let text): .sequence([.literal(name + "="), .without(ends, .quoted(text))])
        case .schema(let schema): try values.arguments(schema) { $0 + "=" }
        }
      calls.append(.sequence([.literal("\(tool.name)("), arguments, .literal(")")]))
    }
    return calls
  }
}
