// Qwen 2.5 and 3, Hermes, SmolLM3: JSON between `<tool_call>` and `</tool_call>`.

struct QwenCalls: CallSyntax {
  let openings = [CallOpening("<tool_call>", close: "</tool_call>")]
  let quotes = CallQuotes.json
  let shape = CallShape.objects

  func calls(in body: [UInt8]) -> [ToolCall]? { ToolCallText.calls(in: body) }
}
