// How a model's reasoning is marked, and which tokens of a vocabulary are markers.

package import Tokenizers

/// The text around reasoning: how the model's template writes it, and what the model may make of it.
package struct ReasoningMarkers: Sendable, Equatable {
  package let open: String
  package let close: String
  /// A word right after `open` that belongs to it: Gemma's channel name and newline. Empty for none.
  package var label = ""
  /// Whether reasoning may begin anywhere, or only at the beginning of a reply. The markers that are plain words
  /// may well be talked about in content.
  package var opensAnywhere = false
  /// Between the reasoning and `close`.
  package var lead = ""
  /// Between `close` and the answer.
  package var separator = ""

  /// Whether a prompt ends with the opening of reasoning.
  func isOpen(atEndOf prompt: String) -> Bool {
    var tail = Bytes.trimmedEnd(Array(prompt.utf8.suffix(256))[...])
    let word = label.utf8.filter { !Bytes.isSpace($0) }
    if !word.isEmpty, tail.suffix(word.count).elementsEqual(word) { tail.removeLast(word.count) }
    return tail.suffix(open.utf8.count).elementsEqual(open.utf8)
  }
}

extension OutputFormat.Reasoning {
  /// The one table of what is known about the marks of reasoning.
  package var markers: ReasoningMarkers {
    switch self {
    case .think: ReasoningMarkers(open: "<think>", close: "</think>", lead: "\n", separator: "\n\n")
    case .brackets: ReasoningMarkers(open: "[THINK]", close: "[/THINK]")
    case .channel:
      ReasoningMarkers(
        open: "<|channel>", close: "<channel|>", label: "thought\n", opensAnywhere: true, lead: "\n")
    case .seed: ReasoningMarkers(open: "<seed:think>", close: "</seed:think>", lead: "\n")
    case .command: ReasoningMarkers(open: "<|START_THINKING|>", close: "<|END_THINKING|>")
    case .harmony:
      ReasoningMarkers(
        open: "<|channel|>analysis<|message|>", close: "<|end|>", opensAnywhere: true,
        separator: "<|start|>assistant")
    case .addressed:
      ReasoningMarkers(
        open: " to=self<|message|>", close: "<|eom|>", opensAnywhere: true, separator: "<|start|>assistant")
    }
  }
}

extension OutputFormat {
  /// The marks of this model's reasoning.
  package var reasoningMarkers: ReasoningMarkers { reasoning.markers }

  /// Whether a reply to this prompt begins inside reasoning.
  ///
  /// - Parameter promptTail: the rendered prompt, or its end.
  package func startsInsideReasoning(promptTail: String) -> Bool {
    reasoningMarkers.isOpen(atEndOf: promptTail)
  }

  /// Special tokens that parsers look for.
  private static let markers = Set(
    Reasoning.allCases.filter { !$0.isMessage }.flatMap { [$0.markers.open, $0.markers.close] }
  ).union([
    "<tool_call>", "</tool_call>", "<|tool_call>", "<tool_call|>", "<|\"|>", "<|tool_call|>",
    "<|/tool_call|>",
    "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]", "<|python_tag|>",
    "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "<seed:tool_call>", "</seed:tool_call>",
    "<minimax:tool_call>", "</minimax:tool_call>", "<|tool_calls_section_begin|>", "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>", "<|tool_call_end|>", "<|tool_calls_section_end|>", "<|tool_call_start|>",
    "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>",
    "｜DSML｜", "<|START_ACTION|>", "<|END_ACTION|>",
  ])

  /// Those of gpt-oss. Other vocabularies have some of these words for other ends.
  private static let harmonyMarkers: Set = [
    "<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|call|>", "<|return|>",
  ]

  /// Special tokens that say nothing to a parser: they have no text for the client.
  ///
  /// - Parameter format: of the model's template; nil for none.
  package static func silentTokens(of tokenizer: Tokenizer, _ format: OutputFormat?) -> Set<Int32> {
    let ids = 0..<Int32(clamping: tokenizer.vocabularySize)
    let isHarmony = ["<|channel|>", "<|message|>"].allSatisfy { tokenizer.id(of: $0) != nil }
    let found = format?.found?.words.flatMap { tokenizer.encode($0, addSpecialTokens: false) } ?? []
    var markers = Self.markers.union(found.compactMap(tokenizer.token))
    if isHarmony { markers.formUnion(harmonyMarkers) }
    if format?.reasoning == .addressed { markers.formUnion(["<|start|>", "<|message|>", "<|eom|>"]) }
    return Set(
      ids.lazy.filter { id in
        tokenizer.isSpecial(id) && !markers.contains(tokenizer.token(of: id) ?? "")
      })
  }
}
