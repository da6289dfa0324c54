// GET /health: whether new requests are taken. The server listens only once its model is ready.

import HTTP
import JSON
import OpenAI

enum HealthRoute {
  static func respond(_ context: ConnectionContext) -> Response {
    context.isDraining ? APIError.shuttingDown.response : Response(json: ["status": "ok"])
  }
}
