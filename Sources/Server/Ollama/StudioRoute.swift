// GET /api/v0/models, and one of them: the models as LM Studio's clients know them.

import HTTP
import JSON
import OpenAI

struct StudioRoute {
  let server: ServerContext

  static func table(_ server: ServerContext) -> RouteTable {
    let route = StudioRoute(server: server)
    return RouteTable(
      .openAI,
      [
        Route("GET", "/api/v0/models", route.list), Route("GET", "/api/v0/models/:id", route.retrieve),
        // Some clients do not escape the slash of an id.
        Route("GET", "/api/v0/models/:owner/:name", route.retrieve),
      ])
  }

  private func list(_: Request, _: ConnectionContext) -> Response {
    Response(
      json: ["object": "list", "data": .array(server.models.statuses.map { OllamaCard($0).studioJSON })])
  }

  private func retrieve(_ http: Request, _: ConnectionContext) throws(APIError) -> Response {
    Response(json: OllamaCard(try server.models.status(of: http.modelID)).studioJSON)
  }
}

extension Request {
  /// The id of a model in the path, with or without a slash.
  var modelID: String {
    parameter("id") ?? ["owner", "name"].map { parameter($0) ?? "" }.joined(separator: "/")
  }
}
