// GET /health, /ready and /readyz: whether new requests are taken. GET /livez: whether the process answers at all.
//
// While the model is loading, `FrontDoor` answers for them.

import HTTP
import JSON
import OpenAI

enum HealthRoute {
  static func register(on router: inout Router) {
    for path in ["/health", "/ready", "/readyz"] {
      router.on("GET", path) { _, context in context.isDraining ? APIError.shuttingDown.response : alive }
    }
    router.on("GET", "/livez") { _, _ in alive }
  }

  static var alive: Response { Response(json: ["status": "ok"]) }
}
