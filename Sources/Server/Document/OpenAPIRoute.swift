// GET /openapi.json.

import HTTP
import JSON
import OpenAI

struct OpenAPIRoute {
  let server: ServerContext

  static func table(_ server: ServerContext) -> RouteTable {
    RouteTable(
      .openAI, [Route("GET", "/openapi.json", OpenAPIRoute(server: server).respond)])
  }

  private func respond(to _: Request, _: ConnectionContext) throws(APIError) -> Response {
    do throws(JSONError) {
      return Response(
        json: try OpenAPIDocument(version: server.settings.version, limits: server.limits).json())
    } catch {
      throw .internalError("\(error)")
    }
  }
}
