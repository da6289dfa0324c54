// From a request of llama-server's wire to the generations that answer it.

import Decoding
import HTTP
import JSON
import Pipeline
import Sampling
import Tokenizers
import Wire

struct LlamaPlan {
  let scope: RequestScope
  let request: LlamaRequest
  /// The tokens of each prompt.
  private(set) var prompts: [[Int32]] = []
  /// Whether texts around the place to fill were cut.
  private(set) var isTruncated = false
  private let options: GenerationOptions
  private var ends: Set<Int32> = []

  /// - Throws: 501 where there is something to fill and the model has no marks for that.
  init(_ request: LlamaRequest, _ scope: RequestScope) throws(APIError) {
    (self.scope, self.request) = (scope, request)
    var options = request.options
    options.sampling = DefaultSampling.local.overrides.merging(scope.model.recommended).merging(
      options.sampling)
    if request.onlyPrompt { options.maxTokens = 1 }
    self.options = options
    if let infill = request.infill {
      guard scope.model.fill != nil else {
        throw APIError(
          status: 501, type: "not_supported_error", code: "unsupported_operation",
          message: scope.cannotFill + ".")
      }
      let (result, ends) = try scope.fill(
        prefix: infill.prefix, suffix: infill.suffix, extras: infill.extras, maxTokens: options.maxTokens)
      prompts = [result.tokens]
      isTruncated = result.isTruncated
      self.ends = ends
    } else {
      for prompt in request.prompts { prompts.append(try tokens(prompt)) }
    }
  }

  /// Text spells special tokens, and gets those that the tokenizer puts before every text.
  private func tokens(_ prompt: [LlamaRequest.Piece]) throws(APIError) -> [Int32] {
    var tokens: [Int32] = []
    for (index, piece) in prompt.enumerated() {
      switch piece {
      case .token(let id): tokens.append(id)
      case .text(let text):
        let loan = try scope.claimForTokens(ofPrompt: text, param: "prompt")
        tokens += withExtendedLifetime(loan) {
          scope.model.tokenizer.encode(text, addSpecialTokens: index == 0)
        }
      }
    }
    return tokens
  }

  func makeRun(_ context: ConnectionContext) throws(APIError) -> AnswerRun {
    var plan = PromptPlan(
      scope: scope, options: options, param: "prompt", topLogprobs: request.probabilities)
    plan.ends = ends
    let makeGuide = try scope.guideMaker(request.format, options, isUnwanted: context.isClientGone)
    var settings = TokenStream.Settings()
    settings.stops = options.stops
    settings.hiddenTokens = plan.hiddenTokens
    settings.reportsLogprobs = options.streams || request.returnsTokens || request.probabilities != nil
    settings.isEmpty = request.onlyPrompt
    if request.indentation > 0 || request.lineSeconds != nil {
      settings.lines = LineRules(indentation: request.indentation, seconds: request.lineSeconds)
    }
    var parts: [AnswerRun.Part] = []
    for prompt in prompts {
      let stream = TokenStream(
        settings,
        detokenizer: scope.model.tokenizer.makeDetokenizer(skipSpecialTokens: true, isContinuation: true))
      parts.append(
        AnswerRun.Part(
          request: try plan.request(for: prompt, choice: 0), stream: stream, countsPrompt: true))
    }
    return AnswerRun(parts, scope: scope, makeGuide: makeGuide, receipt: scope.receipt(options))
  }

  /// `generation_settings`: what the request was taken to mean.
  var settings: JSONValue {
    let sampling = SamplingParameters(options.sampling)
    var object = JSONObject([
      ("n_predict", .int(request.onlyPrompt ? 0 : options.maxTokens ?? -1)),
      ("seed", options.seed.map(JSONValue.int) ?? .int(Int(UInt32.max))),
    ])
    for field in SamplingField.allCases {
      let name = field == .repetitionPenalty ? "repeat_penalty" : field.name
      if case .count = field.row.setting {
        object[name] = .int(Int(sampling[field]))
      } else {
        object[name] = .double(sampling[field])
      }
    }
    for (name, value) in [
      ("stop", .array(options.stops.map(JSONValue.string))),
      ("max_tokens", .int(options.maxTokens ?? -1)), ("n_keep", 0), ("n_discard", 0),
      ("ignore_eos", .bool(options.ignoresEOS)), ("stream", .bool(options.streams)),
      ("n_probs", .int(request.probabilities ?? 0)), ("min_keep", 0),
      ("grammar", .string(grammar)), ("lora", []),
      ("samplers", .array((request.samplers ?? []).map(JSONValue.string))),
      ("timings_per_token", .bool(request.timesEveryToken)), ("post_sampling_probs", false),
    ] as [(String, JSONValue)] { object[name] = value }
    return .object(object)
  }

  private var grammar: String {
    if case .grammar(let text)? = request.format?.form { text } else { "" }
  }
}
