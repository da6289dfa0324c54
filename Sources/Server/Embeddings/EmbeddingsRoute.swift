// POST /v1/embeddings: vectors of texts or token ids.

import HTTP
import Inference
import JSON
import Pipeline
import Wire

struct EmbeddingsRoute {
  let server: ServerContext

  static func table(_ server: ServerContext) -> RouteTable {
    let route = EmbeddingsRoute(server: server)
    return RouteTable(
      .openAI,
      [
        .post(
          "/v1/embeddings", "createEmbedding", "Vectors of texts", reads: .of(EmbeddingsRequest.self),
          gives: "Embeddings", route.respond),
        .post(
          "/embeddings", "createEmbeddingShort", "The same, at llama.cpp's path",
          reads: .of(EmbeddingsRequest.self), gives: "Embeddings", route.respond),
      ])
  }

  private func respond(to http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let body = try http.jsonBody(context.memory)
    let own = try server.embedding(body, for: context)
    let request = try EmbeddingsRequest(body, limits: own.limits, vocabularySize: own.vocabularySize)
    try server.ignore(request.ignored, for: context)
    // Vectors as the encoder makes them, and as they are sent.
    try claim(8 * request.inputs.count * own.embedder.dimensions, of: context.memory)
    try claim(RequestScope.workForTokens(ofBytes: request.textBytes), of: context.memory)
    return response(try own.embed(request, context))
  }

  private func response(_ answer: EmbeddingsResponse) -> Response {
    guard answer.isLong else {
      var bytes: [UInt8] = []
      answer.write { (part) throws(Never) in bytes += part }
      return Response(contentType: "application/json", bytes: bytes)
    }
    return Response(
      headers: ["content-type": "application/json"],
      body: .stream { writer in
        try answer.write { bytes in try writer.write(bytes) }
        writer.finish()
      })
  }
}

extension EmbeddingContext {
  /// The vectors that a request asks for.
  func embed(_ request: EmbeddingsRequest, _ context: ConnectionContext) throws(APIError)
    -> EmbeddingsResponse
  {
    let options = options(request)
    do throws(EmbeddingError) {
      let prepared = try embedder.prepare(request.inputs.map(Embedder.Input.init), options)
      try check(tokens: prepared.tokenCount)
      let raw = try encode(prepared, context)
      return EmbeddingsResponse(
        model: scope.model.id, vectors: raw.map { embedder.finish($0, options) }, encoding: request.encoding,
        promptTokens: prepared.tokenCount, truncated: prepared.truncated)
    } catch {
      throw APIError(error, name: request.name)
    }
  }

  private func options(_ request: EmbeddingsRequest) -> Embedder.Options {
    var options = Embedder.Options()
    options.truncation = request.truncation.map(Embedder.Truncation.init)
    options.maxTokens = request.maxTokens
    options.dimensions = request.dimensions
    options.normalizes = request.normalizes
    options.tenant = scope.client.number
    options.priority = scope.givesWay ? .background : .interactive
    options.prompt =
      switch request.prompt {
      case .usual: .usual
      case .named(let name): .named(name)
      case .literal(let text): .literal(text)
      case .query: .query
      case .document: .document
      }
    return options
  }
}

extension Embedder.Input {
  init(_ input: TextInput) {
    switch input {
    case .text(let text): self = .text(text)
    case .tokens(let ids): self = .tokens(ids)
    }
  }
}
