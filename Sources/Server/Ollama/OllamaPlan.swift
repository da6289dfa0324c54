// From a request of Ollama's wire to the generation that answers it: what is dropped, and what its defaults are.

import Chat
import Decoding
import HTTP
import Inference
import JSON
import Pipeline
import Sampling
import Tokenizers
import Wire

struct OllamaPlan {
  private let scope: RequestScope
  private let request: OllamaRequest
  private let media: MediaResolver
  private var chat: ChatRequest
  /// Most tokens of prompt and answer together.
  private let limit: Int
  /// Old messages that did not fit.
  private(set) var dropped = 0
  /// How long a prompt is at least whose tokens there is no memory to count.
  private var uncounted: Int?
  /// Of a conversation.
  private(set) var promptText: String?

  /// What the other program does where neither the request nor the model's files say anything.
  private static let defaults: SamplingOverrides = [.temperature: 0.8, .topK: 40, .topP: 0.9]

  /// - Throws: 400 for what the model cannot do, and for what does not fit; 499 when nobody waits any more.
  init(
    _ request: OllamaRequest, _ scope: RequestScope, isUnwanted: @escaping () -> Bool
  ) throws(APIError) {
    (self.scope, self.request) = (scope, request)
    media = MediaResolver(scope, isUnwanted: isUnwanted)
    chat = request.chat
    limit = min(request.contextLimit ?? .max, scope.model.contextTokens)
    chat.options.sampling = Self.defaults.merging(scope.model.recommended).merging(chat.options.sampling)
    guard request.rawPrompt == nil else { return }
    try setThinking()
    let count = try fit()
    let room = max(1, limit - count)
    chat.options.maxTokens = request.onlyPrompt ? 1 : min(scope.answerLimit(chat.options), room)
  }

  /// Models that can reason do, unless told otherwise.
  private mutating func setThinking() throws(APIError) {
    let canThink = scope.model.template?.format.supportsReasoning ?? false
    if request.thinks == true, !canThink {
      throw APIError(
        status: 400, code: "unsupported_value", param: "think",
        message: "\"\(scope.model.id)\" does not support thinking")
    }
    if canThink { chat.thinking = request.thinks ?? scope.model.thinking ?? true }
  }

  // MARK: What fits

  /// Drops the oldest messages, but no system message and not the last one, until the prompt fits.
  ///
  /// - Returns: tokens of the prompt.
  private mutating func fit() throws(APIError) -> Int {
    let all = chat.messages
    let whole = try prompt()
    promptText = whole?.text
    if let whole, whole.tokens.count < limit { return whole.tokens.count }
    let droppable = all.indices.dropLast().filter { all[$0]["role"] != "system" }
    guard request.truncates, !droppable.isEmpty else { throw tooLong(whole?.tokens.count) }
    // The fewest that have to go: each try renders the whole conversation.
    var (few, many) = (1, droppable.count)
    var fitting: (ModelPrompt, [JSONValue], Int)?
    while few <= many {
      try ChatPlan(scope, media: media).checkIsWanted(chat)
      let count = (few + many) / 2
      let gone = Self.gone(count, of: droppable, in: all)
      chat.messages = all.enumerated().filter { !gone.contains($0.offset) }.map(\.element)
      if let shorter = try prompt(), shorter.tokens.count < limit {
        fitting = (shorter, chat.messages, gone.count)
        many = count - 1
      } else {
        few = count + 1
      }
    }
    guard let (shorter, messages, count) = fitting else { throw tooLong(whole?.tokens.count) }
    chat.messages = messages
    dropped = count
    promptText = shorter.text
    return shorter.tokens.count
  }

  /// The prompt of the messages that are left; nil where one of them is longer than the context and the memory to tell how
  /// long is not there.
  private mutating func prompt() throws(APIError) -> ModelPrompt? {
    guard let template = scope.model.template else { throw .noChatTemplate(model: scope.model.id) }
    do throws(APIError) {
      return try ChatPlan(scope, media: media).promptToAnswer(chat, template)
    } catch {
      guard let overflow = error.overflow else { throw error }
      uncounted = uncounted ?? overflow.tokens
      return nil
    }
  }

  /// Results whose call goes go with it.
  private static func gone(_ count: Int, of droppable: [Int], in messages: [JSONValue]) -> Set<Int> {
    var gone = Set(droppable.prefix(count))
    for index in droppable.dropFirst(count) {
      guard messages[index]["role"] == "tool" else { break }
      gone.insert(index)
    }
    return gone
  }

  private func tooLong(_ tokens: Int?) -> APIError {
    let overflow = ContextOverflow(
      tokens: tokens ?? uncounted ?? limit, limit: limit, isWhole: tokens != nil)
    let advice = limit < scope.model.contextTokens ? "Shorten it, or raise num_ctx." : "Shorten it."
    return APIError(
      status: 400, code: "context_length_exceeded", param: request.chat.messagesField,
      message: overflow.ollamaMessage(advice: advice))
  }

  // MARK: The generation

  func makeRun(_ context: ConnectionContext) throws(APIError) -> AnswerRun {
    if let raw = request.rawPrompt { return try makeRawRun(raw, context) }
    // Arguments are objects on this wire, and half of one is none.
    return try ChatPlan(scope, media: media).makeRun(
      chat, isEmpty: request.onlyPrompt, keepsCutCalls: false)
  }

  /// The tokens of text as it is, or of what is to be filled, and those that end the answer beside the model's own.
  private func rawTokens(_ text: String) throws(APIError) -> (tokens: [Int32], ends: Set<Int32>) {
    guard let suffix = request.suffix else {
      let loan = try scope.claimForTokens(ofPrompt: text, param: "prompt")
      let tokens = withExtendedLifetime(loan) { scope.model.tokenizer.encode(text, addSpecialTokens: true) }
      return (tokens, [])
    }
    guard scope.model.fill != nil else {
      throw APIError(
        status: 400, code: "unsupported_parameter", param: "suffix",
        message: "\"\(scope.model.id)\" does not support insert")
    }
    let (result, ends) = try scope.fill(prefix: text, suffix: suffix, maxTokens: chat.options.maxTokens)
    return (result.tokens, ends)
  }

  /// Text as it is.
  private func makeRawRun(_ text: String, _ context: ConnectionContext) throws(APIError) -> AnswerRun {
    let (tokens, ends) = try rawTokens(text)
    guard tokens.count < limit else { throw tooLong(tokens.count) }
    var options = chat.options
    options.maxTokens = request.onlyPrompt ? 1 : min(scope.answerLimit(options), limit - tokens.count)
    var plan = PromptPlan(scope: scope, options: options, param: "prompt", topLogprobs: chat.topLogprobs)
    plan.ends = ends
    let makeGuide = try scope.guideMaker(chat.format, options, isUnwanted: context.isClientGone)
    var settings = TokenStream.Settings()
    settings.stops = options.stops
    settings.isEmpty = request.onlyPrompt
    settings.reportsLogprobs = chat.topLogprobs != nil
    let stream = TokenStream(
      settings,
      detokenizer: scope.model.tokenizer.makeDetokenizer(skipSpecialTokens: true, isContinuation: true))
    let part = AnswerRun.Part(
      request: try plan.request(for: tokens, choice: 0), stream: stream, countsPrompt: true)
    return AnswerRun([part], scope: scope, makeGuide: makeGuide, receipt: scope.receipt(options))
  }
}
