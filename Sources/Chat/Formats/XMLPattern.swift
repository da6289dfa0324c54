// Calls of Qwen3-Coder, Qwen3.5 and Seed-OSS as a pattern: parameters as elements, values as raw text.

import Grammar
import JSON

extension XMLCalls {
  func pattern(of tools: [CallableTool], _ writer: CallWriter) throws(GrammarError) -> Pattern {
    // Seed's values do not stand on lines of their own.
    let line = isSeed ? "" : "\n"
    let parameters = ParameterPatterns(
      open: { name, _ in
        .sequence([.literal("<parameter="), name, .literal(">\(line)")])
      }, close: .literal("\(line)</parameter>\n"),
      excluded: ["</parameter>", "\n<parameter=", "\n</function>"] + openings.flatMap(\.words),
      around: (line, "\(line)</parameter>\n"))
    var calls: [Pattern] = []
    for tool in tools {
      calls.append(
        .sequence([
          .literal("\n<function=\(tool.name)>\n"), try parameters.pattern(of: tool.arguments),
          .literal("</function>\n"),
        ]))
    }
    let (open, close) = isSeed ? ("<seed:tool_call>", "</seed:tool_call>") : ("<tool_call>", "</tool_call>")
    return writer.list(
      .sequence([writer.marker(open), .choice(calls), writer.marker(close)]), separator: .literal("\n"))
  }
}
