// GET /openapi.json.

import HTTP
import JSON
import OpenAI
import Platform

struct OpenAPIRoute {
  let server: ServerContext
  /// The document, once somebody has asked for it: as values it takes ten times as much.
  private let text = Monitor<[UInt8]?>(nil)

  init(server: ServerContext) { self.server = server }

  static func table(_ server: ServerContext) -> RouteTable {
    RouteTable(
      .openAI, [Route("GET", "/openapi.json", OpenAPIRoute(server: server).respond)])
  }

  private func respond(to _: Request, _: ConnectionContext) throws(APIError) -> Response {
    do throws(JSONError) {
      // One at a time makes it.
      let bytes = try text.withLock { text throws(JSONError) in
        if let text { return text }
        let made = try OpenAPIDocument(version: server.settings.version, limits: server.limits).json().bytes
        text = made
        return made
      }
      return Response(contentType: "application/json", bytes: bytes)
    } catch {
      throw .internalError("\(error)")
    }
  }
}
