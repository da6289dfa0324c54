// MiniMax-M2 and DeepSeek V3.2 and V4: `<invoke name="f"><parameter name="key">value</parameter></invoke>` between tags of
// their own.

import Grammar
import JSON

struct InvokeCalls: CallSyntax {
  /// The words around the elements, which differ by a prefix.
  struct Dialect: Sendable, Equatable {
    /// The tag around all calls.
    let section: String
    /// Before `invoke` and `parameter`.
    let prefix: String
    /// Whether an attribute says if a value is text.
    let marksText: Bool

    static let miniMax = Dialect(section: "minimax:tool_call", prefix: "", marksText: false)
    static let deepSeek = Dialect(section: "｜DSML｜function_calls", prefix: "｜DSML｜", marksText: true)
    /// Of version 4.
    static let deepSeek4 = Dialect(section: "｜DSML｜tool_calls", prefix: "｜DSML｜", marksText: true)
  }

  let tools: ToolSchemas
  let dialect: Dialect
  let quotes = CallQuotes.none

  var openings: [CallOpening] { [CallOpening("<\(dialect.section)>", close: "</\(dialect.section)>")] }

  func calls(in body: [UInt8]) -> [ToolCall]? { calls(in: body, isCut: false) }

  func cutCalls(in body: [UInt8]) -> [ToolCall]? { calls(in: body, isCut: true) }

  private func calls(in body: [UInt8], isCut: Bool) -> [ToolCall]? {
    var reader = ElementReader(body)
    var calls: [ToolCall] = []
    let prefix = dialect.prefix
    let (open, end) = ("<\(prefix)parameter name=", "</\(prefix)parameter>")
    while !reader.isAtEnd {
      guard reader.skip("<\(prefix)invoke name="), let name = reader.text(before: ">").flatMap(Self.unquoted),
        reader.skip(">")
      else { return isCut && !calls.isEmpty ? calls : nil }
      var arguments = JSONObject()
      while !reader.skip("</\(prefix)invoke>") {
        let isTag = reader.isCut(in: open) || reader.isCut(in: "</\(prefix)invoke>")
        guard reader.skip(open) else {
          return isCut && isTag ? calls + [ToolCall(cut: name, arguments)] : nil
        }
        guard let head = reader.text(before: ">"), reader.skip(">") else {
          return isCut ? calls + [ToolCall(cut: name, arguments)] : nil
        }
        guard let key = Self.unquoted(head) else { return nil }
        let attributes = Bytes.text(head)
        guard let value = reader.text(before: end), reader.skip(end) else {
          guard isCut else { return nil }
          let rest = reader.rest(before: end)
          let isText = Bytes.contains(attributes, "string=\"true\"")
          let text =
            isText ? JSONValue.string(rest).openText : tools.beginning(of: rest, as: key, in: name)
          return calls + [ToolCall(cut: name, arguments, (key, text))]
        }
        arguments[key] = argument(Bytes.text(value), key, name, attributes)
      }
      calls.append(ToolCall(name: name, arguments: JSONValue.object(arguments).text))
    }
    return calls
  }

  private func argument(_ text: String, _ key: String, _ tool: String, _ attributes: String) -> JSONValue {
    if dialect.marksText {
      if Bytes.contains(attributes, "string=\"true\"") { return .string(text) }
      if Bytes.contains(attributes, "string=\"false\""), let value = try? JSONValue(parsing: text) {
        return value
      }
    }
    return tools.value(of: text, as: key, in: tool)
  }

  /// What stands between the first quotes, or all of it where there are none.
  private static func unquoted(_ bytes: [UInt8]) -> String? {
    let text = Bytes.trimmed(bytes)
    guard text.first == UInt8(ascii: "\"") else { return text.isEmpty ? nil : Bytes.text(text) }
    guard let end = text.dropFirst().firstIndex(of: UInt8(ascii: "\"")), end > 1 else { return nil }
    return Bytes.text(text[1..<end])
  }

  func pattern(of tools: [CallableTool], _ writer: CallWriter) throws(GrammarError) -> Pattern {
    let prefix = dialect.prefix
    let parameters = ParameterPatterns(
      open: { name, isText in
        .sequence([
          .literal("<\(prefix)parameter name=\""), name,
          .literal(dialect.marksText ? "\" string=\"\(isText)\">" : "\">"),
        ])
      }, close: .literal("</\(prefix)parameter>\n"),
      excluded: ["</\(prefix)parameter>"] + openings.flatMap(\.words),
      around: ("", "</\(prefix)parameter>"), marksText: dialect.marksText)
    var calls: [Pattern] = []
    for tool in tools {
      calls.append(
        .sequence([
          .literal("<\(prefix)invoke name=\"\(tool.name)\">\n"), try parameters.pattern(of: tool.arguments),
          .literal("</\(prefix)invoke>\n"),
        ]))
    }
    return .sequence([
      writer.marker("<\(dialect.section)>"), .literal("\n"),
      writer.list(.choice(calls), separator: .literal("")), writer.marker("</\(dialect.section)>"),
    ])
  }
}
