// POST /api/embed and /api/embeddings: vectors of texts in Ollama's words.

import HTTP
import Inference
import JSON
import Pipeline
import Platform
import Wire

struct OllamaEmbeddings {
  let server: ServerContext

  /// Vectors of a text or of several, of length 1.
  func embed(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let begin = Instant.now
    let body = try http.ollamaBody(context.memory)
    let request = try OllamaEmbedRequest(body, limits: server.limits)
    let own = try embedder(of: body, request.keepAlive, context)
    let loadSeconds = Instant.now.seconds(since: begin)
    try server.ignore(request.ignored, for: context)
    let (vectors, tokens) = try own.vectors(request, context)
    return Response(
      json: [
        "model": .string(try OllamaRequest.model(of: body)), "embeddings": .array(vectors.map(Self.json)),
        "total_duration": .int(OllamaResponse.nanoseconds(Instant.now.seconds(since: begin))),
        "load_duration": .int(OllamaResponse.nanoseconds(loadSeconds)), "prompt_eval_count": .int(tokens),
      ])
  }

  /// The older form: the vector of one text, as the model makes it.
  func embedOne(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let body = try http.ollamaBody(context.memory)
    let request = try OllamaEmbedRequest(single: body, limits: server.limits)
    let own = try embedder(of: body, request.keepAlive, context)
    try server.ignore(request.ignored, for: context)
    let vector = try own.vectors(request, context).vectors.first ?? []
    return Response(json: ["embedding": Self.json(vector)])
  }

  private static func json(_ vector: [Float]) -> JSONValue { .array(vector.map { .double(Double($0)) }) }

  private func embedder(
    of body: JSONValue, _ keepAlive: KeepAlive?, _ context: ConnectionContext
  ) throws(APIError) -> EmbeddingContext {
    let source = try server.models.ollamaModel(try OllamaRequest.model(of: body))
    let lease = try server.models.lease(source.id)
    let scope = RequestScope(server: server, lease: lease, for: context)
    guard let embedder = scope.model.embedder else { throw .cannotEmbed(model: scope.model.id) }
    if let keepAlive { server.models.keep(source.id, keepAlive) }
    return EmbeddingContext(scope: scope, embedder: embedder)
  }
}

extension EmbeddingContext {
  /// Vectors of the texts, and the tokens that were read for them.
  fileprivate func vectors(
    _ request: OllamaEmbedRequest, _ context: ConnectionContext
  ) throws(APIError) -> (vectors: [[Float]], tokens: Int) {
    guard !request.texts.isEmpty else { return ([], 0) }
    var options = Embedder.Options()
    options.truncation = request.truncates ? .right : nil
    options.dimensions = request.dimensions
    options.normalizes = request.normalizes
    // Vectors as the encoder makes them, and as they are sent.
    try claim(24 * request.texts.count * embedder.dimensions, of: context.memory)
    do throws(EmbeddingError) {
      let prepared = try embedder.prepare(request.texts.map { Embedder.Input.text($0) }, options)
      try check(tokens: prepared.tokenCount)
      let raw = try encode(prepared, context)
      return (raw.map { embedder.finish($0, options) }, prepared.tokenCount)
    } catch {
      var refusal = APIError(error) { "input[\($0)]" }.forOllama
      if case .tooLong = error {
        refusal.message = "the input length exceeds the context length: " + refusal.message
      }
      throw refusal
    }
  }
}
