// One request to the engine and the events it answers with.

package import Decoding
package import Media
package import Platform
package import Sampling

/// What to generate from: token ids in, token ids out. Text is the caller's business.
package struct GenerationRequest: Sendable {
  /// At least one token; BOS and chat markers included.
  package var promptTokens: [Int32]
  /// Upper limit of generated tokens, at least 1; clamped so that prompt and answer fit the context.
  package var maxTokens: Int
  /// Images and audio whose soft tokens stand in for prompt tokens, in order of position.
  package var media: [MediaSpan] = []
  package var sampling: SamplingParameters
  /// Sampling one of these ends the generation with `.stop`; the token itself is not sent.
  package var stopTokens: Set<Int32>
  /// Ids at or above this are never sampled: rows that pad the embedding beyond the tokenizer's vocabulary.
  package var tokenLimit: Int?
  /// How many alternatives to report with each token; nil when no log probabilities are wanted.
  package var topLogprobs: Int?
  /// How many alternatives to report with each prompt token; nil when they are not wanted.
  package var promptLogprobs: Int?
  /// What the answer may say; nil leaves it free.
  package var guide: Guide?
  /// The guide that is being made, in place of `guide`: nothing is sampled before it is there. Whoever makes it cancels
  /// the generation where there will be none.
  package var lateGuide: LateGuide?
  /// Text that the answer is likely to repeat, as tokens: drafts are taken from it. Changes speed only.
  package var draft: [Int32] = []
  /// The answer as somebody says that it was: many of its tokens are computed in one step, and each is still sampled as it
  /// would have been alone. Changes speed only.
  package var expected: [Int32] = []
  /// The adapter that it is computed with; nil for the model as it is.
  package var adapter: AdapterChoice?
  /// The client, as a number that says nothing else: its requests share it, and 0 is nobody in particular.
  package var tenant: UInt64 = 0
  /// Whether it goes before others, in the queue of its tenant and with its prompt: an editor's, whose user waits between
  /// two keys.
  package var comesFirst = false
  /// Most requests that wait, this one included, where fewer than the engine's own limit; nil for that.
  package var queueLimit: Int?
  /// Whether nobody waits for it: it is computed only while no other request is.
  package var givesWay = false
  /// Whether what is computed of the prompt is saved at once, where prefixes outlive the server, and not only when
  /// another request uses it.
  package var keepsPrefix = false
  /// Whether its reader is told how far the prompt is read.
  package var reportsProgress = false

  package init(
    promptTokens: [Int32], maxTokens: Int, sampling: SamplingParameters = SamplingParameters(),
    stopTokens: Set<Int32> = [], tokenLimit: Int? = nil, topLogprobs: Int? = nil, promptLogprobs: Int? = nil
  ) {
    (self.promptTokens, self.maxTokens, self.sampling) = (promptTokens, maxTokens, sampling)
    (self.stopTokens, self.tokenLimit, self.topLogprobs) = (stopTokens, tokenLimit, topLogprobs)
    self.promptLogprobs = promptLogprobs
  }
}

/// Why a generation ended.
package enum FinishReason: Sendable, Equatable {
  /// A stop token was sampled.
  case stop
  /// `maxTokens`, or the end of the context, was reached.
  case length
  /// The reader closed the generation, or read too slowly.
  case cancelled
}

/// Where the time of a generation went, seconds.
package struct GenerationTimings: Sendable, Equatable {
  package var queued = 0.0
  /// From admission to the first sampled token.
  package var prefill = 0.0
  /// From the first sampled token to the end.
  package var decode = 0.0
  package var promptTokens = 0
  /// Prompt tokens whose keys and values were in the prefix cache.
  package var cachedTokens = 0
  /// Every sampled token counts, a final stop token included.
  package var generatedTokens = 0

  package init() {}

  /// Of the tokens that were computed.
  package var prefillTokensPerSecond: Double {
    prefill > 0 ? Double(promptTokens - cachedTokens) / prefill : 0
  }

  /// The first token belongs to the prefill.
  package var decodeTokensPerSecond: Double {
    decode > 0 ? Double(max(0, generatedTokens - 1)) / decode : 0
  }
}

/// How far a prompt is read.
package struct PromptProgress: Sendable, Equatable {
  /// Tokens of the prompt.
  package var total: Int
  /// Those that were in the prefix cache.
  package var cached: Int
  /// Those that need not be computed any more, cached ones included.
  package var processed: Int
  /// Since the engine took the request.
  package var seconds: Double
  /// Until the last token is read, as recent steps let expect; nil while none is known.
  package var secondsLeft: Double?

  package init(total: Int, cached: Int, processed: Int, seconds: Double, secondsLeft: Double?) {
    (self.total, self.cached, self.processed) = (total, cached, processed)
    (self.seconds, self.secondsLeft) = (seconds, secondsLeft)
  }
}

/// In order: `started`, perhaps any number of `progress`, perhaps `promptLogprobs`, any number of `token`, then
/// `finished` or `failed`.
package enum GenerationEvent: Sendable {
  /// The first step takes the request; `cachedTokens` of the prompt need no prefill.
  case started(cachedTokens: Int)
  /// A step begins that reads more of the prompt, or the last of them has ended; for those that want it, a few a second.
  case progress(PromptProgress)
  /// One entry per prompt token; nil for the first, which nothing predicts.
  case promptLogprobs([SampledToken?])
  case token(SampledToken)
  case finished(FinishReason, GenerationTimings)
  case failed(InferenceError)
}

/// A running or queued generation. It ends within one step of the engine when it is cancelled.
package typealias Generation = EngineWork<GenerationEvent>

/// What an engine does for somebody, as events that one thread reads.
package final class EngineWork<Event: Sendable>: Sendable {
  let mailbox: Mailbox<Event>

  /// - Parameter mailbox: with room for what the engine sends; closing it from here cancels.
  package init(mailbox: Mailbox<Event>) { self.mailbox = mailbox }

  /// The next event; `.closed` after the last one, `.timedOut` when `deadline` passed first.
  package func next(until deadline: Instant? = nil) -> Mailbox<Event>.Reading {
    mailbox.receive(until: deadline)
  }

  /// Harmless when the work has ended already.
  package func cancel() { mailbox.close() }
}

/// What the engine can take.
package struct EngineLimits: Sendable, Equatable {
  /// Most tokens of prompt and answer together.
  package var maxContext: Int
  /// Token ids must be below this.
  package var vocabularySize: Int

  package init(maxContext: Int, vocabularySize: Int) {
    (self.maxContext, self.vocabularySize) = (maxContext, vocabularySize)
  }
}

/// What turns requests into generations: the engine's client, or a script in tests.
package protocol GenerationService: Sendable {
  var limits: EngineLimits { get }
  /// What was counted so far; cheap.
  var statistics: EngineStatistics { get }

  /// Queues a request; never blocks.
  ///
  /// - Throws: `queueFull`, `promptTooLong`, `emptyPrompt`, `tokenOutOfRange`, `unusableMedia`, `draining`.
  func submit(_ request: GenerationRequest) throws(InferenceError) -> Generation
}

extension GenerationService {
  /// For services that count nothing.
  package var statistics: EngineStatistics { EngineStatistics() }
}
