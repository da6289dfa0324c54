// The application: the tables of routes over the served models. `App` knows no sockets; `Host` calls `answer`.

package import HTTP
import JSON
import MCP
package import Pipeline
import Platform
import Wire

/// The routes over the served models, without sockets.
package final class App: Sendable {
  private let router: Router
  let operations: [Operation]
  private let jobs = ResponseJobs()
  private let archive: Archive?
  private let worker: ArchiveWorker?
  private let batches: BatchWorker?
  private let metrics: Metrics
  private let readAhead: ReadAhead?
  private let documents: DocumentReader
  private let toolServers: ToolServers?
  private let records: Bool

  /// The wires that write errors in a shape of their own.
  private static let wires: [Wire] = [.messages, .ollama, .llama, .tei, .mcp]

  /// The wire whose words the answers to a request are in.
  static func wire(of request: Request?) -> Wire {
    guard let request else { return .openAI }
    return (wires.first { $0.owns(request.path) } ?? .openAI).asked(by: request)
  }

  /// HTTP's own errors in the words of the request's path, as far as there is a request.
  static let errors = ErrorFormat(contentType: "application/json") { error, request, context in
    wire(of: request).json(APIError(error), context?.requestID ?? "").bytes
  }

  /// One model that is always there.
  package convenience init(_ model: LoadedModel, settings: ServerSettings = ServerSettings()) {
    self.init(ModelFleet(ResidentModel(model)), settings: settings)
  }

  /// Models that come and go.
  package init(_ models: ModelFleet, settings: ServerSettings = ServerSettings()) {
    let server = ServerContext(models: models, settings: settings)
    models.addGauge(.storedResponses) { settings.store.byteCount }
    archive = settings.archive
    metrics = settings.metrics
    readAhead = server.readAhead
    documents = server.documents
    toolServers = settings.toolServers
    readAhead?.start()
    records = settings.recorder != nil
    worker = settings.archive.map { ArchiveWorker($0, models: models) }
    if let archive = settings.archive { models.addGauge(.searchIndexes) { archive.memoryBytes } }
    worker?.resume()
    batches = settings.archive.map { BatchWorker(BatchStore($0), models: models) }
    var router = Router()
    router.errors = Self.errors
    router.root = "v1"
    var tables = [
      HealthRoute.table(server), MetricsRoute.table(server), ChatRoute.table(server),
      StoredChatRoute.table(server), LlamaRoute.table(server),
      CompletionsRoute.table(server), EmbeddingsRoute.table(server), ModelsRoute.table(server),
      ModelEventsRoute.table(server),
      PullRoute.table(server), MessagesRoute.table(server), OllamaRoute.table(server),
      StudioRoute.table(server),
      TokenizeRoutes.table(server), ReceiptsRoute.table(server), PeerRoutes.table(server),
      RerankRoute.table(server), TranscriptionsRoute.table(server),
      TEIRoutes.table(server),
      ResponsesRoute.table(server, jobs), ConversationsRoute.table(server), DebugRoute.table(server),
      FilesRoute.table(server), UploadsRoute.table(server), VectorStoresRoute.table(server, worker),
      MCPRoute.table(server, worker), ToolServersRoute.table(server),
      BatchesRoute.table(server, batches), MessageBatchesRoute.table(server, batches),
    ]
    // These two tell of all routes, and of themselves.
    func telling(of operations: [Operation]) -> [RouteTable] {
      [OpenAPIRoute.table(server, operations), CapabilitiesRoute.table(server, operations)]
    }
    operations = (tables + telling(of: [])).flatMap(\.operations)
    tables += telling(of: operations)
    for table in tables { router.add(table) }
    self.router = router
    batches?.resume { [router] in router.respond(to: $0, $1) }
    // Routes know the reader: whoever holds them here would hold itself.
    documents.resume { [weak self] in
      self?.router.respond(to: $0, $1) ?? Response(json: [:], status: 500)
    }
  }

  /// Method and pattern of every route.
  package var routes: [(method: String, pattern: String)] { router.routes.map { ($0.method, $0.pattern) } }

  /// Gives responses in the background some time to finish, then fails them. Called when no connection is left.
  package func finish(seconds: Double) {
    // What is answered of a batch is kept, and the rest is asked again by the next process.
    batches?.stop()
    readAhead?.stop()
    documents.stop()
    jobs.stop(seconds: seconds)
    toolServers?.end()
    worker?.stop()
    archive?.stop()
  }

  /// The response to a request that came without a socket: nobody has to be let in, and no listener adds anything.
  package func respond(to request: Request, _ context: ConnectionContext) -> Response {
    Self.wire(of: request).finished(
      screen(request, context) ?? answer(request, context), requestID: context.requestID)
  }

  /// Ends what is done in the background for these keys: responses, batches, the indexing of files.
  func cut(keys: Set<UInt64>) {
    jobs.cut(keys: keys)
    batches?.store.cut(keys: keys)
    archive?.cut(keys: keys)
    documents.cut(keys: keys)
  }

  /// The keys for which work of an earlier process goes on.
  var keysAtWork: Set<UInt64> { batches?.store.keysAtWork ?? [] }

  /// The response to a request whose body has been read. Blocks while the answer is computed.
  func answer(_ request: Request, _ context: ConnectionContext) -> Response {
    context.agent = request.headers["user-agent"]
    do throws(APIError) {
      let request = try request.unpacked(context)
      if records { context.recorded = request }
      return counted(router.respond(to: request, context), context)
    } catch {
      var response = Self.wire(of: request).response(error, requestID: context.requestID)
      if error.status == 415 { response.headers.add("accept-encoding", "gzip") }
      return response
    }
  }

  /// The response, after a client that has left without one is counted. Whoever left while an answer was made is counted
  /// there; others left a queue, or while a prompt was prepared.
  private func counted(_ response: Response, _ context: ConnectionContext) -> Response {
    if response.status == APIError.clientGoneStatus,
      !context.facts.contains(where: { $0.name == LogField.aborted }),
      let model = context.facts.first(where: { $0.name == LogField.model })
    {
      metrics.add(aborted: .clientGone, model: model.value)
      context.tell(LogField.aborted, AbortReason.clientGone.rawValue)
    }
    return response
  }

  /// The answer that needs no body: there is no such route or method.
  func screen(_ request: Request, _ context: ConnectionContext) -> Response? {
    router.screen(request, context)
  }
}
