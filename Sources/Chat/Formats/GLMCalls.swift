// GLM-4.5 and later: `<tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value></tool_call>`, with line breaks between
// or without.

import Grammar
import JSON

struct GLMCalls: CallSyntax {
  let tools: ToolSchemas
  /// Whether the template writes line breaks between the parts of a call.
  let breaksLines: Bool
  let openings = [CallOpening("<tool_call>", close: "</tool_call>")]
  let quotes = CallQuotes.none

  func calls(in body: [UInt8]) -> [ToolCall]? {
    var reader = ElementReader(body)
    let name = Bytes.text(Bytes.trimmed(reader.text(before: "<arg_key>") ?? reader.rest()))
    guard !name.utf8.isEmpty, !name.utf8.contains(where: Bytes.isSpace) else { return nil }
    var arguments = JSONObject()
    while !reader.isAtEnd {
      guard reader.skip("<arg_key>"), let key = reader.text(before: "</arg_key>"), reader.skip("</arg_key>"),
        reader.skip("<arg_value>")
      else { return nil }
      // A forgotten end is taken at the next key, or at the end of the call.
      let value: [UInt8]
      if let text = reader.text(before: "</arg_value>") {
        value = text
        _ = reader.skip("</arg_value>")
      } else {
        value = reader.text(before: "<arg_key>") ?? reader.rest()
      }
      let parameter = Bytes.text(Bytes.trimmed(key))
      arguments[parameter] = tools.value(
        of: Bytes.text(Bytes.trimmed(value)), as: parameter, in: name)
    }
    return [ToolCall(name: name, arguments: JSONValue.object(arguments).text)]
  }

  func pattern(of tools: [CallableTool], _ writer: CallWriter) throws(GrammarError) -> Pattern {
    let line = Pattern.literal(breaksLines ? "\n" : "")
    let parameters = ParameterPatterns(
      open: { name, _ in
        .sequence([
          writer.marker("<arg_key>"), name.map(Pattern.literal) ?? ParameterPatterns.anyName,
          writer.marker("</arg_key>"), line, writer.marker("<arg_value>"),
        ])
      }, close: .sequence([writer.marker("</arg_value>"), line]),
      excluded: ["</arg_value>", "<arg_key>"] + openings.flatMap(\.words),
      around: ("", "</arg_value>"), trimming: .all)
    var calls: [Pattern] = []
    for tool in tools {
      calls.append(
        .sequence([.literal(tool.name), line, try parameters.pattern(of: tool.arguments)]))
    }
    return writer.list(
      .sequence([writer.marker("<tool_call>"), .choice(calls), writer.marker("</tool_call>")]),
      separator: line)
  }
}
