// POST /v1/receipts/verify: whether an answer is what its receipt says, computed again by a model of this server.

import HTTP
import JSON
import Pipeline
import Wire

struct ReceiptsRoute {
  let server: ServerContext

  static func table(_ server: ServerContext) -> RouteTable {
    RouteTable(
      .openAI,
      [
        .post(
          "/v1/receipts/verify", "verifyReceipt", "Computes the answer of a receipt again and compares both",
          reads: .of(ReceiptRequest.self), gives: "ReceiptVerification",
          ReceiptsRoute(server: server).verify)
      ])
  }

  private func verify(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let body = try http.jsonBody(context.memory)
    let scope = try server.request(body, for: context)
    let request = try ReceiptRequest(body, limits: scope.limits, vocabularySize: scope.model.vocabularySize)
    try scope.checkUnknown(request.ignored)
    do throws(PipelineError) {
      let report = try scope.model.check(
        try Receipt(request.receipt), tenant: scope.client.number, isUnwanted: context.isClientGone)
      guard let report else { throw PipelineError.receipt("nobody waits for it") }
      var response = Response(json: report.json)
      response.nameIgnored(request.ignored)
      return response
    } catch {
      switch error {
      case .engine(let error): throw APIError(error, param: "receipt")
      default: throw .invalidValue("receipt", "\(error)")
      }
    }
  }
}
