// From a chat request to the generations that answer it, whatever wire it came over.
//
// Chat Completions, Responses and Messages describe the same things in their own words. Each is read into a
// `ChatRequest`; what follows from it is decided here, once.

import Chat
import HTTP
import Inference
import JSON
import Media
import Pipeline
import Tokenizers
import Wire

struct ChatPlan {
  private let scope: RequestScope
  private let resolver: MediaResolver

  /// - Parameter media: finds the request's images and audio; nil for one of its own.
  init(_ scope: RequestScope, media: MediaResolver? = nil) {
    self.scope = scope
    resolver = media ?? MediaResolver(scope)
  }

  /// The generations of a request, ready to start.
  ///
  /// - Parameters:
  ///   - isEmpty: whether only the prompt is of interest.
  ///   - keepsCutCalls: whether the wire can tell a call as far as it came where the token limit cut it.
  /// - Throws: 400 when the model cannot do what the request asks for.
  func makeRun(
    _ request: ChatRequest, isEmpty: Bool = false, keepsCutCalls: Bool = true
  ) throws(APIError) -> AnswerRun {
    let request = scope.settled(request)
    let template = try scope.chatTemplate(for: request)
    let prompt = try promptToAnswer(request, template)
    var plan = PromptPlan(
      scope: scope, options: request.options, param: request.messagesField, topLogprobs: request.topLogprobs,
      promptLogprobs: request.options.promptLogprobs)
    let rules = AnswerGuide(
      scope: scope, request: request, template: template, isUnwanted: resolver.isUnwanted)
    let (isFree, makeGuide) = try rules.maker(prompt: prompt)
    if isFree { plan.guide = try makeGuide() }
    if request.options.promptTruncation != nil, !prompt.media.isEmpty {
      throw .unsupportedParameter("truncate_prompt_tokens", "the prompt holds images or audio")
    }
    let tokens = plan.truncated(prompt.tokens)
    scope.watch(tokens)
    plan.draft = request.prediction.map { scope.model.tokenizer.encode($0, addSpecialTokens: false) } ?? []
    let callable = rules.callableTools.map(\.json)
    var parts: [AnswerRun.Part] = []
    for choice in 0..<request.options.choices {
      var settings = TokenStream.Settings()
      settings.parser = template.format.makeParser(
        promptTail: prompt.text, tools: callable.isEmpty ? nil : callable)
      settings.stops = request.options.stops
      settings.includesStop = request.options.includesStop
      settings.isEmpty = isEmpty
      settings.keepsCutCalls = keepsCutCalls
      settings.hiddenTokens = plan.hiddenTokens.union(scope.controlTokens)
      settings.reportsLogprobs = request.topLogprobs != nil
      settings.allowsOneCallOnly = !request.allowsParallelCalls || isNamed(request.toolChoice)
      let stream = TokenStream(
        settings, detokenizer: scope.model.tokenizer.makeDetokenizer(skipSpecialTokens: false))
      parts.append(
        AnswerRun.Part(
          request: try plan.request(for: tokens, media: prompt.media, choice: choice), stream: stream,
          countsPrompt: choice == 0, tellsTokens: request.options.returnsTokens))
    }
    let run = AnswerRun(
      parts, scope: scope, makeGuide: isFree ? nil : makeGuide, receipt: scope.receipt(request.options))
    if !isEmpty, !scope.givesWay { run.remembersAnswer(behind: prompt.text) }
    if !isEmpty, let next = NextTurn(scope, request, template, prompt) {
      run.onEnd = { next.read(after: $0, tokens: $1) }
    }
    return run
  }

  private func isNamed(_ choice: ToolChoice) -> Bool { if case .named = choice { true } else { false } }

  /// The prompt of a request that is to be answered. Where the memory for it is not left, a user's text that is longer than
  /// the context is told as that.
  func promptToAnswer(_ request: ChatRequest, _ template: ChatTemplate) throws(APIError) -> ModelPrompt {
    do throws(APIError) {
      return try makePrompt(request, template)
    } catch {
      guard request.options.promptTruncation == nil else { throw error }
      // Texts of others may be left out by a template.
      let texts = request.messages.filter { $0["role"] == "user" }.map { $0["content"]?.longestText ?? "" }
      let longest = texts.max { $0.utf8.count < $1.utf8.count } ?? ""
      throw scope.telling(error, ofPrompt: longest, param: request.messagesField)
    }
  }

  /// - Throws: 499 when nobody waits any more. Who looks for what fits asks before each try.
  func checkIsWanted(_ request: ChatRequest) throws(APIError) {
    if resolver.isUnwanted() { throw APIError(AnswerFailure.clientGone, param: request.messagesField) }
  }

  /// The rendered and tokenized prompt, with room for what the request holds beside text.
  func makePrompt(_ request: ChatRequest, _ template: ChatTemplate) throws(APIError) -> ModelPrompt {
    var request = scope.settled(request)
    // Media must be in the order of the prompt.
    request.messages = Conversation.arranged(
      request.messages, opensAnswer: request.addsGenerationPrompt && !request.continuesFinalMessage)
    let indices = MediaPart.indices(in: request.messages)
    let parts = indices.filter(request.media.indices.contains).map { request.media[$0] }
    var passages: [MediaPassage] = []
    for part in parts { passages.append(try resolver.passage(of: part)) }
    let prompt = try render(request, template)
    let whole = ModelPrompt(
      prompt, passages: passages, rules: scope.model.media, tokenizer: scope.model.tokenizer)
    guard let whole else {
      throw .unsupportedValue(
        parts.first.map { "\($0.path).type" } ?? request.messagesField,
        "the chat template of the model '\(scope.model.id)' does not show this part where it stands")
    }
    return whole
  }

  func render(_ request: ChatRequest, _ template: ChatTemplate) throws(APIError) -> Prompt {
    let loan = try scope.claimForTokens(ofBytes: request.messages.reduce(0) { $0 + $1.textBytes })
    defer { withExtendedLifetime(loan) {} }
    var arguments = request.templateArguments
    if let thinking = request.thinking { arguments["enable_thinking"] = .bool(thinking) }
    if let effort = request.reasoningEffort { arguments["reasoning_effort"] = .string(effort) }
    do throws(ChatError) {
      return try scope.model.prompt(
        of: Conversation(
          messages: request.messages, tools: request.shownTools, templateArguments: arguments,
          addGenerationPrompt: request.addsGenerationPrompt,
          continueFinalMessage: request.continuesFinalMessage,
          isHistoryStrict: scope.settings.isHistoryStrict), template: template,
        tenant: scope.client.number)
    } catch {
      throw APIError(error, of: request)
    }
  }
}

extension JSONValue {
  /// Bytes of all texts in it.
  fileprivate var textBytes: Int {
    switch self {
    case .string(let text): text.utf8.count
    case .array(let elements): elements.reduce(0) { $0 + $1.textBytes }
    case .object(let object): object.entries.reduce(0) { $0 + $1.value.textBytes }
    case .null, .bool, .int, .bigInteger, .double: 0
    }
  }

  /// The longest text in it.
  fileprivate var longestText: String {
    func longest(_ texts: [String]) -> String { texts.max { $0.utf8.count < $1.utf8.count } ?? "" }
    return switch self {
    case .string(let text): text
    case .array(let elements): longest(elements.map(\.longestText))
    case .object(let object): longest(object.entries.map(\.value.longestText))
    case .null, .bool, .int, .bigInteger, .double: ""
    }
  }
}

extension RequestScope {
  /// The prompt of a request that is not run.
  ///
  /// - Throws: 400 when the model cannot be shown the request.
  func prompt(of request: ChatRequest) throws(APIError) -> ModelPrompt {
    // The way in which the model writes calls is of no interest.
    guard let template = model.template else { throw .noChatTemplate(model: model.id) }
    return try ChatPlan(self).makePrompt(request, template)
  }

  /// The request with what the model's owner has chosen where it says nothing.
  func settled(_ request: ChatRequest) -> ChatRequest {
    var request = request
    request.thinking = request.thinking ?? model.thinking
    return request
  }

  /// - Throws: 400 when the model has no template, or none for the request's tools.
  func chatTemplate(for request: ChatRequest) throws(APIError) -> ChatTemplate {
    guard let template = model.template else { throw .noChatTemplate(model: model.id) }
    guard request.tools.isEmpty || template.supportsTools else { throw .unsupportedTools(model: model.id) }
    return template
  }
}
