// A prompt that the context does not hold, in the words by which the clients of each wire know it.
//
// Clients act on these words: they compact the conversation, or say how much of it has to go. They look for them with
// expressions like `prompt is too long[^0-9]*(\d+)\s*tokens?\s*>\s*(\d+)`, so nothing may stand within them.

package import JSON

/// A prompt beside the context that should hold it and one token of an answer.
package struct ContextOverflow: Sendable, Equatable {
  /// Of the prompt, or of its beginning.
  package var tokens: Int
  /// Most tokens of prompt and answer together.
  package var limit: Int
  /// False where there was no memory to count more than the beginning.
  package var isWhole: Bool

  package init(tokens: Int, limit: Int, isWhole: Bool = true) {
    self.tokens = tokens
    self.limit = limit
    self.isWhole = isWhole
  }

  private var atLeast: String { isWhole ? "" : " or more" }

  /// OpenAI's words.
  ///
  /// - Parameter param: the field that holds the prompt.
  package func message(param: String) -> String {
    let what = ["messages", "input"].contains(param) ? "messages" : "prompt"
    return
      "This model's maximum context length is \(limit) tokens. However, your \(what) resulted in \(tokens) tokens"
      + "\(atLeast), and the answer needs at least one. Please reduce the length of the \(what)."
  }

  /// Anthropic's words.
  var messagesMessage: String {
    // A prompt that fills the context to its end is too long, too.
    "prompt is too long: \(tokens) tokens > \(min(limit, tokens - 1)) maximum"
      + (isWhole ? "" : ", counted as far as the memory allowed") + ". Send fewer or shorter messages."
  }

  /// llama-server's words.
  package var llamaMessage: String {
    "request (\(tokens) tokens\(atLeast)) exceeds the available context size (\(limit) tokens), shorten it"
  }

  /// Ollama's words.
  ///
  /// - Parameter advice: what helps.
  package func ollamaMessage(advice: String) -> String {
    "prompt too long; exceeded max context length by \(tokens - limit + 1) tokens\(atLeast): the prompt has \(tokens) tokens"
      + "\(atLeast), and the context length is \(limit). \(advice)"
  }

  /// The members of an error that llama-server's clients read.
  package var llamaCounts: [(String, JSONValue)] {
    [("n_prompt_tokens", .int(tokens)), ("n_ctx", .int(limit))]
  }
}
