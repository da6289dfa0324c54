// POST /v1/rerank and /v1/score, with the paths that clients of Jina, Cohere, llama.cpp and vLLM have for them.

import HTTP
import Inference
import JSON
import OpenAI
import Pipeline

struct RerankRoute {
  let server: ServerContext

  static func table(_ server: ServerContext) -> RouteTable {
    let route = RerankRoute(server: server)
    let tei = TEIRoutes(server: server)
    let rankings = ["/v1/rerank", "/v2/rerank", "/v1/reranking", "/reranking"]
    return RouteTable(
      .openAI,
      rankings.map { Route("POST", $0, route.rank) } + [
        // TEI has this path too: its body has `texts`.
        Route("POST", "/rerank") { (http, context) throws(APIError) in
          let body = try http.jsonBody(context.memory)
          return body["texts"] == nil
            ? try route.rank(body, context)
            : tei.answer(context) { () throws(APIError) in try tei.rank(body, context) }
        },
        Route("POST", "/v1/score", route.score), Route("POST", "/score", route.score),
      ])
  }

  private func rank(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    try rank(try http.jsonBody(context.memory), context)
  }

  private func rank(_ body: JSONValue, _ context: ConnectionContext) throws(APIError) -> Response {
    let own = try server.reranking(body, for: context)
    let request = try RerankRequest(body, limits: own.limits)
    try server.checkUnknown(request.ignored)
    let scored = try own.score(
      [request.query], request.documents, try own.options(request.cut, request.instruction),
      isRaw: request.isRaw, context, name: request.name)
    var results = Array(RankedDocument.sorted(scored.scores).prefix(request.limit ?? .max))
    if request.returnsDocuments {
      for index in results.indices { results[index].text = request.documents[results[index].index] }
    }
    var response = Response(json: own.response("rerank-", scored).ranking(results))
    response.nameIgnored(request.ignored)
    return response
  }

  private func score(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let body = try http.jsonBody(context.memory)
    let own = try server.reranking(body, for: context)
    let request = try ScoreRequest(body, limits: own.limits)
    try server.checkUnknown(request.ignored)
    let scored = try own.score(
      request.queries, request.documents, try own.options(request.cut, request.instruction),
      isRaw: request.isRaw, context, name: request.name)
    var response = Response(
      json: own.response("score-", scored).scores(scored.scores, created: server.settings.now()))
    response.nameIgnored(request.ignored)
    return response
  }
}

extension EmbeddingContext {
  fileprivate func response(_ prefix: String, _ scored: ScoredPairs) -> RerankResponse {
    RerankResponse(
      id: prefix + core.settings.makeID(), model: core.model.id, tokens: scored.tokens,
      truncated: scored.truncated)
  }
}
