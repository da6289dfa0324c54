// Qwen3-Coder and Qwen3.5: `<tool_call><function=name><parameter=key>value</parameter></function></tool_call>`.

import JSON

struct XMLCalls: CallSyntax {
  let tools: ToolSchemas
  let openings = [CallOpening("<tool_call>", close: "</tool_call>")]
  let quotes = CallQuotes.none

  func calls(in body: [UInt8]) -> [ToolCall]? {
    var calls: [ToolCall] = []
    var rest = body[...].drop { Bytes.isSpace($0) }
    while !rest.isEmpty {
      guard let call = call(&rest) else { return nil }
      calls.append(call)
      rest = rest.drop { Bytes.isSpace($0) }
    }
    return calls
  }

  /// One `<function=...>` element, taken off the front.
  private func call(_ rest: inout ArraySlice<UInt8>) -> ToolCall? {
    guard let name = tagValue("<function=", &rest) else { return nil }
    var arguments = JSONObject()
    while true {
      rest = rest.drop { Bytes.isSpace($0) }
      if rest.starts(with: "</function>".utf8) {
        rest = rest.dropFirst("</function>".utf8.count)
        return ToolCall(name: name, arguments: JSONValue.object(arguments).text)
      }
      guard let key = tagValue("<parameter=", &rest), let value = parameterText(&rest) else { return nil }
      arguments[key] = convert(value, schema: tools.schema(of: key, in: name))
    }
  }

  /// The word in `<tag=word>`.
  private func tagValue(_ tag: String, _ rest: inout ArraySlice<UInt8>) -> String? {
    guard rest.starts(with: tag.utf8), let end = rest.firstIndex(of: UInt8(ascii: ">")) else { return nil }
    let value = Bytes.trimmed(Array(rest[(rest.startIndex + tag.utf8.count)..<end]))
    rest = rest[(end + 1)...]
    return value.isEmpty ? nil : Bytes.text(value)
  }

  /// The raw text up to `</parameter>`, without the one newline on each side that the format adds. A
  /// forgotten end is taken at the next tag on a line of its own.
  private func parameterText(_ rest: inout ArraySlice<UInt8>) -> String? {
    var end: Int?
    var next = rest.endIndex
    if let close = Bytes.find("</parameter>", in: rest) {
      end = close
      next = close + "</parameter>".utf8.count
    }
    for tag in ["\n<parameter=", "\n</function>"] {
      if let other = Bytes.find(tag, in: rest[..<(end ?? rest.endIndex)]) {
        end = other
        next = other
      }
    }
    guard let end else { return nil }
    var value = rest[..<end]
    if value.first == 0x0A { value = value.dropFirst() }
    if value.last == 0x0A { value = value.dropLast() }
    rest = rest[next...]
    return Bytes.text(value)
  }

  /// The value by the type its schema names; text that does not fit stays text.
  private func convert(_ text: String, schema: JSONValue?) -> JSONValue {
    var types: [String] = []
    switch schema?["type"] {
    case .string(let type): types = [type]
    case .array(let list): types = list.compactMap(\.stringValue)
    default: break
    }
    if types.contains("string"), !(types.contains("null") && text == "null") { return .string(text) }
    guard let value = try? JSONValue(parsing: text) else {
      return types.contains("boolean") ? pythonWord(text) ?? .string(text) : .string(text)
    }
    // A quoted string keeps its quotes: the format has none of its own.
    if case .string = value { return .string(text) }
    return value
  }

  private func pythonWord(_ text: String) -> JSONValue? {
    switch text {
    case "True": true
    case "False": false
    default: nil
    }
  }
}
