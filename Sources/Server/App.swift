// The application: routes over the served models. `App` knows no sockets; `FrontDoor` calls `answer`.

import HTTP
package import Inference
import JSON
package import OpenAI
import Platform

/// The routes over the served models, without sockets.
package final class App: Sendable {
  /// What the operator has chosen, and what tests replace.
  package struct Settings: Sendable {
    /// The member that holds reasoning text.
    package var reasoningField = ReasoningField.reasoningContent
    /// Whether a field that nobody knows is refused instead of being named in a header.
    package var strictParameters = false
    /// How reasoning is written into Responses streams.
    package var responsesReasoningEvents = ReasoningEvents.openai
    /// Whether Responses requests lose their tools of unknown type instead of being refused.
    package var dropsUnknownTools = false
    /// Responses and conversations; in memory by default.
    package var store = ResponseStore()
    /// Silence on a stream after which a comment shows that it lives, seconds.
    package var keepAliveSeconds = 1.0
    /// How often a waiting connection looks whether its client is still there, seconds.
    package var pollSeconds = 0.025
    /// What is counted, for /metrics.
    package var metrics = Metrics()
    /// The folder whose files `file://` URLs may name; nil for none.
    package var mediaRoot: String?
    /// What http and https URLs may name; nil for nothing.
    package var mediaURLs: MediaURLRules?
    /// Seconds since 1970 when the server started: `created` of models.
    package var started: Int?
    /// Of the server, for /openapi.json.
    package var version = "0.0.0"
    /// What /debug/state tells of the engine; without it that route does not exist.
    package var engineStatistics: (@Sendable () -> EngineStatistics)?
    /// Makes the random part of ids; replaced in tests.
    package var makeID: @Sendable () -> String = { RandomID.make(24) }
    /// Seconds since 1970, for `created`.
    package var now: @Sendable () -> Int = { Int(Instant.wallSeconds) }

    package init() {}
  }

  private let router: Router
  private let jobs: ResponseJobs
  private let ledger: MemoryLedger
  /// HTTP's own errors in the shape of the API.
  static let errors = ErrorFormat(contentType: "application/json") { APIError($0).json.bytes }

  /// One model that is always there.
  package convenience init(_ model: ServedModel, settings: Settings = Settings()) {
    self.init(ModelFleet(model), settings: settings)
  }

  /// Models that come and go.
  package init(_ models: ModelFleet, settings: Settings = Settings()) {
    let host = AppHost(models: models, settings: settings)
    models.addGauge(.storedResponses) { settings.store.byteCount }
    var router = Router()
    router.errors = Self.errors
    HealthRoute.register(on: &router)
    MetricsRoute.register(on: &router, host)
    router.on("POST", "/v1/chat/completions") { request, context in
      Self.answer { () throws(APIError) in try ChatRoute(host).respond(to: request, context) }
    }
    router.on("POST", "/v1/completions") { request, context in
      Self.answer { () throws(APIError) in try CompletionsRoute(host).respond(to: request, context) }
    }
    Self.addModels(host, to: &router)
    Self.addMessages(host, to: &router)
    Self.addUtilities(host, to: &router)
    ResponsesRoute.register(on: &router, host)
    ConversationsRoute.register(on: &router, host)
    if let statistics = settings.engineStatistics {
      router.on("GET", "/debug/state") { _, _ in DebugRoute.respond(statistics()) }
    }
    self.router = router
    jobs = host.jobs
    ledger = models.ledger
  }

  /// Which models there are, and which of them are in memory.
  private static func addModels(_ host: AppHost, to router: inout Router) {
    // Clients of llama.cpp's router know the second path.
    for path in ["/v1/models", "/models"] {
      router.on("GET", path) { _, _ in ModelsRoute(host).list() }
    }
    router.on("GET", "/v1/models/:id") { request, _ in
      Self.answer { () throws(APIError) in try ModelsRoute(host).retrieve(request.parameter("id") ?? "") }
    }
    // Some clients do not escape the slash of an id.
    router.on("GET", "/v1/models/:owner/:name") { request, _ in
      let id = [request.parameter("owner") ?? "", request.parameter("name") ?? ""].joined(separator: "/")
      return Self.answer { () throws(APIError) in try ModelsRoute(host).retrieve(id) }
    }
    router.on("POST", "/models/load") { request, _ in
      Self.answer { () throws(APIError) in try ModelsRoute(host).load(request) }
    }
    router.on("POST", "/models/unload") { request, _ in
      Self.answer { () throws(APIError) in try ModelsRoute(host).unload(request) }
    }
  }

  /// Anthropic's wire.
  private static func addMessages(_ host: AppHost, to router: inout Router) {
    router.on("POST", "/v1/messages") { request, context in
      Self.answer { () throws(APIError) in try MessagesRoute(host).respond(to: request, context) }
    }
    router.on("POST", "/v1/messages/count_tokens") { request, _ in
      Self.answer { () throws(APIError) in try MessagesRoute(host).countTokens(request) }
    }
  }

  /// What is around the answers.
  private static func addUtilities(_ host: AppHost, to router: inout Router) {
    router.on("POST", "/v1/chat/completions/input_tokens") { request, _ in
      Self.answer { () throws(APIError) in try TokenizeRoutes(host).countInput(request) }
    }
    router.on("POST", "/tokenize") { request, _ in
      Self.answer { () throws(APIError) in try TokenizeRoutes(host).tokenize(request) }
    }
    router.on("POST", "/detokenize") { request, _ in
      Self.answer { () throws(APIError) in try TokenizeRoutes(host).detokenize(request) }
    }
    router.on("POST", "/apply-template") { request, _ in
      Self.answer { () throws(APIError) in try TokenizeRoutes(host).applyTemplate(request) }
    }
    router.on("GET", "/openapi.json") { _, _ in
      Self.answer { () throws(APIError) in
        try OpenAPIDocument(version: host.settings.version, limits: host.limits).respond()
      }
    }
    router.on("GET", "/v1/capabilities") { _, _ in CapabilitiesRoute.respond(host) }
  }

  /// Method and pattern of every route.
  package var routes: [(method: String, pattern: String)] { router.routes.map { ($0.method, $0.pattern) } }

  /// Gives responses in the background some time to finish, then fails them. Called when no connection is left.
  package func finish(seconds: Double) { jobs.stop(seconds: seconds) }

  /// The response to a request whose body has been read. Blocks while the answer is computed.
  ///
  /// `FrontDoor` then has `MessagesRoute.dress` put it into the words of its path.
  func answer(_ request: Request, _ context: ConnectionContext) -> Response {
    router.respond(to: request, context)
  }

  /// The answer that needs no body: there is no such route or method.
  func screen(_ request: Request) -> Response? { router.screen(request) }

  /// What a route's handler makes, or the response that tells of its error.
  static func answer(_ handle: () throws(APIError) -> Response) -> Response {
    do throws(APIError) {
      return try handle()
    } catch {
      return error.response
    }
  }
}

/// What serves one request: what all routes share, the model that the request asks for, and who asks.
struct AppCore: Sendable {
  let host: AppHost
  let lease: ModelLease
  var client = ClientIdentity()

  var model: ServedModel { lease.model }
  var settings: App.Settings { host.settings }
  var limits: RequestLimits { host.limits }
  var jobs: ResponseJobs { host.jobs }
  var records: ClientRecords { settings.store.records(of: client) }

  /// Special tokens that say nothing to the output parser: they have no text for the client.
  var controlTokens: Set<Int32> { model.controlTokens }

  func checkUnknown(_ fields: [String]) throws(APIError) { try host.checkUnknown(fields) }

  /// What all objects of a new answer have in common.
  func makeHeader(idPrefix: String) -> AnswerHeader {
    AnswerHeader(
      id: idPrefix + settings.makeID(), created: settings.now(), model: model.id,
      systemFingerprint: model.systemFingerprint,
      reasoningField: settings.reasoningField)
  }

  var metrics: Metrics { settings.metrics }
  var desk: MediaDesk { host.desk }

  var reasoningEvents: ReasoningEvents { settings.responsesReasoningEvents }

  var timing: AnswerRun.Timing {
    AnswerRun.Timing(poll: settings.pollSeconds, keepAlive: settings.keepAliveSeconds)
  }
}

enum RandomID {
  private static let alphabet = Array("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ".utf8)

  /// So many random letters and digits.
  static func make(_ count: Int) -> String {
    String(decoding: (0..<count).map { _ in alphabet[Int.random(in: 0..<alphabet.count)] }, as: UTF8.self)
  }
}
