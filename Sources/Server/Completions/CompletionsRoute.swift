// POST /v1/completions: text or token ids in, text out, no chat template.

import Decoding
import HTTP
import Inference
import JSON
import Pipeline
import Tokenizers
import Wire

struct CompletionsRoute {
  let server: ServerContext

  static func table(_ server: ServerContext) -> RouteTable {
    RouteTable(
      .openAI,
      [
        .post(
          "/v1/completions", "createCompletion", "Goes on with a text", reads: .of(CompletionRequest.self),
          gives: "Completion", CompletionsRoute(server: server).respond
        ) { $0.event = "Completion" }
      ])
  }

  /// Everything that can be known to be wrong is refused here, before the head of a stream is sent.
  private func respond(to http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let body = try http.jsonBody(context.memory)
    let scope = try server.request(body, for: context)
    let request = try CompletionRequest(
      body, limits: scope.limits, vocabularySize: scope.model.vocabularySize)
    try server.ignore(request.ignored, request.format?.notes ?? [], for: context)
    let plan = PromptPlan(
      scope: scope, options: request.options, param: "prompt", topLogprobs: request.logprobs,
      promptLogprobs: request.options.promptLogprobs ?? (request.echoes ? request.logprobs : nil))
    var prompts: [[Int32]] = []
    for prompt in request.prompts { prompts.append(plan.truncated(try encode(prompt, request, scope))) }
    let makeGuide = try scope.guideMaker(request.format, request.options, isUnwanted: context.isClientGone)
    let run = AnswerRun(
      try parts(request, prompts, plan), scope: scope, makeGuide: makeGuide,
      receipt: scope.receipt(request.options))
    let answer = CompletionAnswer(request, prompts, run, scope)
    return try answer.respond(run, context, streams: request.options.streams)
  }

  private func encode(
    _ prompt: TextInput, _ request: CompletionRequest, _ scope: RequestScope
  ) throws(APIError) -> [Int32] {
    switch prompt {
    case .text(let text):
      if let suffix = request.suffix {
        return try scope.fill(prefix: text, suffix: suffix, maxTokens: request.options.maxTokens).0.tokens
      }
      // What is cut may be as long as it likes.
      let isCut = request.options.promptTruncation != nil
      let loan =
        isCut
        ? try scope.claimForTokens(ofBytes: text.utf8.count)
        : try scope.claimForTokens(ofPrompt: text, param: "prompt")
      defer { withExtendedLifetime(loan) {} }
      return scope.model.tokenizer.encode(text, addSpecialTokens: request.addsSpecialTokens)
    case .tokens(let ids): return ids
    }
  }

  /// Choices are numbered prompt by prompt.
  private func parts(
    _ request: CompletionRequest, _ prompts: [[Int32]], _ plan: PromptPlan
  ) throws(APIError) -> [AnswerRun.Part] {
    var plan = plan
    let scope = plan.scope
    if request.suffix != nil { plan.ends = scope.model.fill?.ends ?? [] }
    var settings = TokenStream.Settings()
    settings.stops = request.options.stops
    settings.includesStop = request.options.includesStop
    settings.hiddenTokens = plan.hiddenTokens
    settings.reportsLogprobs = request.logprobs != nil
    settings.isEmpty = request.options.maxTokens == 0
    var parts: [AnswerRun.Part] = []
    let tokenizer = scope.model.tokenizer
    for prompt in prompts {
      // After text, not after BOS alone: prompt and completion together read as one text.
      let isContinuation = prompt.contains { !tokenizer.isSpecial($0) }
      for choice in 0..<request.options.choices {
        let stream = TokenStream(
          settings,
          detokenizer: tokenizer.makeDetokenizer(skipSpecialTokens: true, isContinuation: isContinuation))
        parts.append(
          AnswerRun.Part(
            request: try plan.request(for: prompt, choice: choice), stream: stream,
            countsPrompt: choice == 0, tellsTokens: request.options.returnsTokens))
      }
    }
    return parts
  }
}
