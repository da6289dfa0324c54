// Caps on what one request may hold, checked before anything is computed.

/// The most of everything that one request may hold; beyond it is refused with 400. Told by /v1/capabilities.
package struct RequestLimits: Sendable {
  /// Choices per prompt.
  package var choices = 128
  /// Choices of all prompts of one request together.
  package var allChoices = 1_024
  /// Messages of one conversation.
  package var messages = 10_000
  /// Parts of one message.
  package var contentParts = 1_000
  /// Images and audio of one request together.
  package var mediaParts = 64
  /// Tools of one request, and calls of one turn.
  package var tools = 1_024
  /// Whether the model's template shows tools; else those that need not be called are left out and named in a header.
  package var showsTools = true
  /// Whether tools that a provider runs itself are refused; else they are left out and named in a header.
  package var refusesHostedTools = false
  /// Clients whose lines that change with every request stay where they are.
  package var keptLines: Set<MovingLines> = []
  /// Bytes of one schema, as compact JSON.
  package var schemaBytes = 256 << 10
  /// Bytes of a regular expression, of a grammar, or of all choices together.
  package var grammarBytes = 64 << 10
  /// Texts that an answer may be limited to.
  package var formatChoices = 1_000
  /// Stop strings, and the bytes of each.
  package var stops = 16
  package var stopBytes = 256
  package var stopTokens = 256
  package var logitBiases = 1_024
  /// Words that an answer must not hold, and the bytes of each; also of texts where repetitions end.
  package var badWords = 256
  package var badWordBytes = 256
  /// Bytes of `chat_template_kwargs`, as compact JSON.
  package var templateArgumentBytes = 64 << 10
  /// Prompts in one completions request.
  package var prompts = 256
  /// Inputs of one embeddings request, and their tokens all together.
  package var embeddingInputs = 2_048
  package var embeddingTokens = 300_000
  /// Documents of one rerank request.
  package var rerankedDocuments = 1_000
  /// Alternatives to each token, in chat and in plain completions.
  package var topLogprobs = 20
  package var completionLogprobs = 5
  /// Bytes of one file.
  package var fileBytes = 64 << 20
  /// Tokens in one detokenize request.
  package var detokenizedTokens = 1 << 18

  package init() {}
}
