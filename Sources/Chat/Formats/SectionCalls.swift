// Kimi K2 and DeepSeek V3 to V3.1: a section of calls, each of a name and JSON between tokens of their own.
//
//   Kimi            <|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{...}<|tool_call_end|>
//   DeepSeek V3     <｜tool▁call▁begin｜>function<｜tool▁sep｜>f, and the arguments as a block of code
//   DeepSeek V3.1   <｜tool▁call▁begin｜>f<｜tool▁sep｜>{...}<｜tool▁call▁end｜>

import Grammar
import JSON

struct SectionCalls: CallSyntax {
  enum Dialect: Sendable, Equatable {
    case kimi, deepSeek, deepSeek31

    fileprivate var words:
      (section: (open: String, close: String), begin: String, middle: String, end: String)
    {
      switch self {
      case .kimi:
        (
          ("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"), "<|tool_call_begin|>",
          "<|tool_call_argument_begin|>", "<|tool_call_end|>"
        )
      case .deepSeek, .deepSeek31:
        (
          ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"), "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>",
          "<｜tool▁call▁end｜>"
        )
      }
    }
  }

  let dialect: Dialect
  let quotes = CallQuotes.json

  var openings: [CallOpening] {
    let section = dialect.words.section
    return [CallOpening(section.open, close: section.close)]
  }

  func calls(in body: [UInt8]) -> [ToolCall]? { calls(in: body, isCut: false) }

  func cutCalls(in body: [UInt8]) -> [ToolCall]? { calls(in: body, isCut: true) }

  private func calls(in body: [UInt8], isCut: Bool) -> [ToolCall]? {
    let words = dialect.words
    var reader = ElementReader(body)
    var calls: [ToolCall] = []
    while !reader.isAtEnd {
      guard reader.skip(words.begin), let head = reader.text(before: words.middle), reader.skip(words.middle)
      else { return isCut && !calls.isEmpty ? calls : nil }
      // The last call of an answer may lack its end.
      let end = reader.json(before: words.end)
      let tail = end ?? Array(reader.rest(before: words.end).utf8)
      _ = reader.skip(words.end)
      guard let call = call(Bytes.trimmed(head), Bytes.trimmed(tail), isCut && end == nil) else {
        return isCut && !calls.isEmpty ? calls : nil
      }
      calls.append(call)
    }
    return calls
  }

  private func call(_ head: [UInt8], _ tail: [UInt8], _ isCut: Bool) -> ToolCall? {
    // V3 has the kind of tool first, and then its name on the line of the block of code.
    if head.elementsEqual("function".utf8), let fence = Bytes.find("```", in: tail[...]) {
      let name = Bytes.trimmed(Array(tail[..<fence]))
      var code = tail[(fence + 3)...]
      if code.starts(with: "json".utf8) { code = code.dropFirst(4) }
      var reader = ElementReader(Array(code))
      let object = reader.json(before: "```") ?? Array(reader.rest(before: "```").utf8)
      return call(named: name, Bytes.trimmed(object), isCut)
    }
    guard dialect == .kimi else { return call(named: head, tail, isCut) }
    // functions.NAME:INDEX
    var name = head[...]
    if name.starts(with: "functions.".utf8) { name = name.dropFirst("functions.".utf8.count) }
    if let colon = name.lastIndex(of: UInt8(ascii: ":")),
      name[(colon + 1)...].allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) })
    {
      name = name[..<colon]
    }
    return call(named: Array(name), tail, isCut)
  }

  private func call(named name: [UInt8], _ arguments: [UInt8], _ isCut: Bool) -> ToolCall? {
    let object = arguments.isEmpty && !isCut ? Array("{}".utf8) : arguments
    let isWhole = ToolCallText.isObject(object)
    guard !name.isEmpty, !name.contains(where: Bytes.isSpace),
      isWhole || isCut && object.first == UInt8(ascii: "{")
    else { return nil }
    return ToolCall(name: Bytes.text(name), arguments: Bytes.text(object), isCut: !isWhole)
  }

  func pattern(of tools: [CallableTool], _ writer: CallWriter) -> Pattern {
    let words = dialect.words
    let calls = tools.map { tool -> Pattern in
      let arguments = writer.json(tool.arguments)
      let (begin, middle, end) = (
        writer.marker(words.begin), writer.marker(words.middle), writer.marker(words.end)
      )
      return switch dialect {
      case .kimi:
        .sequence([
          begin, .literal("functions.\(tool.name):"), .regex("[0-9]{1,4}"), middle, arguments, end,
        ])
      case .deepSeek:
        .sequence([
          begin, .literal("function"), middle, .literal("\(tool.name)\n```json\n"), arguments,
          .literal("\n```"), end,
        ])
      case .deepSeek31: .sequence([begin, .literal(tool.name), middle, arguments, end])
      }
    }
    return .sequence([
      writer.marker(words.section.open),
      writer.list(.choice(calls), separator: .literal(dialect == .deepSeek ? "\n" : "")),
      writer.marker(words.section.close),
    ])
  }
}
