// GET /health, /ready and /readyz: whether new requests are taken. GET /livez: whether the process answers at all.
//
// While the model is loading, `Host` answers for them.

import HTTP
import JSON
import Wire

enum HealthRoute {
  static func table(_ server: ServerContext) -> RouteTable {
    let settings = server.settings
    let ready = ["/health", "/ready", "/readyz"].map { path in
      Route.get(
        path, "\(path.dropFirst())", "Whether requests are taken", for: .everyone, gives: "Health",
        { _, context throws(APIError) in try readiness(context, settings.storeHealth) })
    }
    return RouteTable(
      .openAI,
      ready + [
        .get(
          "/livez", "livez", "Whether the process answers", for: .everyone, gives: "Health", { _, _ in alive }
        )
      ])
  }

  static var alive: Response { Response(json: ["status": "ok"]) }

  /// Answers are computed whether or not they can be stored, so the status stays; what fails is said beside it.
  private static func readiness(_ context: ConnectionContext, _ store: StoreHealth) throws(APIError)
    -> Response
  {
    if context.isDraining { throw .shuttingDown }
    return store.isFailing ? Response(json: ["status": "ok", "store": "failing"]) : alive
  }
}
