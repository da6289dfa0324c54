// GET /v1/models and /v1/models/{id}.

import HTTP
import Inference
import OpenAI

struct ModelsRoute {
  private let core: AppCore

  init(_ core: AppCore) { self.core = core }

  private var served: ModelObject {
    ModelObject(
      id: core.model.id, created: core.model.created, ownedBy: "mlxserve",
      contextLength: core.model.service.limits.maxContext,
      inputModalities: core.model.media.inputModalities)
  }

  func list() -> Response { Response(json: ModelObject.list([served])) }

  /// - Parameter id: percent-decoded, so an id with a slash can be asked for.
  func retrieve(_ id: String) -> Response {
    do throws(APIError) {
      try core.checkModel(id)
      return Response(json: served.json)
    } catch {
      return error.response
    }
  }
}
