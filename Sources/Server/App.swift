// The application: routes over a served model. `App` knows no sockets; `Listener` calls `respond`.

import Chat
package import HTTP
package import Inference
import JSON
import OpenAI
import Platform

package final class App: Sendable {
  package struct Settings: Sendable {
    /// The member that holds reasoning text: `reasoning_content`, `reasoning` or `both`.
    package var reasoningField = "reasoning_content"
    /// Whether a field that nobody knows is refused instead of being named in a header.
    package var strictParameters = false
    /// How reasoning is written into Responses streams: `openai`, `openresponses` or `none`.
    package var responsesReasoningEvents = "openai"
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
  /// HTTP's own errors in the shape of the API.
  static let errors = ErrorFormat(contentType: "application/json") { APIError($0).json.bytes }

  package init(_ model: ServedModel, settings: Settings = Settings()) {
    let core = AppCore(model: model, settings: settings)
    var router = Router()
    router.errors = Self.errors
    HealthRoute.register(on: &router)
    MetricsRoute.register(on: &router, core)
    router.on("GET", "/v1/models") { _, _ in ModelsRoute(core).list() }
    router.on("GET", "/v1/models/:id") { request, _ in
      ModelsRoute(core).retrieve(request.parameter("id") ?? "")
    }
    router.on("POST", "/v1/chat/completions") { request, context in
      Self.answer { () throws(APIError) in try ChatRoute(core).respond(to: request, context) }
    }
    router.on("POST", "/v1/completions") { request, context in
      Self.answer { () throws(APIError) in try CompletionsRoute(core).respond(to: request, context) }
    }
    Self.addMessages(core, to: &router)
    Self.addUtilities(core, to: &router)
    ResponsesRoute.register(on: &router, core)
    ConversationsRoute.register(on: &router, core)
    if let statistics = settings.engineStatistics {
      router.on("GET", "/debug/state") { _, _ in DebugRoute.respond(statistics()) }
    }
    self.router = router
    jobs = core.jobs
  }

  /// Anthropic's wire.
  private static func addMessages(_ core: AppCore, to router: inout Router) {
    router.on("POST", "/v1/messages") { request, context in
      Self.answer { () throws(APIError) in try MessagesRoute(core).respond(to: request, context) }
    }
    router.on("POST", "/v1/messages/count_tokens") { request, _ in
      Self.answer { () throws(APIError) in try MessagesRoute(core).countTokens(request) }
    }
  }

  /// What is around the answers.
  private static func addUtilities(_ core: AppCore, to router: inout Router) {
    router.on("POST", "/v1/chat/completions/input_tokens") { request, _ in
      Self.answer { () throws(APIError) in try TokenizeRoutes(core).countInput(request) }
    }
    router.on("POST", "/tokenize") { request, _ in
      Self.answer { () throws(APIError) in try TokenizeRoutes(core).tokenize(request) }
    }
    router.on("POST", "/detokenize") { request, _ in
      Self.answer { () throws(APIError) in try TokenizeRoutes(core).detokenize(request) }
    }
    router.on("POST", "/apply-template") { request, _ in
      Self.answer { () throws(APIError) in try TokenizeRoutes(core).applyTemplate(request) }
    }
    router.on("GET", "/openapi.json") { _, _ in
      Self.answer { () throws(APIError) in
        try OpenAPIDocument(version: core.settings.version, limits: core.limits).respond()
      }
    }
    router.on("GET", "/v1/capabilities") { _, _ in CapabilitiesRoute(core).respond() }
  }

  /// Method and pattern of every route.
  package var routes: [(method: String, pattern: String)] { router.routes.map { ($0.method, $0.pattern) } }

  /// Gives responses in the background some time to finish, then fails them. Called when no connection is left.
  package func finish(seconds: Double) { jobs.stop(seconds: seconds) }

  /// The response to a request whose body has been read. Blocks while the answer is computed.
  package func respond(to request: Request, _ context: ConnectionContext) -> Response {
    MessagesRoute.dress(answer(request, context), to: request, context)
  }

  /// As above, before the path's own words are given to it.
  func answer(_ request: Request, _ context: ConnectionContext) -> Response {
    router.respond(to: request, context)
  }

  /// The answer that needs no body: there is no such route or method.
  func screen(_ request: Request) -> Response? { router.screen(request) }

  private static func answer(_ handle: () throws(APIError) -> Response) -> Response {
    do throws(APIError) {
      return try handle()
    } catch {
      return error.response
    }
  }
}

/// What every route shares.
struct AppCore: Sendable {
  let model: ServedModel
  let settings: App.Settings
  let limits = RequestLimits()
  /// Responses that are made in the background.
  let jobs = ResponseJobs()
  /// Images and sounds on their way to the model.
  let desk = MediaDesk()
  /// Special tokens that say nothing to the output parser: they have no text for the client.
  let controlTokens: Set<Int32>

  init(model: ServedModel, settings: App.Settings) {
    self.model = model
    self.settings = settings
    controlTokens = OutputFormat.silentTokens(of: model.tokenizer)
  }

  /// - Throws: 404 unless the request names the served model.
  func checkModel(_ name: String) throws(APIError) {
    guard name.utf8.elementsEqual(model.id.utf8) else { throw .modelNotFound(name) }
  }

  /// - Parameter fields: of the request, that nobody knows.
  /// - Throws: 400 for the first of them, if the server is strict.
  func checkUnknown(_ fields: [String]) throws(APIError) {
    if settings.strictParameters, let field = fields.first { throw .unknownParameter(field) }
  }

  /// What all objects of a new answer have in common.
  func makeHeader(idPrefix: String) -> AnswerHeader {
    AnswerHeader(
      id: idPrefix + settings.makeID(), created: settings.now(), model: model.id,
      systemFingerprint: model.systemFingerprint,
      reasoningField: ReasoningField(rawValue: settings.reasoningField) ?? .reasoningContent)
  }

  var metrics: Metrics { settings.metrics }

  var store: ResponseStore { settings.store }

  var reasoningEvents: ReasoningEvents {
    ReasoningEvents(rawValue: settings.responsesReasoningEvents) ?? .openai
  }

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
