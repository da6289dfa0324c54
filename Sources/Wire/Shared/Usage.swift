// Token counts of one request, under the names of Chat Completions and those of Responses.

package import JSON

/// Counts of tokens of one answer, all its choices together.
package struct Usage: Sendable, Equatable {
  /// Every token of the templated prompt, cached ones included.
  package var promptTokens: Int
  /// Prompt tokens that needed no prefill.
  package var cachedTokens: Int
  /// Prompt tokens that stand for audio.
  package var audioTokens: Int
  /// Every token of the answer: reasoning and tool-call markup too, but not the stop token that ends it.
  package var completionTokens: Int
  package var reasoningTokens: Int

  package init(
    promptTokens: Int = 0, cachedTokens: Int = 0, audioTokens: Int = 0, completionTokens: Int = 0,
    reasoningTokens: Int = 0
  ) {
    self.promptTokens = promptTokens
    self.cachedTokens = cachedTokens
    self.audioTokens = audioTokens
    self.completionTokens = completionTokens
    self.reasoningTokens = reasoningTokens
  }

  /// What two generations have used together.
  package func adding(_ other: Usage) -> Usage {
    Usage(
      promptTokens: promptTokens + other.promptTokens, cachedTokens: cachedTokens + other.cachedTokens,
      audioTokens: audioTokens + other.audioTokens,
      completionTokens: completionTokens + other.completionTokens,
      reasoningTokens: reasoningTokens + other.reasoningTokens)
  }

  /// `audio_tokens` only where there is audio.
  private var promptDetails: JSONValue {
    let audio: [(String, JSONValue)] = audioTokens > 0 ? [("audio_tokens", .int(audioTokens))] : []
    return .object(JSONObject([("cached_tokens", .int(cachedTokens))] + audio))
  }

  /// The member `usage` of chat and plain completions.
  package var json: JSONValue {
    [
      "prompt_tokens": .int(promptTokens),
      "completion_tokens": .int(completionTokens),
      "total_tokens": .int(promptTokens + completionTokens),
      "prompt_tokens_details": promptDetails,
      "completion_tokens_details": ["reasoning_tokens": .int(reasoningTokens)],
      "input_tokens": .int(promptTokens),
      "output_tokens": .int(completionTokens),
      "output_tokens_details": ["reasoning_tokens": .int(reasoningTokens)],
    ]
  }
}
