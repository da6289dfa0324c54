// The generations of one answer between which the server works: the model asks, the server searches files and calls tools
// of other servers, and the model goes on with what came of it until it has said all.

import Chat
import Decoding
import HTTP
import Inference
import JSON
import Pipeline
import Wire

/// Used by one thread.
///
/// No calls that the server makes are among its pieces, and of several generations only the last has a finish.
final class RoundsRun: AnswerSource {
  private(set) var current: AnswerRun?
  private var files: FileSearchRun?
  private let remote: RemoteRun?
  /// Searches and calls that the client still lets the server make; nil for as many as it likes.
  private var callsLeft: Int?
  private var request: ChatRequest
  private let scope: RequestScope
  private let isUnwanted: () -> Bool
  private let makeRun: Maker
  /// What earlier generations have used.
  private var usedBefore: Usage?
  /// Whether the search comes before the model, which knows no tools.
  private var searchesFirst = false
  /// Something of the server that the model is asking for.
  private struct Asked {
    /// Of a tool of another server; nil for a search.
    var function: String?
    var arguments = ""
  }
  private var asking: Asked?
  /// What the model has asked for.
  private var asked: [Asked] = []
  private var splitter = CitationSplitter(count: 0)
  /// For each call of this generation whether the server makes it.
  private var calls: [Bool] = []
  /// How this generation has ended.
  private var finish: TokenStream.End?

  /// Makes a generation of a request, not started.
  typealias Maker = (ChatRequest) throws(APIError) -> AnswerRun
  typealias Deliver = (Int, TokenStream.Piece) throws(SocketError) -> Void

  /// - Parameters:
  ///   - files: what is searched.
  ///   - remote: whose tools are called.
  ///   - calls: most searches and calls together.
  ///   - isUnwanted: whether nobody waits for the answer any more.
  init(
    _ request: ChatRequest, _ scope: RequestScope, files: FileSearchRun?, remote: RemoteRun?, calls: Int?,
    isUnwanted: @escaping () -> Bool, makeRun: @escaping Maker
  ) {
    (self.request, self.scope, self.files, self.remote) = (request, scope, files, remote)
    (callsLeft, self.isUnwanted, self.makeRun) = (calls, isUnwanted, makeRun)
  }

  func start(param: String) throws(APIError) {
    // The client hears how servers are asked for their tools, which comes before the first generation.
    guard remote == nil else { return }
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

  var searches: [JSONValue] { files?.items ?? [] }

  func citation(_ number: Int, at index: Int) -> FileCitation? { files?.citation(number, at: index) }

  func run(
    _ context: ConnectionContext, isClientGone: () -> Bool, weight: ((TokenStream.Piece) -> Int)?,
    onSilence: () throws(SocketError) -> Void, deliver: Deliver
  ) throws(AnswerFailure) {
    defer {
      if let counts = files?.counts { scope.metrics.add(citations: counts.made, invented: counts.invented) }
    }
    if let remote { try begin(remote, onSilence, deliver) }
    if searchesFirst { try searchFirst(deliver) }
    while let current {
      try current.run(
        context, isClientGone: isClientGone, weight: weight, onSilence: onSilence,
        deliver: { (_, piece) throws(SocketError) in try take(piece, deliver) })
      try tell { () throws(SocketError) in
        for piece in splitter.finish() { try tell(piece, [], deliver) }
      }
      files?.add(invented: splitter.invented)
      // Calls of the client's functions are the client's to answer before anything is searched.
      let hasCalls = calls.contains(false)
      if hasCalls { asked.removeAll { $0.function == nil } }
      var goesOn = false
      if !asked.isEmpty { goesOn = try work(asked, onSilence, deliver) }
      guard goesOn, !hasCalls else {
        return try tell { () throws(SocketError) in
          if let finish { try deliver(0, .finish(finish == .toolCalls && !hasCalls ? .stop : finish)) }
        }
      }
      try goOn()
    }
  }

  /// Does what the model has asked for.
  ///
  /// - Returns: whether it can go on with what came of it.
  private func work(
    _ asked: [Asked], _ onSilence: () throws(SocketError) -> Void, _ deliver: Deliver
  ) throws(AnswerFailure) -> Bool {
    guard callsLeft ?? 1 > 0 else { return false }
    var (isDone, waits) = (false, false)
    for asked in asked where asked.function == nil && callsLeft ?? 1 > 0 && files?.left ?? 0 > 0 {
      try search(FileSearchRun.queries(asked.arguments), deliver)
      isDone = true
    }
    if let remote {
      let calls = asked.compactMap { asked in asked.function.flatMap { remote.call(of: $0, asked.arguments) }
      }
      if !calls.isEmpty, remote.left > 0, callsLeft ?? 1 > 0 {
        waits = try make(calls, remote, onSilence, deliver)
        isDone = true
      }
    }
    return isDone && !waits
  }

  // MARK: Tools of other servers

  /// Lists tools, and makes the calls that the client has said yes to.
  private func begin(
    _ remote: RemoteRun, _ onSilence: () throws(SocketError) -> Void, _ deliver: Deliver
  ) throws(AnswerFailure) {
    try remote.begin(&request) { (step) throws(AnswerFailure) in try tell(step, deliver) }
    let approved = remote.approved
    if !approved.isEmpty { _ = try make(approved, remote, onSilence, deliver) }
    withdraw()
    let tools = request.tools
    // A choice of other servers' tools leaves no others.
    if remote.isForced { request.tools.removeAll { !remote.has($0.name) } }
    try startNext()
    request.tools = tools
  }

  /// - Returns: whether the client is asked, so that the answer waits.
  private func make(
    _ calls: [RemoteRun.Call], _ remote: RemoteRun, _ onSilence: () throws(SocketError) -> Void,
    _ deliver: Deliver
  ) throws(AnswerFailure) -> Bool {
    let before = remote.left
    let (messages, asks) = try remote.make(
      calls, most: callsLeft ?? .max,
      onSilence: { () throws(AnswerFailure) in try tell(onSilence) },
      { (step) throws(AnswerFailure) in try tell(step, deliver) })
    callsLeft? -= before - remote.left
    request.messages += messages
    try remote.listChanges(&request) { (step) throws(AnswerFailure) in try tell(step, deliver) }
    return asks
  }

  private func tell(_ body: () throws(SocketError) -> Void) throws(AnswerFailure) {
    do throws(SocketError) {
      try body()
    } catch {
      throw .clientGone
    }
  }

  private func tell(_ step: TokenStream.SearchStep, _ deliver: Deliver) throws(AnswerFailure) {
    try tell { () throws(SocketError) in try deliver(0, .search(step)) }
  }

  // MARK: Pieces

  private func take(
    _ piece: TokenStream.Piece, _ deliver: Deliver
  ) throws(SocketError) {
    switch piece {
    case .content(let text, let tokens) where files?.passages.isEmpty == false:
      var tokens = tokens
      for piece in splitter.add(text) {
        try tell(piece, tokens, deliver)
        if case .text = piece { tokens = [] }
      }
    case .toolCallBegan(let name):
      if files != nil, name == FileSearchTool.name {
        asking = Asked()
      } else if remote?.has(name) == true {
        asking = Asked(function: name)
      }
      calls.append(asking != nil)
      if asking == nil { try deliver(0, piece) }
    case .toolCallArguments(let text) where asking != nil: asking?.arguments.append(text)
    case .toolCallEnded where asking != nil:
      if let asking { asked.append(asking) }
      asking = nil
    case .toolCallsFailed(let count):
      // Calls that are none after all were told to nobody.
      let failed = calls.suffix(count)
      calls.removeLast(failed.count)
      let own = failed.count { $0 }
      asked.removeLast(min(asked.count, asking == nil ? own : own - 1))
      asking = nil
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
    try tell(.began(id: id), deliver)
    guard let outcome = try files?.search(id, queries, isUnwanted: isUnwanted) else { return }
    callsLeft? -= 1
    try tell(.ended(outcome.item), deliver)
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
    splitter = CitationSplitter(count: files?.passages.count ?? 0)
    (calls, asked, finish, asking) = ([], [], nil, nil)
    request.toolChoice = request.tools.isEmpty ? .none : .auto
    withdraw()
    usedBefore = usageSoFar
    current = nil
    try startNext()
  }

  private func startNext() throws(AnswerFailure) {
    do throws(APIError) {
      try startRun()
    } catch {
      throw isUnwanted() ? .clientGone : .refused(error)
    }
  }

  /// Takes tools from the model that the server may use no more.
  private func withdraw() {
    let isOver = callsLeft ?? 1 <= 0
    if let files, isOver || files.left <= 0 { withdrawSearch() }
    if let remote, isOver || remote.left <= 0 { remote.withdraw(from: &request) }
    if request.tools.isEmpty { request.toolChoice = .none }
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
  ///   - calls: most searches of files and calls of other servers' tools, if that is fewer than usual.
  ///   - showsResults: whether the client is shown what was found.
  func source(
    _ request: ChatRequest, calls: Int? = nil, showsResults: Bool, isUnwanted: @escaping () -> Bool,
    makeRun: @escaping RoundsRun.Maker
  ) throws(APIError) -> any AnswerSource {
    let files = try FileSearchRun(request, self, most: calls, showsResults: showsResults)
    let remote = try RemoteRun(request, self, isUnwanted: isUnwanted)
    guard files != nil || remote != nil else { return try makeRun(request) }
    return RoundsRun(
      request, self, files: files, remote: remote, calls: calls, isUnwanted: isUnwanted, makeRun: makeRun)
  }
}
