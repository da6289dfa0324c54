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
final class SearchingRun {
  /// What comes of it, in order.
  enum Event {
    /// Of a choice. No calls of the search are among them, and of several generations only the last has a finish.
    case piece(Int, TokenStream.Piece)
    /// The passage of this number is cited where the content has come to.
    case citation(Int)
    /// A search begins.
    case searchBegan(id: String)
    case searchEnded(FileSearchRun.Outcome)
  }

  /// Generates; nil before a search that comes first.
  private(set) var run: AnswerRun?
  private var files: FileSearchRun?
  private var request: ChatRequest
  private let core: RequestContext
  private let isUnwanted: () -> Bool
  private let makeRun: Maker
  /// What earlier generations have used.
  private var usedBefore: Usage?
  /// Whether the search comes before the model, which knows no tools.
  private var searchesFirst = false
  /// Arguments of the search that the model is asking for.
  private var arguments: String?
  /// Searches that the model has asked for.
  private var searches: [String] = []
  private var splitter = CitationSplitter(count: 0)
  /// For each call of this generation whether it is a search.
  private var calls: [Bool] = []
  /// How this generation has ended.
  private var finish: TokenStream.End?

  /// Makes a generation of a request, not started.
  typealias Maker = (ChatRequest) throws(APIError) -> AnswerRun

  /// Starts the first generation.
  ///
  /// - Parameters:
  ///   - files: what is searched; nil where the model may search nothing.
  ///   - isUnwanted: whether nobody waits for the answer any more.
  /// - Throws: what is to be answered instead.
  init(
    _ request: ChatRequest, _ core: RequestContext, files: FileSearchRun?, isUnwanted: @escaping () -> Bool,
    makeRun: @escaping Maker
  ) throws(APIError) {
    (self.request, self.core, self.files) = (request, core, files)
    (self.isUnwanted, self.makeRun) = (isUnwanted, makeRun)
    if files != nil, core.model.template?.supportsTools == false {
      searchesFirst = true
      withdrawSearch()
      return
    }
    try startRun()
  }

  private func startRun() throws(APIError) {
    let next = try makeRun(request)
    try next.start(param: request.messagesField)
    run = next
  }

  /// Of all generations; nil before the first.
  var usage: Usage? {
    guard let own = run?.usage else { return usedBefore }
    return usedBefore.map { $0.adding(own) } ?? own
  }

  /// The searches' items with their results.
  var items: [JSONValue] { files?.items ?? [] }

  /// The citation of a passage; nil for a file that is cited there already.
  ///
  /// - Parameter index: Unicode scalars of the text before it.
  func citation(_ number: Int, at index: Int) -> FileCitation? { files?.citation(number, at: index) }

  /// Works to the end, as `AnswerRun.run` does.
  func run(
    _ context: ConnectionContext, isClientGone: () -> Bool, weight: ((TokenStream.Piece) -> Int)? = nil,
    onSilence: () throws(SocketError) -> Void = { () throws(SocketError) in },
    deliver: (Event) throws(SocketError) -> Void
  ) throws(AnswerFailure) {
    defer {
      if let counts = files?.counts {
        core.metrics.add(citations: counts.made, invented: counts.invented)
      }
    }
    if searchesFirst { try searchFirst(deliver) }
    while let run {
      try run.run(
        context, isClientGone: isClientGone, weight: weight, onSilence: onSilence,
        deliver: { (index, piece) throws(SocketError) in
          if files == nil {
            try deliver(.piece(index, piece))
          } else {
            try take(piece, deliver)
          }
        })
      guard files != nil else { return }
      // Calls of the client's functions are the client's to answer first.
      let hasCalls = calls.contains(false)
      let isLast = searches.isEmpty || hasCalls || (files?.left ?? 0) <= 0
      try tell { () throws(SocketError) in
        for piece in splitter.finish() { try tell(piece, [], deliver) }
        if isLast, let finish {
          try deliver(.piece(0, .finish(finish == .toolCalls && !hasCalls ? .stop : finish)))
        }
      }
      files?.add(invented: splitter.invented)
      guard !isLast else { return }
      usedBefore = usage
      for arguments in searches { try search(FileSearchRun.queries(arguments), deliver) }
      searches = []
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
    _ piece: TokenStream.Piece, _ deliver: (Event) throws(SocketError) -> Void
  ) throws(SocketError) {
    switch piece {
    case .content(let text, let tokens) where files?.passages.isEmpty == false:
      var tokens = tokens
      for piece in splitter.add(text) {
        try tell(piece, tokens, deliver)
        if case .text = piece { tokens = [] }
      }
    case .toolCallBegan(let name):
      calls.append(name == FileSearchTool.name)
      if calls.last == true { arguments = "" } else { try deliver(.piece(0, piece)) }
    case .toolCallArguments(let text) where arguments != nil: arguments?.append(text)
    case .toolCallEnded where arguments != nil:
      searches.append(arguments ?? "")
      arguments = nil
    case .toolCallsFailed(let count):
      // Searches that are none after all were told to nobody.
      let failed = calls.suffix(count)
      calls.removeLast(failed.count)
      let own = failed.count { $0 }
      searches.removeLast(min(searches.count, arguments == nil ? own : own - 1))
      arguments = nil
      if own < count { try deliver(.piece(0, .toolCallsFailed(count - own))) }
    case .finish(let end): finish = end
    default: try deliver(.piece(0, piece))
    }
  }

  private func tell(
    _ piece: CitationSplitter.Piece, _ tokens: [SampledToken], _ deliver: (Event) throws(SocketError) -> Void
  ) throws(SocketError) {
    switch piece {
    case .text(let text): try deliver(.piece(0, .content(text, tokens: tokens)))
    case .citation(let number): try deliver(.citation(number))
    }
  }

  // MARK: Searches

  /// Makes a search and adds call and result to the conversation.
  private func search(
    _ queries: [String], _ deliver: (Event) throws(SocketError) -> Void
  ) throws(AnswerFailure) {
    let id = "fs_" + core.settings.makeID()
    try tell { () throws(SocketError) in try deliver(.searchBegan(id: id)) }
    guard let outcome = try files?.search(id, queries, isUnwanted: isUnwanted) else { return }
    try tell { () throws(SocketError) in try deliver(.searchEnded(outcome)) }
    if searchesFirst {
      request.messages = Self.adding(outcome.text, to: request.messages)
    } else {
      request.messages.append(FileSearchMessages.message(of: outcome.full))
      request.messages.append(FileSearchMessages.result(of: outcome.full, outcome.text))
    }
  }

  /// The search for a model that knows no tools: what the user said last is looked for.
  private func searchFirst(_ deliver: (Event) throws(SocketError) -> Void) throws(AnswerFailure) {
    let asked = request.messages.last { $0["role"] == "user" }?["content"]
    let parts = asked?.arrayValue?.compactMap { $0["text"]?.stringValue } ?? [asked?.stringValue ?? ""]
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
    splitter = CitationSplitter(count: files?.passages.count ?? 0)
    (calls, finish, arguments) = ([], nil, nil)
    request.toolChoice = request.tools.isEmpty ? .none : .auto
    if (files?.left ?? 0) <= 0 { withdrawSearch() }
    run = nil
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
