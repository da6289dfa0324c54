// POST /v1/rerank and /v1/score, with the paths that clients of Jina, Cohere, llama.cpp and vLLM have for them.

import HTTP
import Inference
import JSON
import Pipeline
import Wire

struct RerankRoute {
  let server: ServerContext

  static func table(_ server: ServerContext) -> RouteTable {
    let route = RerankRoute(server: server)
    func ranking(_ path: String, _ id: String, _ summary: String) -> Route {
      .post(path, id, summary, reads: .of(RerankRequest.self), gives: "Ranking", route.rank)
    }
    func score(_ path: String, _ id: String, _ summary: String) -> Route {
      .post(path, id, summary, reads: .of(ScoreRequest.self), gives: "Scores", route.score)
    }
    let both = Route.post(
      "/rerank", "rerankShort", "The same; with 'texts' in TEI's shape", reads: .of(RerankRequest.self),
      gives: "AnyRanking", route.rankEither
    ) { $0.isTEI(too: .of(TEIRerankRequest.self)) }
    return RouteTable(
      .openAI,
      [
        ranking("/v1/rerank", "rerank", "Puts documents in order for a query"),
        ranking("/v2/rerank", "rerankCohere", "The same, at Cohere's path"),
        ranking("/v1/reranking", "rerankLong", "The same, at llama.cpp's path"),
        ranking("/reranking", "rerankLongShort", "The same, at llama.cpp's path"), both,
        score("/v1/score", "score", "Scores of pairs of texts"), score("/score", "scoreShort", "The same"),
      ])
  }

  /// TEI has this path too: its body has `texts`.
  private func rankEither(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let body = try http.jsonBody(context.memory)
    guard body["texts"] != nil else { return try rank(body, context) }
    let tei = TEIRoutes(server: server)
    return tei.answer(context) { () throws(APIError) in try tei.rank(body, context) }
  }

  private func rank(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    try rank(try http.jsonBody(context.memory), context)
  }

  private func rank(_ body: JSONValue, _ context: ConnectionContext) throws(APIError) -> Response {
    let own = try server.reranking(body, for: context)
    let request = try RerankRequest(body, limits: own.limits)
    try server.ignore(request.ignored, for: context)
    let scored = try own.score(
      [request.query], request.documents, try own.options(request.cut, request.instruction),
      isRaw: request.isRaw, context, name: request.name)
    var results = Array(RankedDocument.sorted(scored.scores).prefix(request.limit ?? .max))
    if request.returnsDocuments {
      for index in results.indices { results[index].text = request.documents[results[index].index] }
    }
    return Response(json: own.response("rerank-", scored).ranking(results))
  }

  private func score(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let body = try http.jsonBody(context.memory)
    let own = try server.reranking(body, for: context)
    let request = try ScoreRequest(body, limits: own.limits)
    try server.ignore(request.ignored, for: context)
    let scored = try own.score(
      request.queries, request.documents, try own.options(request.cut, request.instruction),
      isRaw: request.isRaw, context, name: request.name)
    return Response(
      json: own.response("score-", scored).scores(scored.scores, created: server.settings.now()))
  }
}

extension EmbeddingContext {
  fileprivate func response(_ prefix: String, _ scored: ScoredPairs) -> RerankResponse {
    RerankResponse(
      id: prefix + scope.settings.makeID(), model: scope.model.id, tokens: scored.tokens,
      truncated: scored.truncated)
  }
}
