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
  private static let parameter = "<parameter="

  func calls(in body: [UInt8]) -> [ToolCall]? { calls(in: body, isCut: false) }

  func cutCalls(in body: [UInt8]) -> [ToolCall]? { calls(in: body, isCut: true) }

  private func calls(in body: [UInt8], isCut: Bool) -> [ToolCall]? {
    var calls: [ToolCall] = []
    var rest = body[...].drop { Bytes.isSpace($0) }
    while !rest.isEmpty {
      guard let call = call(&rest, isCut) else { return nil }
      calls.append(call)
      if call.isCut { break }
      rest = rest.drop { Bytes.isSpace($0) }
    }
    return calls
  }

  /// One `<function=...>` element, taken off the front.
  private func call(_ rest: inout ArraySlice<UInt8>, _ isCut: Bool) -> ToolCall? {
    guard let name = tagValue("<function=", &rest) else { return nil }
    var arguments = JSONObject()
    while true {
      rest = rest.drop { Bytes.isSpace($0) }
      if rest.starts(with: "</function>".utf8) {
        rest = rest.dropFirst("</function>".utf8.count)
        return ToolCall(name: name, arguments: JSONValue.object(arguments).text)
      }
      guard let key = tagValue(Self.parameter, &rest) else {
        let isTag =
          rest.starts(with: Self.parameter.utf8) || Self.parameter.utf8.starts(with: rest)
          || "</function>".utf8.starts(with: rest)
        return isCut && isTag ? ToolCall(cut: name, arguments) : nil
      }
      guard let value = parameterText(&rest) else {
        if !isCut { return nil }
        if !isSeed, rest.first == 0x0A { rest = rest.dropFirst() }
        let end = Array((isSeed ? "</parameter>" : "\n</parameter>").utf8)
        let text = Bytes.text(rest.dropLast(Bytes.heldBack(of: rest, before: end)))
        return ToolCall(cut: name, arguments, (key, tools.beginning(of: text, as: key, in: name)))
      }
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

  /// The raw text up to `</parameter>`, without the one newline on each side that Qwen's format adds. A
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
    if !isSeed, value.first == 0x0A { value = value.dropFirst() }
    if !isSeed, value.last == 0x0A { value = value.dropLast() }
    rest = rest[next...]
    return Bytes.text(value)
  }
}
