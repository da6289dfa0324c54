// GET /openapi.json.

import HTTP
import JSON
import Platform
import Wire

struct OpenAPIRoute {
  let server: ServerContext
  /// Of all routes.
  let operations: [Operation]
  /// The document, once somebody has asked for it: as values it takes ten times as much.
  let text = Monitor<[UInt8]?>(nil)

  static func table(_ server: ServerContext, _ operations: [Operation]) -> RouteTable {
    let route = OpenAPIRoute(server: server, operations: operations)
    return RouteTable(.openAI, [.get("/openapi.json", "openapi", "This document", route.respond)])
  }

  private func respond(to _: Request, _: ConnectionContext) throws(APIError) -> Response {
    do throws(JSONError) {
      // One at a time makes it.
      let bytes = try text.withLock { text throws(JSONError) in
        if let text { return text }
        let made = try OpenAPIDocument(
          version: server.settings.version, limits: server.limits, operations: operations
        ).json().bytes
        text = made
        return made
      }
      return Response(contentType: "application/json", bytes: bytes)
    } catch {
      throw .internalError("\(error)")
    }
  }
}
