// POST /v1/receipts/verify: whether an answer is what its receipt says, computed again by a model of this server.

import HTTP
import JSON
import Media
import Pipeline
import Platform
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
    try server.ignore(request.ignored, for: context)
    let receipt: Receipt
    do throws(PipelineError) {
      receipt = try Receipt(request.receipt)
    } catch {
      throw .invalidValue("receipt", "\(error)")
    }
    var media: [MediaPassage] = []
    for (index, text) in request.media.enumerated() {
      media.append(try passage(text, of: receipt, param: "media[\(index)]", scope.model, context))
    }
    do throws(PipelineError) {
      let report = try scope.model.check(
        receipt, media: media, tenant: scope.client.number, isUnwanted: context.isClientGone)
      guard let report else { throw PipelineError.receipt("nobody waits for it") }
      return Response(json: report.json)
    } catch {
      switch error {
      case .engine(let error): throw APIError(error, param: "receipt")
      default: throw .invalidValue("receipt", "\(error)")
      }
    }
  }

  /// An image or audio clip of the prompt of a receipt.
  private func passage(
    _ text: String, of receipt: Receipt, param: String, _ model: LoadedModel, _ context: ConnectionContext
  ) throws(APIError) -> MediaPassage {
    guard let file = Base64.decode(DataURL(text)?.encoded ?? text) else {
      throw .invalidValue(param, "it is not base64")
    }
    let key = SHA256.digest(Array("\(model.id)\n".utf8) + receipt.json.bytes + SHA256.digest(file))
    return try server.media.desk.input(key, for: param, isUnwanted: context.isClientGone) {
      loan throws(APIError) in
      var isShort = false
      let passage = receipt.passage(of: file, for: model.media) { bytes in
        isShort = !loan.extend(by: bytes) || isShort
        return !isShort
      }
      if isShort {
        throw .overloaded("'\(param)' was not read: there is no memory at the moment.", param: param)
      }
      guard let passage else { throw .invalidValue(param, "no image or audio clip of the receipt's prompt") }
      return passage
    }
  }
}
