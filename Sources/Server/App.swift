// The application: routes over the served models. `App` knows no sockets; `FrontDoor` calls `answer`.

import HTTP
import Inference
import JSON
import OpenAI
import Platform

/// The routes over the served models, without sockets.
package final class App: Sendable {
  private let router: Router
  private let jobs: ResponseJobs
  /// HTTP's own errors in the shape of the API.
  static let errors = ErrorFormat(contentType: "application/json") { APIError($0).json.bytes }

  /// One model that is always there.
  package convenience init(_ model: ServedModel, settings: ServerSettings = ServerSettings()) {
    self.init(ModelFleet(model), settings: settings)
  }

  /// Models that come and go.
  package init(_ models: ModelFleet, settings: ServerSettings = ServerSettings()) {
    let server = ServerContext(models: models, settings: settings)
    let jobs = ResponseJobs()
    models.addGauge(.storedResponses) { settings.store.byteCount }
    var router = Router()
    router.errors = Self.errors
    HealthRoute.register(on: &router)
    MetricsRoute.register(on: &router, server)
    router.on("POST", "/v1/chat/completions") { request, context in
      Self.answer { () throws(APIError) in try ChatRoute(server).respond(to: request, context) }
    }
    router.on("POST", "/v1/completions") { request, context in
      Self.answer { () throws(APIError) in try CompletionsRoute(server).respond(to: request, context) }
    }
    Self.addModels(server, to: &router)
    Self.addMessages(server, to: &router)
    Self.addUtilities(server, to: &router)
    ResponsesRoute.register(on: &router, server, jobs)
    ConversationsRoute.register(on: &router, server)
    if let statistics = settings.engineStatistics {
      router.on("GET", "/debug/state") { _, _ in DebugRoute.respond(statistics()) }
    }
    self.router = router
    self.jobs = jobs
  }

  /// Which models there are, and which of them are in memory.
  private static func addModels(_ server: ServerContext, to router: inout Router) {
    // Clients of llama.cpp's router know the second path.
    for path in ["/v1/models", "/models"] {
      router.on("GET", path) { _, _ in ModelsRoute(server).list() }
    }
    router.on("GET", "/v1/models/:id") { request, _ in
      Self.answer { () throws(APIError) in try ModelsRoute(server).retrieve(request.parameter("id") ?? "") }
    }
    // Some clients do not escape the slash of an id.
    router.on("GET", "/v1/models/:owner/:name") { request, _ in
      let id = [request.parameter("owner") ?? "", request.parameter("name") ?? ""].joined(separator: "/")
      return Self.answer { () throws(APIError) in try ModelsRoute(server).retrieve(id) }
    }
    router.on("POST", "/models/load") { request, _ in
      Self.answer { () throws(APIError) in try ModelsRoute(server).load(request) }
    }
    router.on("POST", "/models/unload") { request, _ in
      Self.answer { () throws(APIError) in try ModelsRoute(server).unload(request) }
    }
  }

  /// Anthropic's wire.
  private static func addMessages(_ server: ServerContext, to router: inout Router) {
    router.on("POST", "/v1/messages") { request, context in
      Self.answer { () throws(APIError) in try MessagesRoute(server).respond(to: request, context) }
    }
    router.on("POST", "/v1/messages/count_tokens") { request, _ in
      Self.answer { () throws(APIError) in try MessagesRoute(server).countTokens(request) }
    }
  }

  /// What is around the answers.
  private static func addUtilities(_ server: ServerContext, to router: inout Router) {
    router.on("POST", "/v1/chat/completions/input_tokens") { request, _ in
      Self.answer { () throws(APIError) in try TokenizeRoutes(server).countInput(request) }
    }
    router.on("POST", "/tokenize") { request, _ in
      Self.answer { () throws(APIError) in try TokenizeRoutes(server).tokenize(request) }
    }
    router.on("POST", "/detokenize") { request, _ in
      Self.answer { () throws(APIError) in try TokenizeRoutes(server).detokenize(request) }
    }
    router.on("POST", "/apply-template") { request, _ in
      Self.answer { () throws(APIError) in try TokenizeRoutes(server).applyTemplate(request) }
    }
    router.on("GET", "/openapi.json") { _, _ in
      Self.answer { () throws(APIError) in
        try OpenAPIDocument(version: server.settings.version, limits: server.limits).respond()
      }
    }
    router.on("GET", "/v1/capabilities") { _, _ in CapabilitiesRoute.respond(server) }
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
