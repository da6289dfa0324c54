// Mistral: `[TOOL_CALLS]` and a JSON array, or (2025) `name[CALL_ID]id[ARGS]{...}` for each call.

struct MistralCalls: CallSyntax {
  /// How calls are written after the marker. All forms are read, whatever the template says.
  enum Form: Sendable, Equatable {
    /// `[{"name": "f", "arguments": {...}}]`
    case array
    /// `f[ARGS]{...}`
    case named
    /// `f[CALL_ID]123456789[ARGS]{...}`
    case identified
  }

  let form: Form
  let openings = [CallOpening("[TOOL_CALLS]")]
  let quotes = CallQuotes.json

  var shape: CallShape { form == .array ? .objects : .namedArguments }

  func calls(in body: [UInt8]) -> [ToolCall]? {
    let text = Bytes.trimmed(body)
    if text.first == UInt8(ascii: "[") || text.first == UInt8(ascii: "{") {
      return ToolCallText.calls(in: text)
    }
    guard case .found(let name, let brace) = CallHead.named(text[...]) else { return nil }
    let object = Array(text[brace...])
    return ToolCallText.isObject(object) ? [ToolCall(name: name, arguments: Bytes.text(object))] : nil
  }
}
