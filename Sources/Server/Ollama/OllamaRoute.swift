// Ollama's API: POST /api/chat and /api/generate, and how errors look below /api.

import Chat
import HTTP
import Inference
import JSON
import Pipeline
import Platform
import Tokenizers
import Wire

struct OllamaRoute {
  let server: ServerContext

  static func table(_ server: ServerContext) -> RouteTable {
    let route = OllamaRoute(server: server)
    let models = OllamaModels(server: server)
    let vectors = OllamaEmbeddings(server: server)
    let pull = OllamaPull(server: server)
    func refusal(_ status: Int, _ words: String) -> Route.Handler {
      { (_, _) throws(APIError) -> Response in
        throw APIError(status: status, code: "unsupported", message: words)
      }
    }
    return RouteTable(
      .ollama,
      [
        .post(
          "/api/chat", "ollamaChat", "Ollama's chat: lines of JSON, or one object",
          reads: .ollamaChat, gives: "OllamaChat", route.chat
        ) { $0.answersInLines() },
        .post(
          "/api/generate", "ollamaGenerate", "Ollama's completion of one prompt",
          reads: .ollamaPrompt, gives: "OllamaCompletion", route.generate
        ) { $0.answersInLines() },
        .post(
          "/api/embed", "ollamaEmbed", "Vectors of texts (Ollama)", reads: .ollamaTexts,
          gives: "OllamaVectors", vectors.embed),
        .post(
          "/api/embeddings", "ollamaEmbedOne", "The vector of a text (Ollama)",
          reads: .ollamaText, gives: "OllamaVector", vectors.embedOne),
        .get(
          "/api/version", "ollamaVersion", "The version of Ollama's API", gives: "OllamaVersion",
          models.version),
        .get("/api/tags", "ollamaTags", "The models, as Ollama lists them", gives: "OllamaList", models.tags),
        .get(
          "/api/ps", "ollamaRunning", "The loaded models, as Ollama lists them", gives: "OllamaList",
          models.running),
        .post(
          "/api/show", "ollamaShow", "One model, as Ollama describes it", reads: .ollamaModel,
          models.show),
        .post(
          "/api/pull", "ollamaPull", "Fetches a model from the hub; progress as lines", for: .admins,
          reads: .ollamaModel, pull.pull
        ) { $0.answersInLines() },
        .delete(
          "/api/delete", "ollamaDelete", "Removes a model from the cache", for: .admins,
          reads: .ollamaModel, pull.delete),
      ]
        + [("create", "ollamaCreate"), ("copy", "ollamaCopy"), ("push", "ollamaPush")].map { name, id in
          .post(
            "/api/\(name)", id, "Refused", reads: .ollamaModel,
            refusal(400, "\(name) is not supported by mlxserve"))
        })
  }

  // MARK: Requests

  private func chat(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let body = try http.ollamaBody(context.memory)
    return try respond(try OllamaRequest(chat: body, limits: server.limits), to: body, isChat: true, context)
  }

  private func generate(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let body = try http.ollamaBody(context.memory)
    return try respond(
      try OllamaRequest(generate: body, limits: server.limits), to: body, isChat: false, context)
  }

  /// Everything that can be known to be wrong is refused here, before the first line of a stream.
  private func respond(
    _ request: OllamaRequest, to body: JSONValue, isChat: Bool, _ context: ConnectionContext
  ) throws(APIError) -> Response {
    let begin = Instant.now
    let name = try OllamaRequest.model(of: body)
    let adapted = server.models.adapted(name)
    let source: ModelSource
    if let adapted { source = adapted.source } else { source = try server.models.ollamaModel(name) }
    let lease = try server.models.lease(adapted == nil ? source.id : name)
    let scope = RequestScope(server: server, lease: lease, for: context)
    try scope.model.checkGenerates()
    let loadSeconds = Instant.now.seconds(since: begin)
    try server.ignore(request.ignored, request.chat.format?.notes ?? [], for: context)
    if let keepAlive = request.keepAlive {
      if context.mayAdminister {
        server.models.keep(source.id, keepAlive)
      } else {
        // How long a model stays concerns all clients; those that always say it are answered all the same.
        if request.isEmpty, keepAlive == .seconds(0) {
          throw .forbidden(
            "admin_required", "Unloading a model needs the role 'admin', where administration is.")
        }
        context.ignored.append("keep_alive")
      }
    }
    let shape = OllamaResponse(
      isChat: isChat, model: name, created: Timestamp.text(seconds: Instant.wallSeconds))
    var counts = OllamaResponse.Counts()
    counts.load = loadSeconds
    if request.isEmpty {
      let reason = request.keepAlive == .seconds(0) ? "unload" : "load"
      return Response(json: shape.last(OllamaResponse.Content(), reason: reason, counts))
    }
    let plan = try OllamaPlan(request, scope, isUnwanted: context.isClientGone)
    if request.onlyRenders, let text = plan.promptText {
      return Response(
        json: [
          "model": .string(name), "created_at": .string(shape.created),
          "_debug_info": ["rendered_template": .string(text)],
        ])
    }
    let run = try plan.makeRun(context)
    let answer = OllamaAnswer(
      shape, run, scope, param: request.chat.messagesField, counts: counts, begin: begin)
    var response: Response
    do throws(APIError) {
      response = try answer.respond(
        run, context, streams: request.chat.options.streams, as: .lines(silence: answer.silence))
    } catch {
      throw error.forOllama
    }
    if plan.dropped > 0 {
      response.headers.add("x-mlxserve-truncated", "messages=\(plan.dropped)")
      Log.warning("old messages dropped", ["request_id": context.requestID, "messages": "\(plan.dropped)"])
    }
    return response
  }
}

extension APIError {
  /// This wire has 503 for a queue that is full.
  var forOllama: APIError {
    var error = self
    if status == 429 { error.status = 503 }
    return error
  }
}

extension Request {
  /// The body of a request of this wire, whatever its content type says.
  ///
  /// - Parameter memory: where its values are claimed.
  func ollamaBody(_ memory: MemoryLoan?) throws(APIError) -> JSONValue {
    guard !body.isEmpty else {
      throw APIError(status: 400, code: "missing_body", message: "missing request body")
    }
    try claim(JSONValue.weight(ofRequest: body), of: memory)
    do {
      return try JSONValue(request: body)
    } catch {
      throw .malformedJSON(error)
    }
  }
}

extension Wire {
  /// Ollama's: an error is a text.
  static let ollama = Wire(roots: ["/api"], idHeader: nil, schema: "OllamaError") { error, _ in
    ["error": .string(error.overflow?.ollamaMessage(advice: "Shorten it.") ?? error.message)]
  }
}

extension ModelFleet {
  /// The model that one of Ollama's names means: with the tag `latest` or without, in any case.
  func ollamaModel(_ name: String) throws(APIError) -> ModelSource {
    if let source = catalog.resolve(name) { return source }
    let lower = (name.hasSuffix(":latest") ? String(name.dropLast(7)) : name).lowercased()
    if let source = catalog.sources.first(where: { $0.id.lowercased().utf8.elementsEqual(lower.utf8) }) {
      return source
    }
    throw APIError(
      status: 404, code: "model_not_found", param: "model",
      message: "model '\(APIError.shortened(name))' not found")
  }
}

extension DescribedBody {
  fileprivate static let ollamaModel = DescribedBody("OllamaModelRequest") { (fields) throws(APIError) in
    _ = try OllamaRequest.model(&fields)
  }
  fileprivate static let ollamaChat = DescribedBody(
    "OllamaChatRequest",
    like: ["model": "demo", "messages": [["role": "user", "content": "Hello!"]], "stream": false]
  ) { (fields) throws(APIError) in _ = try OllamaRequest(chat: &fields) }
  fileprivate static let ollamaPrompt = DescribedBody(
    "OllamaGenerateRequest", like: ["model": "demo", "prompt": "Hello!", "stream": false]
  ) { (fields) throws(APIError) in _ = try OllamaRequest(generate: &fields) }
  fileprivate static let ollamaTexts = DescribedBody(
    "OllamaEmbedRequest", like: ["model": "minilm", "input": "Hello!"]
  ) { (fields) throws(APIError) in _ = try OllamaEmbedRequest(&fields) }
  fileprivate static let ollamaText = DescribedBody(
    "OllamaEmbedOneRequest", like: ["model": "minilm", "prompt": "Hello!"]
  ) { (fields) throws(APIError) in _ = try OllamaEmbedRequest(single: &fields) }
}
