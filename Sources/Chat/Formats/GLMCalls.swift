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

  func calls(in body: [UInt8]) -> [ToolCall]? { call(in: body, isCut: false).map { [$0] } }

  func cutCalls(in body: [UInt8]) -> [ToolCall]? { call(in: body, isCut: true).map { [$0] } }

  private func call(in body: [UInt8], isCut: Bool) -> ToolCall? {
    var reader = ElementReader(body)
    let head = reader.text(before: "<arg_key>")
    // More of a name may have followed.
    if isCut, head == nil { return nil }
    let name = Bytes.text(Bytes.trimmed(head ?? reader.rest()))
    guard !name.utf8.isEmpty, !name.utf8.contains(where: Bytes.isSpace) else { return nil }
    var arguments = JSONObject()
    while !reader.isAtEnd {
      guard reader.skip("<arg_key>") else {
        return isCut && reader.isCut(in: "<arg_key>") ? ToolCall(cut: name, arguments) : nil
      }
      guard let key = reader.text(before: "</arg_key>"), reader.skip("</arg_key>") else {
        return isCut ? ToolCall(cut: name, arguments) : nil
      }
      guard reader.skip("<arg_value>") else {
        return isCut && reader.isCut(in: "<arg_value>") ? ToolCall(cut: name, arguments) : nil
      }
      let parameter = Bytes.text(Bytes.trimmed(key))
      // A forgotten end is taken at the next key, or at the end of the call.
      let value: [UInt8]
      if let text = reader.text(before: "</arg_value>") {
        value = text
        _ = reader.skip("</arg_value>")
      } else if isCut {
        let text = tools.beginning(of: reader.rest(before: "</arg_value>"), as: parameter, in: name)
        return ToolCall(cut: name, arguments, (parameter, text))
      } else {
        value = Bytes.trimmed(reader.text(before: "<arg_key>") ?? reader.rest())
      }
      arguments[parameter] = tools.value(of: Bytes.text(value), as: parameter, in: name)
    }
    return isCut
      ? ToolCall(cut: name, arguments) : ToolCall(name: name, arguments: JSONValue.object(arguments).text)
  }

  func pattern(of tools: [CallableTool], _ writer: CallWriter) throws(GrammarError) -> Pattern {
    let line = Pattern.literal(breaksLines ? "\n" : "")
    let parameters = ParameterPatterns(
      open: { name, _ in
        .sequence([
          writer.marker("<arg_key>"), name, writer.marker("</arg_key>"), line, writer.marker("<arg_value>"),
        ])
      }, close: .sequence([writer.marker("</arg_value>"), line]),
      excluded: ["</arg_value>", "<arg_key>"] + openings.flatMap(\.words),
      around: ("", "</arg_value>"))
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
