// From the body of a Responses request to what is to be generated.

import Chat
import HTTP
import Inference
import JSON
import Pipeline
import Sampling
import Tokenizers
import Wire

/// A request that has been understood: what it says, what came before it, and the response it begins.
struct ResponsePlan: Sendable {
  var request: ResponsesRequest
  var chat: ChatRequest
  /// Items of earlier turns.
  var context: [JSONValue]
  /// The request's own items.
  var input: [JSONValue]
  /// The response before it has begun.
  var body: JSONObject
  /// What had no effect, for the header.
  var ignored: [String]

  var id: String { body["id"]?.stringValue ?? "" }
}

struct ResponsesPlanner {
  let scope: RequestScope
  private let records: ClientRecords
  /// Finds the response that `previous_response_id` names.
  let find: (String) -> StoredResponse?

  init(_ scope: RequestScope, find: ((String) -> StoredResponse?)? = nil) {
    self.scope = scope
    let records = scope.records
    self.records = records
    self.find = { id in find?(id) ?? records.response(id) }
  }

  /// - Throws: the first problem that can be known without a prompt, in terms of the body.
  func plan(_ body: JSONValue, isMessage: Bool = false) throws(APIError) -> ResponsePlan {
    var request = try ResponsesRequest(
      body, isMessage: isMessage, limits: scope.limits, vocabularySize: scope.model.vocabularySize)
    // Answers say the model's own name, also to those who asked by another.
    request.model = scope.model.id
    try scope.server.checkUnknown(request.unknown)
    let context = try earlierItems(request)
    var input = ResponsesInput()
    if let value = request.input {
      do throws(APIError) {
        input = try ResponsesItemReader(
          limits: scope.limits, makeID: scope.settings.makeID, resolve: resolver(context)
        ).read(value)
      } catch {
        try records.check()
        throw error
      }
    }
    let files = RequestFiles(scope)
    var shown = input
    shown.items = try files.read(input.items) { input.paths[$0] }
    let chat = try request.chatRequest(
      context: files.read(context) { _ in "input" }, input: shown, limits: scope.limits)
    let responseBody = request.responseBody(
      id: "resp_" + scope.settings.makeID(), createdAt: scope.settings.now(),
      sampling: scope.model.sampling.merging(chat.options.sampling))
    return ResponsePlan(
      request: request, chat: chat, context: context, input: input.items, body: responseBody,
      ignored: request.unknown + request.unused + chat.dropped + input.unused + (chat.format?.notes ?? []))
  }

  private func resolver(_ context: [JSONValue]) -> (String) -> JSONValue? {
    { id in
      context.last { $0.hasID(id) } ?? records.item(id)
    }
  }

  private func earlierItems(_ request: ResponsesRequest) throws(APIError) -> [JSONValue] {
    if let id = request.previousResponseID {
      guard let previous = find(id) else {
        try records.check()
        throw .previousResponseNotFound(id)
      }
      guard !previous.isRunning else {
        throw .invalidValue("previous_response_id", "the response '\(id)' has not ended")
      }
      scope.model.written.add(previous.written, tenant: scope.client.number)
      return previous.conversation
    }
    if let id = request.conversationID {
      guard let conversation = records.conversation(id) else {
        try records.check()
        throw .conversationNotFound(id)
      }
      scope.model.written.add(conversation.written, tenant: scope.client.number)
      return conversation.items
    }
    return []
  }
}

// MARK: The prompt

extension ResponsePlan {
  /// The generation, not started. With `truncation: auto` old messages are dropped first if they must be.
  ///
  /// - Parameter chat: the plan's, with what was found meanwhile.
  func makeRun(
    _ chat: ChatRequest, _ scope: RequestScope, media: MediaResolver
  ) throws(APIError) -> AnswerRun {
    let plan = ChatPlan(scope, media: media)
    do throws(APIError) {
      return try plan.makeRun(chat)
    } catch {
      guard request.truncates, error.code == "context_length_exceeded",
        let shorter = try truncated(chat, scope, plan)
      else { throw error }
      return try plan.makeRun(shorter)
    }
  }

  /// Tokens of the prompt, however many the model can take.
  ///
  /// - Throws: 400 when the model cannot be shown the request, in terms of the body.
  func promptTokens(_ scope: RequestScope) throws(APIError) -> Int {
    try scope.prompt(of: chat).tokens.count
  }

  /// The request with as few of the oldest messages left out as makes room for an answer; nil when not even
  /// the last one fits.
  ///
  /// System messages stay, calls stay with their results, and whole turns go before parts of the last one.
  private func truncated(
    _ chat: ChatRequest, _ scope: RequestScope, _ plan: ChatPlan
  ) throws(APIError) -> ChatRequest? {
    guard let template = scope.model.template else { return nil }
    try plan.checkIsWanted(chat)
    let context = scope.model.contextTokens
    // A quarter of the context at most is kept free for the answer.
    let room = max(1, min(chat.options.maxTokens ?? .max, context / 4))
    func candidate(from start: Int) -> ChatRequest {
      var shorter = chat
      shorter.messages = chat.messages.enumerated().filter { index, message in
        index >= start || message["role"] == "system" || message["role"] == "developer"
      }.map(\.element)
      return shorter
    }
    func fits(_ request: ChatRequest) -> Bool {
      guard let prompt = try? plan.makePrompt(request, template) else { return false }
      return prompt.tokens.count <= context - room
    }
    let starts = Self.turnStarts(chat.messages)
    var low = try firstPossible(chat.messages, starts, budget: context - room, scope)
    var high = starts.count
    while low < high {
      try plan.checkIsWanted(chat)
      let middle = (low + high) / 2
      if fits(candidate(from: starts[middle])) { high = middle } else { low = middle + 1 }
    }
    guard low < starts.count else { return starts.last.map(candidate) }
    return candidate(from: starts[low])
  }

  /// Which start is the first that can fit, by the texts alone: counted from the end, so that a conversation far
  /// beyond the context is never rendered whole again.
  private func firstPossible(
    _ messages: [JSONValue], _ starts: [Int], budget: Int, _ scope: RequestScope
  ) throws(APIError) -> Int {
    var tokens = 0
    var end = messages.count
    for (position, start) in starts.enumerated().reversed() {
      for message in messages[start..<end] {
        guard let text = message["content"]?.stringValue else { continue }
        do throws(APIError) {
          let loan = try scope.claimForTokens(ofPrompt: text, param: "input")
          tokens += withExtendedLifetime(loan) {
            scope.model.tokenizer.encode(text, addSpecialTokens: false).count
          }
        } catch {
          guard error.code == "context_length_exceeded" else { throw error }
          return position + 1
        }
      }
      if tokens > budget { return position + 1 }
      end = start
    }
    return 0
  }

  /// Where a shortened conversation may begin, in order; the first message of all is none of these.
  static func turnStarts(_ messages: [JSONValue]) -> [Int] {
    let lastUser = messages.lastIndex { $0["role"] == "user" } ?? 0
    return messages.indices.dropFirst().filter { index in
      let role = messages[index]["role"]
      return role == "user" || (index > lastUser && role == "assistant")
    }
  }
}

extension APIError {
  static func previousResponseNotFound(_ id: String) -> APIError {
    APIError(
      status: 400, code: "previous_response_not_found", param: "previous_response_id",
      message: "Previous response with id '\(shortened(id))' not found.")
  }

  static func responseNotFound(_ id: String) -> APIError {
    APIError(status: 404, code: nil, message: "Response with id '\(shortened(id))' not found.")
  }

  static func conversationNotFound(_ id: String) -> APIError {
    APIError(status: 404, code: nil, message: "Conversation with id '\(shortened(id))' not found.")
  }

  static func itemNotFound(_ id: String) -> APIError {
    APIError(status: 404, code: nil, message: "Item with id '\(shortened(id))' not found.")
  }
}
