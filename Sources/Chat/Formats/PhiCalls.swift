// Phi-4-mini: a JSON array or object between `<|tool_call|>` and `<|/tool_call|>`; older habit `functools[...]`.

struct PhiCalls: CallSyntax {
  let openings = [
    CallOpening("<|tool_call|>", close: "<|/tool_call|>"),
    CallOpening("functools[", kept: 1, onlyAtBeginning: true),
  ]
  let quotes = CallQuotes.json
  let shape = CallShape.objects

  func calls(in body: [UInt8]) -> [ToolCall]? { ToolCallText.calls(in: body) }
}
