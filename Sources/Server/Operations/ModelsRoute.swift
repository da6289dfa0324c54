// GET /v1/models and /v1/models/{id}; POST /models/load and /models/unload.

import HTTP
import Inference
import JSON
import Pipeline
import Platform
import Wire

struct ModelsRoute {
  /// How long an operator's request to unload waits for running work, seconds.
  private static let unloadSeconds = 2.0

  let server: ServerContext

  static func table(_ server: ServerContext) -> RouteTable {
    let route = ModelsRoute(server: server)
    return RouteTable(
      .openAI,
      [
        .get("/v1/models", "listModels", "The served models", gives: "ModelList", route.list) {
          $0.error = "AnyModelError"
        },
        // Clients of llama.cpp's router know this path. A client that loads models asks for the result, too.
        .get(
          "/models", "listModelsShort", "The same, at llama.cpp's path", for: .everyone, gives: "ModelList",
          route.list
        ) { $0.error = "AnyModelError" },
        .get("/v1/models/:id", "retrieveModel", "One model", gives: "AnyModel", route.retrieve) {
          $0.error = "AnyModelError"
        },
        // Some clients do not escape the slash of an id.
        .get(
          "/v1/models/:owner/:name", "retrieveModelOfOwner", "One model whose id has a slash",
          gives: "AnyModel", route.retrieve
        ) { $0.error = "AnyModelError" },
        .post(
          "/models/load", "loadModel", "Begins to load a model", for: .admins, reads: .of(ModelRequest.self),
          gives: "ModelChange", route.load
        ) { $0.isAccepted = true },
        .post(
          "/models/unload", "unloadModel", "Unloads a model", for: .admins, reads: .of(ModelRequest.self),
          gives: "ModelChange", route.unload
        ) { $0.isAccepted = true },
      ])
  }

  private func list(_ http: Request, _: ConnectionContext) -> Response {
    let models = server.models.statuses.flatMap { [$0] + server.models.adaptedStatuses($0) }.map(object)
    guard http.isMessagesClient else { return Response(json: ModelObject.list(models)) }
    return Response(json: ModelObject.messagesList(models.map(messagesJSON)))
  }

  private func messagesJSON(_ model: ModelObject) -> JSONValue {
    model.messagesJSON(createdAt: Timestamp.text(seconds: Double(model.created)))
  }

  /// One model by its name or an alias.
  private func retrieve(_ http: Request, _: ConnectionContext) throws(APIError) -> Response {
    let model = object(try server.models.status(of: http.modelID))
    return Response(json: http.isMessagesClient ? messagesJSON(model) : model.json)
  }

  private func object(_ status: ModelFleet.Status) -> ModelObject {
    let loaded = status.model?.loaded
    var object = ModelObject(
      id: status.adapter.map { status.source.id + ":" + $0 } ?? status.source.id,
      created: server.settings.started ?? loaded?.created ?? 0, ownedBy: "mlxserve",
      contextLength: loaded?.contextTokens,
      inputModalities: loaded?.inputModalities ?? nil)
    object.task = loaded?.task
    object.embedding = loaded?.embedder?.json ?? nil
    object.aliases = status.aliases
    object.status = status.value
    object.progress = status.progress
    object.failure = status.failure
    object.isPinned = status.isPinned
    object.parent = status.adapter == nil ? nil : status.source.id
    object.sizeBytes = status.model?.weightBytes
    return object
  }

  /// Begins to load a model: 200 when it is loaded already, else 202.
  private func load(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let request = try server.read(ModelRequest.self, http, context)
    let isReady = try server.models.beginLoading(request.model)
    return try answer(request, status: isReady ? 200 : 202)
  }

  /// Unloads a model once its running work has ended: 200 when it is unloaded, 202 while it has work.
  private func unload(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let request = try server.read(ModelRequest.self, http, context)
    let isGone = try server.models.beginUnloading(request.model, seconds: Self.unloadSeconds)
    return try answer(request, status: isGone ? 200 : 202)
  }

  private func answer(_ request: ModelRequest, status: Int) throws(APIError) -> Response {
    // What is unloaded may have lost its folder meanwhile.
    let value = (try? server.models.status(of: request.model))?.value ?? "unloaded"
    return Response(
      json: ["success": true, "model": .string(request.model), "status": ["value": .string(value)]],
      status: status)
  }
}

extension LoadedModel {
  /// What the model is for.
  fileprivate var task: String {
    guard let embedder else { return generates ? "chat" : "transcribe" }
    return embedder.service.limits.labels > 0 ? "rerank" : "embed"
  }
}

extension Embedder {
  /// What clients may know of vectors and scores before they ask for some.
  fileprivate var json: JSONValue {
    let limits = service.limits
    guard limits.labels == 0 else {
      return ["labels": .int(limits.labels), "max_tokens": .int(maxTokens)]
    }
    return [
      "dimensions": .int(limits.dimensions), "max_tokens": .int(maxTokens),
      "pooling": .array(limits.poolingNames.map(JSONValue.string)),
      "prompts": .array(prompts.names.map(JSONValue.string)),
      "allows_fewer_dimensions": .bool(allowsFewerDimensions),
    ]
  }
}
