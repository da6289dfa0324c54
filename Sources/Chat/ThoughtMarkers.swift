// How a model's thoughts are marked, and which tokens of a vocabulary are markers.

package import Tokenizers

/// The text around a thought, as the model's template writes it.
package struct ThoughtMarkers: Sendable, Equatable {
  package let open: String
  package let close: String
  /// Between the thought and `close`.
  package let lead: String
  /// Between `close` and the answer.
  package let separator: String
}

extension OutputFormat {
  package var thoughtMarkers: ThoughtMarkers {
    switch reasoning {
    case .think: ThoughtMarkers(open: "<think>", close: "</think>", lead: "\n", separator: "\n\n")
    case .brackets: ThoughtMarkers(open: "[THINK]", close: "[/THINK]", lead: "", separator: "")
    case .channel: ThoughtMarkers(open: "<|channel>", close: "<channel|>", lead: "\n", separator: "")
    }
  }

  /// Whether a reply to this prompt begins inside a thought.
  package func startsInsideThought(promptTail: String) -> Bool {
    ReasoningMarkers(reasoning).isOpen(atEndOf: promptTail)
  }

  /// Special tokens that parsers look for.
  private static let markers: Set = [
    "<think>", "</think>", "[THINK]", "[/THINK]", "<|channel>", "<channel|>", "<tool_call>", "</tool_call>",
    "<|tool_call>", "<tool_call|>", "<|\"|>", "<|tool_call|>", "<|/tool_call|>", "[TOOL_CALLS]", "[CALL_ID]",
    "[ARGS]", "<|python_tag|>",
  ]

  /// Special tokens that say nothing to a parser: they have no text for the client.
  package static func silentTokens(of tokenizer: Tokenizer) -> Set<Int32> {
    let ids = 0..<Int32(clamping: tokenizer.vocabularySize)
    return Set(
      ids.lazy.filter { id in
        tokenizer.isSpecial(id) && !markers.contains(tokenizer.token(of: id) ?? "")
      })
  }
}
