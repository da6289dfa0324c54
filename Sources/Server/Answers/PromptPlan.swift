// From a prompt's tokens and the wire's options to a request to the engine.

import Decoding
import HTTP
import Inference
import Media
import Pipeline
import Sampling
import Tokenizers
import Wire

struct PromptPlan {
  let scope: RequestScope
  let options: GenerationOptions
  /// The field that holds the prompt, for errors.
  let param: String
  let topLogprobs: Int?
  let promptLogprobs: Int?
  private let rules: TextRules
  /// Tokens that end an answer beside the model's own.
  var ends: Set<Int32> = []
  /// What the answers may say.
  var guide: Guide?
  /// Tokens that the answers are likely to repeat.
  var draft: [Int32] = []

  init(
    scope: RequestScope, options: GenerationOptions, param: String, topLogprobs: Int?,
    promptLogprobs: Int? = nil
  ) {
    (self.scope, self.options, self.param) = (scope, options, param)
    (self.topLogprobs, self.promptLogprobs) = (topLogprobs, promptLogprobs)
    let sampling = scope.model.sampling.merging(options.sampling)
    rules = TextRules(
      options, scope.model.tokenizer, penalizesSequences: sampling.effective(.dryMultiplier) > 0)
  }

  /// The prompt's last tokens, as many as the request keeps.
  func truncated(_ prompt: [Int32]) -> [Int32] {
    guard let count = options.promptTruncation else { return prompt }
    let context = scope.model.contextTokens
    let room = max(1, context - max(1, min(options.maxTokens ?? 1, context - 1)))
    return prompt.suffix(count < 0 ? room : count)
  }

  /// The request of one choice.
  ///
  /// A limit of tokens beyond the room that the prompt leaves is lowered to that room.
  ///
  /// - Throws: 400 when the prompt leaves no room at all.
  func request(for prompt: [Int32], media: [MediaSpan] = [], choice: Int) throws(APIError)
    -> GenerationRequest
  {
    let context = scope.model.contextTokens
    guard !prompt.isEmpty else { throw .invalidValue(param, "it has no tokens") }
    guard prompt.count < context else {
      throw .contextLengthExceeded(ContextOverflow(tokens: prompt.count, limit: context), param: param)
    }
    let room = context - prompt.count
    var request = GenerationRequest(
      promptTokens: prompt, maxTokens: max(1, min(scope.answerLimit(options), room)),
      sampling: sampling(choice: choice), stopTokens: stopTokens,
      tokenLimit: scope.model.tokenizer.vocabularySize,
      topLogprobs: topLogprobs, promptLogprobs: promptLogprobs)
    request.media = media
    if scope.receipt(options) != nil {
      // It says the seed, and how likely the tokens were.
      request.sampling.seed = request.sampling.seed ?? UInt64.random(in: 0...UInt64.max)
      request.topLogprobs = topLogprobs ?? 0
    }
    request.guide = guide
    request.draft = Array(draft.prefix(context))
    request.tenant = scope.client.number
    request.queueLimit = scope.settings.queueLimit
    // Marks that end an answer are what filling in the middle has.
    request.comesFirst = !ends.isEmpty
    request.givesWay = scope.givesWay
    request.keepsPrefix =
      options.keepsPrompt || scope.server.readAhead != nil && prompt.count >= ReadAhead.leastTokens
    // The choices of a prompt read it together.
    request.reportsProgress = options.returnsProgress && choice == 0
    return request
  }

  /// Ends of an answer; `stop_token_ids` hold even with `ignore_eos`.
  private var stopTokens: Set<Int32> {
    (options.ignoresEOS ? [] : scope.model.endTokens.union(ends)).union(options.stopTokens)
  }

  /// End tokens that may be generated now and have no text for the client.
  var hiddenTokens: Set<Int32> { options.ignoresEOS ? scope.model.endTokens.union(ends) : [] }

  private func sampling(choice: Int) -> SamplingParameters {
    var sampling = SamplingParameters(scope.model.sampling.merging(options.sampling))
    // Choice 0 of a seeded request is what n = 1 gives; the others have seeds of their own.
    if let seed = options.seed { sampling.seed = UInt64(bitPattern: Int64(seed)) &+ UInt64(choice) }
    sampling.order = options.samplerOrder
    sampling.logitBias = options.logitBias
    sampling.minTokens = options.minTokens
    sampling.allowedTokens = options.allowedTokens
    sampling.bannedSequences = rules.bannedSequences
    sampling.dryBreakers = rules.breakers
    return sampling
  }
}
