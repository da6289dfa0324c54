// Qwen3-Coder, Qwen3.5: `<tool_call><function=name><parameter=key>value</parameter></function></tool_call>`; Seed-OSS with
// another outer tag.

import JSON

struct XMLCalls: CallSyntax {
  let tools: ToolSchemas
  var isSeed = false

  var openings: [CallOpening] {
    isSeed
      ? [CallOpening("<seed:tool_call>", close: "</seed:tool_call>")]
      : [CallOpening("<tool_call>", close: "</tool_call>")]
  }

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
      arguments[key] = tools.value(of: value, as: key, in: name)
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
}
