// GET /health, /ready and /readyz: whether new requests are taken. GET /livez: whether the process answers at all.
//
// While the model is loading, `FrontDoor` answers for them.

import HTTP
import JSON
import OpenAI

enum HealthRoute {
  static let table = RouteTable(
    .openAI,
    ["/health", "/ready", "/readyz"].map { Route("GET", $0, readiness) }
      + [Route("GET", "/livez") { _, _ in alive }])

  static var alive: Response { Response(json: ["status": "ok"]) }

  private static func readiness(_: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    if context.isDraining { throw .shuttingDown }
    return alive
  }
}
