// GET /api/v0/models, and one of them: the models as LM Studio's clients know them.

import HTTP
import JSON
import Wire

struct StudioRoute {
  let server: ServerContext

  static func table(_ server: ServerContext) -> RouteTable {
    let route = StudioRoute(server: server)
    return RouteTable(
      .openAI,
      [
        .get(
          "/api/v0/models", "studioModels", "The models, as LM Studio lists them", gives: "StudioModelList",
          route.list),
        .get(
          "/api/v0/models/:id", "studioModel", "One model, as LM Studio tells it", gives: "StudioModel",
          route.retrieve),
        // Some clients do not escape the slash of an id.
        .get(
          "/api/v0/models/:owner/:name", "studioModelOfOwner", "One model whose id has a slash",
          gives: "StudioModel", route.retrieve),
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
