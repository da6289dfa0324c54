// /v1/messages/batches: Anthropic's batches, whose requests come in the body.

import HTTP
import JSON
import Platform
import Wire

struct MessageBatchesRoute {
  let server: ServerContext
  let worker: BatchWorker?

  static func table(_ server: ServerContext, _ worker: BatchWorker?) -> RouteTable {
    let route = MessageBatchesRoute(server: server, worker: worker)
    let all = "/v1/messages/batches"
    return RouteTable(
      .messages,
      [
        .post(
          all, "createMessageBatch", "Answers conversations when nothing else is to be done (Anthropic)",
          reads: .of(MessageBatchCreation.self, "MessageBatchRequest"), gives: "MessageBatch", route.create),
        .get(
          all, "listMessageBatches", "The client's batches (Anthropic)", gives: "MessageBatchList", route.list
        ) { ($0.query, $0.longestPage) = (["after_id", "before_id", "limit"], 1_000) },
        .get(
          all + "/:id", "retrieveMessageBatch", "How far a batch is (Anthropic)", gives: "MessageBatch",
          route.retrieve),
        .delete(
          all + "/:id", "deleteMessageBatch", "Forgets a batch that has ended (Anthropic)",
          gives: "DeletedMessageBatch", route.delete),
        .post(
          all + "/:id/cancel", "cancelMessageBatch", "Ends a batch (Anthropic)", gives: "MessageBatch",
          route.cancel),
        .get(
          all + "/:id/results", "readMessageBatch", "The answers of a batch, one a line (Anthropic)",
          gives: "Text", route.results
        ) { $0.contentType = "application/x-jsonl" },
      ])
  }

  private func create(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let worker = try server.batches(worker)
    let creation = try MessageBatchCreation(try http.jsonBody(context.memory))
    try server.ignore(creation.ignored, for: context)
    try claim(BatchStore.writingBytes(lines: creation.lines.count), of: context.memory)
    var batch = RequestBatch(
      id: "msgbatch_" + server.settings.makeID(), api: .messages, client: context.client,
      created: worker.store.archive.now(), endpoint: "/v1/messages")
    batch.model = creation.lines.first?.body["model"]?.stringValue
    try worker.store.add(batch, server.makeBatchLoan()) { write throws(APIError) in
      for line in creation.lines { try write(line) }
    }
    worker.start()
    return Response(json: try worker.store.batch(batch.id, .messages, context.client).messagesJSON)
  }

  private func batch(_ http: Request, _ context: ConnectionContext) throws(APIError) -> RequestBatch {
    try server.batches(worker).store.batch(http.parameter("id") ?? "", .messages, context.client)
  }

  private func retrieve(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    Response(json: try batch(http, context).messagesJSON)
  }

  /// The newest first, as this API's clients walk through them.
  private func list(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let batches = Array(try server.batches(worker).store.batches(.messages, of: context.client).reversed())
    let (places, hasMore) = try http.page(
      of: batches.map(\.id), limit: try http.integerQuery("limit", in: 1...1_000) ?? 20, after: "after_id",
      before: "before_id")
    let page = batches[places].map(\.messagesJSON)
    return Response(json: [
      "data": .array(page), "has_more": .bool(hasMore), "first_id": page.first?["id"] ?? nil,
      "last_id": page.last?["id"] ?? nil,
    ])
  }

  private func cancel(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let batch = try batch(http, context)
    guard !batch.isOver else {
      throw APIError(status: 400, code: "batch_over", message: "The batch has ended and cannot be canceled.")
    }
    return Response(json: try server.batches(worker).store.cancel(batch).messagesJSON)
  }

  private func delete(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let batch = try batch(http, context)
    guard batch.isOver else {
      throw APIError(
        status: 400, code: "batch_running",
        message: "The batch has not ended. Cancel it before it is deleted.")
    }
    try server.batches(worker).store.remove(batch)
    return Response(json: ["id": .string(batch.id), "type": "message_batch_deleted"])
  }

  private func results(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let batch = try batch(http, context)
    guard batch.isOver else {
      throw APIError(
        status: 404, code: "not_found", message: "The batch has not ended: there are no results yet.")
    }
    let files = try server.batches(worker).store.results(of: batch)
    return Response(contentType: "application/x-jsonl", files: files)
  }
}
