// Text with a grammar of its own: templates, expressions, schemas, and what models write.

import Chat
import JSON
import Platform

@testable import Grammar
@testable import Jinja
@testable import Tokenizers

enum TextTargets {
  // MARK: Templates

  private static let conversation: JSONObject = {
    let value: JSONValue = [
      "messages": [
        ["role": "system", "content": "s"], ["role": "user", "content": "hi {{ x }}"],
        [
          "role": "assistant", "content": .null,
          "tool_calls": [["function": ["name": "f", "arguments": ["a": 1]]]],
        ],
      ],
      "tools": [["type": "function", "function": ["name": "f", "parameters": ["type": "object"]]]],
      "add_generation_prompt": true, "bos_token": "<s>", "n": 3, "x": 1.5, "s": "a\u{301}b",
    ]
    return value.objectValue ?? JSONObject()
  }()

  static func template(_ bytes: [UInt8]) {
    var limits = JinjaLimits()
    limits.steps = 20_000
    limits.outputBytes = 1 << 16
    guard let template = try? JinjaTemplate(source: String(decoding: bytes, as: UTF8.self), limits: limits)
    else { return }
    let text = try? template.render(conversation) { CalendarTime(secondsSince1970: 0) }
    check((text?.utf8.count ?? 0) <= limits.outputBytes, "the output keeps its bound")
  }

  // MARK: Patterns

  private static let words: [[UInt8]] =
    (0..<256).map { [UInt8($0)] }
    + ["{\"", "\":", "\", \"", "true", "12", "\u{e9}", "\u{1f600}", "aa", "\\u00"].map { Array($0.utf8) }
    + [[]]

  private static let vocabulary = GrammarVocabulary(count: words.count, endTokens: [Int32(words.count - 1)]) {
    words[Int($0)]
  }

  /// How often compiling asks whether anybody waits before it is left: some milliseconds, so that an input is cheap.
  private static let patience = 4

  /// Compiles, then walks: at every step some allowed token is taken, which one the input decides.
  static func grammar(_ pattern: Pattern, _ bytes: [UInt8]) {
    var questions = 0
    let compiled = try? CompiledGrammar(pattern, vocabulary: vocabulary) {
      questions += 1
      return questions > patience
    }
    guard let grammar = compiled else { return }
    var matcher = GrammarMatcher(grammar)
    for step in 0..<24 {
      let mask = matcher.allowed(remaining: 64)
      let allowed = (0..<Int32(words.count)).filter { mask.contains($0) }
      check(!allowed.isEmpty || matcher.canEnd, "a constraint leaves a way to go on or to end")
      guard let first = allowed.first else { return }
      let choice = bytes.isEmpty ? first : allowed[Int(bytes[step % bytes.count]) % allowed.count]
      check(matcher.accept(choice), "what the mask allows is accepted")
      if choice == Int32(words.count - 1) { return }
    }
  }

  static func schema(_ bytes: [UInt8]) {
    guard let value = try? JSONValue(parsing: bytes) else { return }
    grammar(.schema(value), bytes)
  }

  // MARK: What models write

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
    let tools: [JSONValue] = [["type": "function", "function": ["name": "f"]]]
    var whole = format.makeParser(promptTail: "", tools: tools)
    let expected = joined(whole.feed(text) + whole.finish())
    var cut = format.makeParser(promptTail: "", tools: tools)
    var events: [OutputEvent] = []
    for scalar in text.unicodeScalars { events += cut.feed(String(scalar)) }
    check(joined(events + cut.finish()) == expected, "events do not depend on how a reply is cut")
  }

  /// The events in words, neighbouring pieces of one text as one.
  private static func joined(_ events: [OutputEvent]) -> [String] {
    var found: [String] = []
    var open = ""
    for event in events {
      switch event {
      case .content(let text):
        if open != "content" { found.append("content ") }
        open = "content"
        found[found.count - 1] += text
      case .reasoning(let text):
        if open != "reasoning" { found.append("reasoning ") }
        open = "reasoning"
        found[found.count - 1] += text
      default:
        open = ""
      }
    }
    return found
  }

  // MARK: Tokens to text

  private static let tokenizer: Tokenizer? = {
    var vocabulary = JSONObject()
    for byte in 0..<256 {
      let digits = String(byte, radix: 16, uppercase: true)
      vocabulary["<0x" + (digits.utf8.count == 1 ? "0" : "") + digits + ">"] = .int(byte)
    }
    for (offset, word) in ["\u{2581}the", "a", "\u{e9}", "\u{1f600}"].enumerated() {
      vocabulary[word] = .int(256 + offset)
    }
    let file: JSONValue = [
      "model": ["type": "BPE", "vocab": .object(vocabulary), "merges": [], "byte_fallback": true],
      "decoder": [
        "type": "Sequence",
        "decoders": [
          ["type": "Replace", "pattern": ["String": "\u{2581}"], "content": " "], ["type": "ByteFallback"],
          ["type": "Fuse"],
        ],
      ],
    ]
    return try? Tokenizer(tokenizerJSON: file.bytes)
  }()

  /// Every byte is a token of that byte, or one of the few words.
  static func detokenizer(_ bytes: [UInt8]) {
    guard let tokenizer else { return check(false, "the small tokenizer loads") }
    let ids = bytes.map { $0 == 0x80 ? Int32(256 + bytes.count % 4) : Int32($0) }
    var stream = tokenizer.makeDetokenizer(skipSpecialTokens: true)
    var text = ""
    for id in ids { text += stream.push(id) }
    text += stream.finish()
    guard !breaksLater(ids) else { return }
    check(
      text.utf8.elementsEqual(tokenizer.decode(ids, skipSpecialTokens: true).utf8),
      "streamed text is the whole text")
  }

  /// Whether a run of byte tokens is valid at first and not as a whole: there the two differ, and say so.
  private static func breaksLater(_ ids: [Int32]) -> Bool {
    ids.split { $0 > 255 }.contains { run in
      let bytes = run.map { UInt8(truncatingIfNeeded: $0) }
      return String(validating: bytes, as: UTF8.self) == nil
        && (1...4).contains { String(validating: bytes.prefix($0), as: UTF8.self) != nil }
    }
  }
}
