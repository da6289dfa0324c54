// One model that a program holds: its engine, the routes over it, and the server that it may have.

import HTTP
import Inference
import JSON
import Pipeline
package import Platform
import Server
import Wire

/// Has the heap give back what it keeps when it goes.
private final class HeapTrimming: Sendable {
  deinit { Machine.trimHeap() }
}

/// A model from its loading to its end, for any thread.
package final class HostedModel: Sendable {
  private enum Phase {
    case open, closing, closed
  }

  private struct State {
    var phase = Phase.open
    /// Requests without a socket that are being answered.
    var requests = 0
  }

  /// The folder, links resolved.
  package let folder: String
  let model: LoadedModel
  let loaded: ModelHost.Loaded
  private let host: ModelHost
  private let app: App
  private let state = Monitor(State())
  /// The last one: what is declared before it, such as the tokenizer, is gone when it goes.
  private let trimming = HeapTrimming()

  /// What a request that came without a socket may take to end when its model is closed, seconds.
  private static let graceSeconds = 1.0

  /// Opens a folder. Blocks until the model is in memory.
  package init(
    _ folder: String, _ options: ModelOptions = ModelOptions(), host: ModelHost = .shared
  ) throws(MLXServeError) {
    try options.check()
    let loaded = try host.obtain(folder, options)
    var model = loaded.resident.loaded
    model.id = options.id ?? model.id
    model.created = Int(Instant.wallSeconds)
    model.thinking = options.thinking
    (self.host, self.loaded) = (host, loaded)
    self.folder = loaded.key.path.string
    self.model = model
    app = Self.makeApp(loaded, model, ServerSettings())
  }

  deinit { close() }

  /// The name by which requests name it.
  package var id: String { model.id }
  /// Most tokens of a prompt and what follows it.
  var contextLength: Int { model.contextTokens }

  /// Routes over this model alone, under the name that it has there.
  static func makeApp(_ loaded: ModelHost.Loaded, _ model: LoadedModel, _ settings: ServerSettings) -> App {
    var settings = settings
    settings.started = model.created
    settings.version = Version.text
    var resident = loaded.resident
    resident.loaded = model
    return App(ModelFleet(resident, settings: loaded.fleet), settings: settings)
  }

  /// Frees the model once; requests that came without a socket end first. Its servers are to be stopped before.
  package func close() {
    let isFirst = state.update { state in
      guard state.phase == .open else { return false }
      state.phase = .closing
      return true
    }
    guard isFirst else { return }
    _ = state.wait(until: Instant.now.adding(seconds: Self.graceSeconds)) { $0.requests == 0 ? true : nil }
    app.finish(seconds: 0)
    host.release(loaded.key)
    state.update { $0.phase = .closed }
  }

  private func enter() throws(MLXServeError) {
    let isOpen = state.withLock { state in
      if state.phase == .open { state.requests += 1 }
      return state.phase == .open
    }
    guard isOpen else { throw MLXServeError(.modelNotFound, "the model is unloaded") }
  }

  private func leave() { state.update { $0.requests -= 1 } }

  /// Keeps the model for as long as `body` runs, or a moment less when it is closed meanwhile.
  func working<Value>(_ body: () throws -> Value) throws -> Value {
    try enter()
    defer { leave() }
    return try body()
  }

  /// Whether requests that came without a socket are to end.
  package var isClosing: Bool { state.withLock { $0.phase != .open } }

  /// Something to claim the memory of an answer with, below the limit of all models.
  package func makeLoan() -> MemoryLoan { makeLoan(for: .answers) }

  /// Claims what a body takes until it is answered; nil where there is no room for it.
  package func claim(bodyOf count: Int) -> MemoryLoan? {
    let loan = makeLoan(for: .requestBodies)
    return loan.extend(by: BodyBudget.copies * count) ? loan : nil
  }

  private func makeLoan(for kind: MemoryKind) -> MemoryLoan {
    MemoryLoan(loaded.fleet.ledger, for: kind, patience: BodyBudget.patience)
  }

  /// What a receipt says, against what the model takes.
  func check(_ text: String, _ media: [[UInt8]], isUnwanted: () -> Bool) throws -> ReceiptFinding {
    let found = (try? JSONValue(parsing: text)).map { Receipt.all(in: $0) } ?? []
    guard let receipt = found.first else { throw PipelineError.receipt("the text holds no receipt") }
    return try working {
      let passages = media.compactMap { receipt.passage(of: $0, for: model.media) }
      guard let report = try model.check(receipt, media: passages, isUnwanted: isUnwanted) else {
        throw MLXServeError(.modelNotFound, "the model is unloaded")
      }
      return ReceiptFinding(
        isSame: report.isSame, tokens: report.tokens, differsAt: report.difference?.index,
        words: report.words)
    }
  }

  // MARK: Requests without a socket

  /// What is left of a response whose body has been handed on.
  package struct Answer: Sendable {
    /// As in HTTP.
    package let status: Int
    package let headers: [(name: String, value: String)]
  }

  /// Answers one request as the server would, on the calling thread.
  ///
  /// - Parameters:
  ///   - body: claimed by the caller (`claim(bodyOf:)`), who may have had to copy it.
  ///   - isGone: whether nobody wants the answer any more; asked between tokens.
  ///   - deliver: gets the body, piece by piece as it is made; false ends the answer.
  /// - Throws: for a request that could not be one of HTTP, and for a model that is closed.
  package func answer(
    _ method: String, _ target: String, body: [UInt8], isGone: @escaping () -> Bool = { false },
    deliver: @escaping (_ bytes: [UInt8]) -> Bool
  ) throws(MLXServeError) -> Answer {
    try enter()
    defer { leave() }
    let request: Request
    do throws(HTTPError) {
      request = try Request(method, target, headers: ["content-type": "application/json"], body: body)
    } catch {
      throw MLXServeError(.invalidArgument, "\(error)", setting: "path")
    }
    var stopped = false
    let context = ConnectionContext(
      requestID: ConnectionContext.freshRequestID(), isClientGone: { stopped || isGone() },
      phase: { [state] in state.withLock { $0.phase == .open ? .running : .expired } })
    context.memory = makeLoan()
    let response = app.respond(to: request, context)
    let writer = BodyWriter(
      gone: { stopped || isGone() },
      output: { (bytes, _) throws(SocketError) in
        guard !stopped, bytes.isEmpty || deliver(bytes) else {
          stopped = true
          throw .clientGone
        }
      })
    switch response.body {
    case .bytes(let bytes): writer.finish(bytes)
    // What it throws is that the reader has left, who knows.
    case .stream(let write): try? write(writer)
    case .upgrade: throw MLXServeError(.invalidArgument, "WebSockets need a server", setting: "path")
    }
    return Answer(
      status: response.status, headers: response.headers.fields.map { ($0.name, $0.text) })
  }
}

/// A model's server, from its first connection to its last.
package final class HostedServer: Sendable {
  private let server: Host
  package let host: String
  package let port: Int
  /// The name by which requests name the model.
  package let modelID: String
  private let isStopped = Monitor(false)

  /// How long answers have for a last word when the server is stopped, seconds.
  private static let graceSeconds = 1.0

  /// Listens from now on.
  package init(_ hosted: HostedModel, _ options: ServerOptions) throws(MLXServeError) {
    try options.check()
    var model = hosted.model
    model.id = options.modelID ?? model.id
    let metrics = Metrics()
    var settings = ServerSettings()
    settings.metrics = metrics
    settings.queueLimit = options.queueLimit
    let app = HostedModel.makeApp(hosted.loaded, model, settings)
    do {
      var access = Access.Settings()
      for key in options.apiKeys { try access.keys.add(key, source: "the program") }
      access.hosts = HostRules(bind: options.host, machine: Machine.name)
      access.origins = OriginRules(allowed: options.origins)
      server = Host(access: try Access(access), metrics: metrics)
      server.open(app)
      var place = Listener.Configuration()
      (place.host, place.port, place.limits) = (options.host, options.port, options.limits(for: model))
      place.ledger = hosted.loaded.fleet.ledger
      port = try server.listen(place).first?.port ?? options.port
    } catch let error as SocketError {
      throw MLXServeError(listening: error)
    } catch let error as PlatformError {
      throw MLXServeError(.failed, "\(error)")
    } catch {
      throw MLXServeError(.invalidArgument, "\(error)", setting: "api_key")
    }
    host = options.host
    modelID = model.id
  }

  deinit { stop() }

  /// Where clients find it, without the `/v1` of OpenAI's.
  package var baseURL: String { "http://\(Endpoint(address: host, port: port))" }

  /// Ends it: answers under way get a last word, then connections are cut. Further calls wait for the first.
  package func stop() {
    let isFirst = isStopped.withLock { isStopped in
      defer { isStopped = true }
      return !isStopped
    }
    guard isFirst else { return server.waitUntilStopped() }
    server.stop(drainSeconds: 0, graceSeconds: Self.graceSeconds)
    server.finish(seconds: 0)
  }
}
