// What models write: calls, reasoning, and the rest.

import Chat
import Driver
import JSON

@_cdecl("fuzz_calls_main")
public func main(_ count: CInt, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?) -> CInt {
  Fuzz.run(count, arguments, ["calls": CallTargets.calls])
}

enum CallTargets {
  private static let tools: [JSONValue] = [["type": "function", "function": ["name": "f"]]]
  private static let formats = [
    "<tool_call> <think> enable_thinking", "<|python_tag|> ipython \"parameters\"", "<|tool_call|>",
    "<|tool_call> <tool_call|> <|channel>", "[TOOL_CALLS] [ARGS]", "[TOOL_CALLS]", "<tool_call> <function=",
    "<|start|>assistant <|channel|> <|message|>", "<|tool_call_start|>", "<think> ｜DSML｜tool_calls>",
    "<arg_key>",
    "<seed:tool_call> <seed:think>", "<think> <minimax:tool_call>", "<|tool_calls_section_begin|>",
    "<think> <｜tool▁calls▁begin｜>", "<｜tool▁calls▁begin｜> ```json", "<|START_ACTION|> <|START_THINKING|>",
    "[THINK] [TOOL_CALLS] [CALL_ID]",
  ].map { OutputFormat(templateSource: $0) }

  static func calls(_ bytes: [UInt8]) {
    let format = formats[Int(bytes.first ?? 0) % formats.count]
    let text = String(decoding: bytes.dropFirst(), as: UTF8.self)
    var whole = format.makeParser(promptTail: "", tools: tools)
    let expected = joined(whole.feed(text) + whole.finish())
    var cut = format.makeParser(promptTail: "", tools: tools)
    var events: [OutputEvent] = []
    // The bytes decide how long the pieces are: an eighth of the inputs comes letter by letter, others in pieces of all
    // lengths, so that cuts come in all places without a call for each letter.
    var state = bytes.reduce(0 as UInt32) { $0 &* 31 &+ UInt32($1) }
    let isByLetter = state >> 16 & 7 == 0
    var piece = ""
    var rest = 1
    for scalar in text.unicodeScalars {
      piece.unicodeScalars.append(scalar)
      rest -= 1
      if rest == 0 {
        events += cut.feed(piece)
        piece = ""
        state = state &* 1_664_525 &+ 1_013_904_223
        rest = isByLetter ? 1 : [1, 2, 5, 23][Int(state >> 30)]
      }
    }
    events += cut.feed(piece)
    check(joined(events + cut.finish()) == expected, "events do not depend on how a reply is cut")
  }

  /// What the events say in the end, in words: neighbouring pieces of one text as one, and what is taken back as content.
  private static func joined(_ events: [OutputEvent]) -> [String] {
    var found: [(kind: String, text: String)] = []
    func add(_ kind: String, _ text: String) {
      if let last = found.last, last.kind == kind {
        found[found.count - 1].text = last.text + text
      } else {
        found.append((kind, text))
      }
    }
    for event in events {
      switch event {
      case .content(let text): add("content", text)
      case .reasoning(let text): add("reasoning", text)
      case .callBegan(let name): found.append(("call of " + name, ""))
      case .callArguments(let text):
        check(found.last?.kind.hasPrefix("call of ") ?? false, "arguments belong to a call")
        add(found.last?.kind ?? "", text)
      case .callEnded: check(found.last?.kind.hasPrefix("call of ") ?? false, "a call ends that has begun")
      case .callFailed(let retracted, let text):
        check(
          found.suffix(retracted).count { $0.kind.hasPrefix("call of ") } == retracted,
          "only calls are taken back")
        found.removeLast(min(found.count, retracted))
        add("content", text)
      }
    }
    return found.map { $0.kind + " " + $0.text }
  }
}
