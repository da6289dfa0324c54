// The generations of one answer whose model may search files: it asks, the server searches, and it goes on with what was
// found until it has said all.

import Chat
import Decoding
import HTTP
import Inference
import JSON
import Pipeline
import Wire

/// Used by one thread.
///
/// No calls of the search are among its pieces, and of several generations only the last has a finish.
final class SearchingRun: AnswerSource {
  private(set) var current: AnswerRun?
  private var files: FileSearchRun
  private var request: ChatRequest
  private let scope: RequestScope
  private let isUnwanted: () -> Bool
  private let makeRun: Maker
  /// What earlier generations have used.
  private var usedBefore: Usage?
  /// Whether the search comes before the model, which knows no tools.
  private var searchesFirst = false
  /// Arguments of the search that the model is asking for.
  private var arguments: String?
  /// Searches that the model has asked for.
  private var asked: [String] = []
  private var splitter = CitationSplitter(count: 0)
  /// For each call of this generation whether it is a search.
  private var calls: [Bool] = []
  /// How this generation has ended.
  private var finish: TokenStream.End?

  /// Makes a generation of a request, not started.
  typealias Maker = (ChatRequest) throws(APIError) -> AnswerRun
  typealias Deliver = (Int, TokenStream.Piece) throws(SocketError) -> Void

  /// - Parameters:
  ///   - files: what is searched.
  ///   - isUnwanted: whether nobody waits for the answer any more.
  init(
    _ request: ChatRequest, _ scope: RequestScope, files: FileSearchRun, isUnwanted: @escaping () -> Bool,
    makeRun: @escaping Maker
  ) {
    (self.request, self.scope, self.files) = (request, scope, files)
    (self.isUnwanted, self.makeRun) = (isUnwanted, makeRun)
  }

  func start(param: String) throws(APIError) {
    guard scope.model.template?.supportsTools == false else { return try startRun() }
    searchesFirst = true
    withdrawSearch()
  }

  private func startRun() throws(APIError) {
    let next = try makeRun(request)
    try next.start(param: request.messagesField)
    current = next
  }

  var usageSoFar: Usage? {
    guard let own = current?.usage else { return usedBefore }
    return usedBefore.map { $0.adding(own) } ?? own
  }

  var searches: [JSONValue] { files.items }

  func citation(_ number: Int, at index: Int) -> FileCitation? { files.citation(number, at: index) }

  func run(
    _ context: ConnectionContext, isClientGone: () -> Bool, weight: ((TokenStream.Piece) -> Int)?,
    onSilence: () throws(SocketError) -> Void, deliver: Deliver
  ) throws(AnswerFailure) {
    defer { scope.metrics.add(citations: files.counts.made, invented: files.counts.invented) }
    if searchesFirst { try searchFirst(deliver) }
    while let current {
      try current.run(
        context, isClientGone: isClientGone, weight: weight, onSilence: onSilence,
        deliver: { (_, piece) throws(SocketError) in try take(piece, deliver) })
      // Calls of the client's functions are the client's to answer first.
      let hasCalls = calls.contains(false)
      let isLast = asked.isEmpty || hasCalls || files.left <= 0
      try tell { () throws(SocketError) in
        for piece in splitter.finish() { try tell(piece, [], deliver) }
        if isLast, let finish {
          try deliver(0, .finish(finish == .toolCalls && !hasCalls ? .stop : finish))
        }
      }
      files.add(invented: splitter.invented)
      guard !isLast else { return }
      usedBefore = usageSoFar
      for arguments in asked { try search(FileSearchRun.queries(arguments), deliver) }
      asked = []
      try goOn()
    }
  }

  private func tell(_ body: () throws(SocketError) -> Void) throws(AnswerFailure) {
    do throws(SocketError) {
      try body()
    } catch {
      throw .clientGone
    }
  }

  // MARK: Pieces

  private func take(
    _ piece: TokenStream.Piece, _ deliver: Deliver
  ) throws(SocketError) {
    switch piece {
    case .content(let text, let tokens) where !files.passages.isEmpty:
      var tokens = tokens
      for piece in splitter.add(text) {
        try tell(piece, tokens, deliver)
        if case .text = piece { tokens = [] }
      }
    case .toolCallBegan(let name):
      calls.append(name == FileSearchTool.name)
      if calls.last == true { arguments = "" } else { try deliver(0, piece) }
    case .toolCallArguments(let text) where arguments != nil: arguments?.append(text)
    case .toolCallEnded where arguments != nil:
      asked.append(arguments ?? "")
      arguments = nil
    case .toolCallsFailed(let count):
      // Searches that are none after all were told to nobody.
      let failed = calls.suffix(count)
      calls.removeLast(failed.count)
      let own = failed.count { $0 }
      asked.removeLast(min(asked.count, arguments == nil ? own : own - 1))
      arguments = nil
      if own < count { try deliver(0, .toolCallsFailed(count - own)) }
    case .finish(let end): finish = end
    default: try deliver(0, piece)
    }
  }

  private func tell(
    _ piece: CitationSplitter.Piece, _ tokens: [SampledToken], _ deliver: Deliver
  ) throws(SocketError) {
    switch piece {
    case .text(let text): try deliver(0, .content(text, tokens: tokens))
    case .citation(let number): try deliver(0, .search(.cited(number)))
    }
  }

  // MARK: Searches

  /// Makes a search and adds call and result to the conversation.
  private func search(
    _ queries: [String], _ deliver: Deliver
  ) throws(AnswerFailure) {
    let id = "fs_" + scope.settings.makeID()
    try tell { () throws(SocketError) in try deliver(0, .search(.began(id: id))) }
    let outcome = try files.search(id, queries, isUnwanted: isUnwanted)
    try tell { () throws(SocketError) in try deliver(0, .search(.ended(outcome.item))) }
    if searchesFirst {
      request.messages = Self.adding(outcome.text, to: request.messages)
    } else {
      request.messages.append(FileSearchMessages.message(of: outcome.full))
      request.messages.append(FileSearchMessages.result(of: outcome.full, outcome.text))
    }
  }

  /// The search for a model that knows no tools: what the user said last is looked for.
  private func searchFirst(_ deliver: Deliver) throws(AnswerFailure) {
    let user = request.messages.last { $0["role"] == "user" }?["content"]
    let parts = user?.arrayValue?.compactMap { $0["text"]?.stringValue } ?? [user?.stringValue ?? ""]
    try search([String(parts.joined(separator: " ").prefix(2_000))], deliver)
    searchesFirst = false
    try goOn()
  }

  /// The last user's message with passages before it.
  private static func adding(_ text: String, to messages: [JSONValue]) -> [JSONValue] {
    guard let index = messages.lastIndex(where: { $0["role"] == "user" }),
      var message = messages[index].objectValue
    else { return messages }
    if let parts = message["content"]?.arrayValue {
      message["content"] = .array([["type": "text", "text": .string(text + "\n\n")]] + parts)
    } else {
      message["content"] = .string(text + "\n\n" + (message["content"]?.stringValue ?? ""))
    }
    var changed = messages
    changed[index] = .object(message)
    return changed
  }

  /// The next generation, in which the model may search again as long as there are rounds.
  private func goOn() throws(AnswerFailure) {
    splitter = CitationSplitter(count: files.passages.count)
    (calls, finish, arguments) = ([], nil, nil)
    request.toolChoice = request.tools.isEmpty ? .none : .auto
    if files.left <= 0 { withdrawSearch() }
    current = nil
    do throws(APIError) {
      try startRun()
    } catch {
      throw isUnwanted() ? .clientGone : .refused(error)
    }
  }

  private func withdrawSearch() {
    request.tools.removeAll { $0.name == FileSearchTool.name }
    if request.tools.isEmpty { request.toolChoice = .none }
  }
}

extension RequestScope {
  /// The generations of a chat request; not started.
  ///
  /// - Parameters:
  ///   - searches: most searches of files, if that is fewer than usual.
  ///   - showsResults: whether the client is shown what was found.
  func source(
    _ request: ChatRequest, searches: Int? = nil, showsResults: Bool, isUnwanted: @escaping () -> Bool,
    makeRun: @escaping SearchingRun.Maker
  ) throws(APIError) -> any AnswerSource {
    guard let files = try FileSearchRun(request, self, most: searches, showsResults: showsResults) else {
      return try makeRun(request)
    }
    return SearchingRun(request, self, files: files, isUnwanted: isUnwanted, makeRun: makeRun)
  }
}
