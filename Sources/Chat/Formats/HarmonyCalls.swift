// What a constrained answer of gpt-oss looks like: a header for each of its channels.

import Grammar

/// Read by `HarmonyParser`; here are the patterns.
struct HarmonyCalls: CallSyntax {
  let openings: [CallOpening] = []
  let quotes = CallQuotes.none

  /// What ends a message or begins another: no argument holds one.
  static let marks = [
    "<|end|>", "<|return|>", "<|call|>", "<|eom|>", "<|eot|>", "<|start|>", "<|channel|>",
  ]

  func calls(in body: [UInt8]) -> [ToolCall]? { nil }

  /// One call: it ends the answer. The recipient may stand on either side of the channel.
  func pattern(of tools: [CallableTool], _ writer: CallWriter) -> Pattern {
    let (channel, message) = (writer.marker("<|channel|>"), writer.marker("<|message|>"))
    let constrained = Pattern.sequence([writer.marker("<|constrain|>"), .literal("json")])
    return .choice(
      tools.map { tool in
        .sequence([
          .choice([
            .sequence([channel, .literal("commentary to=functions.\(tool.name) "), constrained]),
            .sequence([
              .literal(" to=functions.\(tool.name)"), channel, .literal("commentary "),
              .choice([constrained, .literal("json")]),
            ]),
          ]),
          message, .without(Self.marks, writer.json(tool.arguments)),
        ])
      })
  }

  /// An answer, or a call with or without a word to the user before it.
  func mixed(_ calls: Pattern, _ writer: CallWriter) -> Pattern {
    let preamble = Pattern.sequence([
      writer.marker("<|channel|>"), .literal("commentary"), writer.marker("<|message|>"),
      .text(excluding: []), writer.marker("<|end|>"), writer.marker("<|start|>"), .literal("assistant"),
    ])
    return .choice([Self.final(.text(excluding: []), writer), calls, .sequence([preamble, calls])])
  }

  /// An answer in its channel.
  static func final(_ content: Pattern, _ writer: CallWriter) -> Pattern {
    .sequence([
      writer.marker("<|channel|>"), .literal("final"), writer.marker("<|message|>"), content,
    ])
  }
}

/// Messages with calls in a syntax that was found out, each to its tool.
struct AddressedCalls: CallSyntax {
  let words: FoundCalls
  let tools: ToolSchemas

  /// Of a call within its message.
  private var syntax: FoundText { FoundText(words: words, tools: tools) }

  var openings: [CallOpening] { syntax.openings }
  let quotes = CallQuotes.none

  func calls(in body: [UInt8]) -> [ToolCall]? { syntax.calls(in: body) }

  func cutCalls(in body: [UInt8]) -> [ToolCall]? { syntax.cutCalls(in: body) }

  func pattern(of tools: [CallableTool], _ writer: CallWriter) throws(GrammarError) -> Pattern {
    let single = CallWriter(tokenizer: writer.tokenizer, maxCalls: 1)
    var messages: [Pattern] = []
    for tool in tools {
      messages.append(Self.message(to: tool.name, try syntax.pattern(of: [tool], single), writer))
    }
    return writer.list(.choice(messages), separator: writer.literal("<|eom|><|start|>assistant"))
  }

  func mixed(_ calls: Pattern, _ writer: CallWriter) -> Pattern {
    .choice([Self.message(to: "user", .text(excluding: []), writer), calls])
  }

  static func message(to name: String, _ content: Pattern, _ writer: CallWriter) -> Pattern {
    .sequence([.literal(" to=\(name)"), writer.marker("<|message|>"), content])
  }
}
