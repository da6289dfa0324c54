// POST /completion and /infill: completions as llama-server's clients ask for them.

import HTTP
import Inference
import JSON
import Pipeline
import Platform
import Wire

struct LlamaRoute {
  let server: ServerContext

  static func table(_ server: ServerContext) -> RouteTable {
    let route = LlamaRoute(server: server)
    func post(
      _ path: String, _ id: String, _ summary: String, _ body: DescribedBody,
      _ handler: @escaping Route.Handler
    ) -> Route {
      .post(path, id, summary, reads: body, gives: "LlamaAnswer", handler) { $0.event = "LlamaAnswer" }
    }
    return RouteTable(
      .llama,
      [
        post(
          "/completion", "llamaCompletion", "Goes on with a text (llama-server)", .llamaCompletion,
          route.complete),
        post("/completions", "llamaCompletions", "The same", .llamaCompletion, route.complete),
        post(
          "/infill", "llamaInfill", "Fills in the middle (llama-server)", .llamaInfill, route.infill),
      ])
  }

  private func complete(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    try respond(to: http, isInfill: false, context)
  }

  private func infill(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    try respond(to: http, isInfill: true, context)
  }

  /// Everything that can be known to be wrong is refused here, before the head of a stream is sent.
  private func respond(
    to http: Request, isInfill: Bool, _ context: ConnectionContext
  ) throws(APIError) -> Response {
    let begin = Instant.now
    let body = try http.jsonBody(context.memory)
    let scope = try server.request(body, for: context)
    let request = try LlamaRequest(
      body, isInfill: isInfill, limits: scope.limits, vocabularySize: scope.model.vocabularySize)
    try server.ignore(request.ignored, request.format?.notes ?? [], for: context)
    let plan = try LlamaPlan(request, scope)
    let run = try plan.makeRun(context)
    let answer = LlamaAnswer(plan, run: run, begin: begin)
    return try answer.respond(run, context, streams: request.options.streams)
  }
}

extension Wire {
  /// llama-server's own paths: the code of an error is its status.
  static let llama = Wire(
    roots: ["/completion", "/completions", "/infill"], idHeader: nil, schema: "LlamaError"
  ) { error, _ in
    let members: [(String, JSONValue)] = [
      ("code", .int(error.status)), ("message", .string(error.overflow?.llamaMessage ?? error.message)),
      ("type", .string(error.llamaType)),
    ]
    return ["error": .object(JSONObject(members + (error.overflow?.llamaCounts ?? [])))]
  }
}

extension APIError {
  /// The kind of error, as llama-server's clients know it.
  fileprivate var llamaType: String {
    switch status {
    case 400 where code == "context_length_exceeded": "exceed_context_size_error"
    case 400: "invalid_request_error"
    case 401: "authentication_error"
    case 403: "permission_error"
    case 404: "not_found_error"
    case 501: "not_supported_error"
    case 503: "unavailable_error"
    case 429: "rate_limit_error"
    default: "server_error"
    }
  }
}

extension DescribedBody {
  fileprivate static let llamaCompletion = DescribedBody("LlamaCompletionRequest") {
    (fields) throws(APIError) in
    _ = try LlamaRequest(&fields, isInfill: false)
  }
  fileprivate static let llamaInfill = DescribedBody("LlamaInfillRequest") { (fields) throws(APIError) in
    _ = try LlamaRequest(&fields, isInfill: true)
  }
}
