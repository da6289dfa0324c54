// Command-R7B: `<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "f", "parameters": {...}}]<|END_ACTION|>`.

import Grammar
import JSON

struct CommandCalls: CallSyntax {
  let openings = [CallOpening("<|START_ACTION|>", close: "<|END_ACTION|>")]
  let quotes = CallQuotes.json
  let shape = CallShape.objects

  func calls(in body: [UInt8]) -> [ToolCall]? { ToolCallText.calls(in: body) }

  func pattern(of tools: [CallableTool], _ writer: CallWriter) -> Pattern {
    let call = Pattern.choice(
      tools.map { tool in
        .sequence([
          .literal("{\"tool_call_id\": \""), .regex("[0-9]{1,3}"),
          .literal("\", \"tool_name\": \(JSONValue.string(tool.name).text), \"parameters\": "),
          writer.json(tool.arguments), .literal("}"),
        ])
      })
    return .sequence([
      writer.marker("<|START_ACTION|>"), .literal("["), writer.list(call, separator: .literal(", ")),
      .literal("]"), writer.marker("<|END_ACTION|>"),
    ])
  }
}
