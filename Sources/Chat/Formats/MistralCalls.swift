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
    guard let mark = Bytes.find("[ARGS]", in: text[...]) else { return bareCall(text) }
    let nameEnd = Bytes.find("[CALL_ID]", in: text[..<mark]) ?? mark
    return call(name: text[..<nameEnd], arguments: text[(mark + 6)...])
  }

  /// `name{...}`.
  private func bareCall(_ text: [UInt8]) -> [ToolCall]? {
    guard let brace = text.firstIndex(of: UInt8(ascii: "{")) else { return nil }
    return call(name: text[..<brace], arguments: text[brace...])
  }

  private func call(name: ArraySlice<UInt8>, arguments: ArraySlice<UInt8>) -> [ToolCall]? {
    let name = Bytes.text(Bytes.trimmed(Array(name)))
    let object = Bytes.trimmed(Array(arguments))
    guard !name.utf8.isEmpty, !name.utf8.contains(where: Bytes.isSpace), object.first == UInt8(ascii: "{"),
      ToolCallText.isObject(object)
    else { return nil }
    return [ToolCall(name: name, arguments: Bytes.text(object))]
  }
}
