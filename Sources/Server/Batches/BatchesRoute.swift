// /v1/batches: requests in a file, answered when nothing else is to be done.

import HTTP
import JSON
import Platform
import Wire

struct BatchesRoute {
  let server: ServerContext
  let worker: BatchWorker?

  static func table(_ server: ServerContext, _ worker: BatchWorker?) -> RouteTable {
    let route = BatchesRoute(server: server, worker: worker)
    let one = "/v1/batches/:id"
    return RouteTable(
      .openAI,
      [
        .post(
          "/v1/batches", "createBatch", "Answers the requests of a file when nothing else is to be done",
          reads: .of(BatchCreation.self, "BatchRequest"), gives: "Batch", route.create),
        .get("/v1/batches", "listBatches", "The client's batches", gives: "BatchList", route.list) {
          $0.query = ["after", "before", "limit", "order"]
        },
        .get(one, "retrieveBatch", "How far a batch is", gives: "Batch", route.retrieve),
        .delete(one, "deleteBatch", "Forgets a batch that is over", gives: "Deleted", route.delete),
        .post(one + "/cancel", "cancelBatch", "Ends a batch", gives: "Batch", route.cancel),
      ])
  }

  private func create(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let worker = try server.batches(worker)
    let creation = try BatchCreation(try http.jsonBody(context.memory))
    try server.ignore(creation.ignored, for: context)
    let file = try server.archive().file(creation.inputFile, context.client)
    guard file.purpose == "batch" else {
      throw .invalidValue("input_file_id", "the file's purpose is '\(file.purpose)', not 'batch'")
    }
    var batch = RequestBatch(
      id: "batch_" + server.settings.makeID(), api: .openAI, client: context.client,
      created: worker.store.archive.now(), endpoint: creation.endpoint)
    batch.inputFile = file.id
    batch.metadata = creation.metadata
    batch.outputSeconds = creation.outputSeconds
    let reader = try BatchFile(file, server.archive(), endpoint: creation.endpoint, context.memory)
    if reader.faults.isEmpty {
      batch.model = reader.model
      try worker.store.add(batch, server.makeBatchLoan()) { write throws(APIError) in
        try reader.forEach(write)
      }
      worker.start()
    } else {
      batch.phase = .ended
      batch.ending = .failed
      batch.ended = batch.created
      batch.faults = BatchStore.faults(reader.faults)
      try worker.store.add(failed: batch)
    }
    return Response(json: try worker.store.batch(batch.id, .openAI, context.client).json)
  }

  private func batch(_ http: Request, _ context: ConnectionContext) throws(APIError) -> RequestBatch {
    try server.batches(worker).store.batch(http.parameter("id") ?? "", .openAI, context.client)
  }

  private func list(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let store = try server.batches(worker).store
    let batches = store.batches(.openAI, of: context.client)
    let failed = batches.count { $0.ending == .failed }
    try claim(BatchStore.bytesToShow * min(failed, Request.listLimit), of: context.memory)
    return Response(json: try http.listPage(batches.map(\.id)) { store.whole(batches[$0]).json })
  }

  private func delete(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let batch = try batch(http, context)
    guard batch.isOver else {
      throw APIError(
        status: 400, code: "batch_running", message: "The batch is not over. Cancel it before it is deleted.")
    }
    try server.batches(worker).store.remove(batch)
    return Response(json: ["id": .string(batch.id), "object": "batch", "deleted": true])
  }

  private func retrieve(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    Response(json: try batch(http, context).json)
  }

  private func cancel(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let batch = try batch(http, context)
    guard !batch.isOver else {
      throw APIError(
        status: 400, code: "batch_over", message: "The batch is over and cannot be cancelled any more.")
    }
    return Response(json: try server.batches(worker).store.cancel(batch).json)
  }
}

/// The lines of a file for /v1/batches, checked one by one.
private struct BatchFile {
  private let content: SharedBytes?
  private var lines: [Range<Int>] = []
  private let endpoint: String
  /// Lines that cannot be used, counted from 1.
  private(set) var faults: [(line: Int, error: APIError)] = []
  /// The model that the first request names.
  private(set) var model: String?

  init(_ file: FileRecord, _ archive: Archive, endpoint: String, _ memory: MemoryLoan?) throws(APIError) {
    self.endpoint = endpoint
    let content = try archive.mappedContent(of: file)
    self.content = content
    try check(memory)
  }

  /// Checks every line. It claims what one line at a time takes (as it is, its texts, as it is written and before), its
  /// values, a place and an id for each, and what is written at a time.
  private mutating func check(_ memory: MemoryLoan?) throws(APIError) {
    let count = content?.lineCount(takesRest: true, upTo: BatchStore.mostLines + 1) ?? 0
    guard count > 0 else {
      faults = [(1, Self.fault("empty_file", "The file has no requests."))]
      return
    }
    guard count <= BatchStore.mostLines else {
      let problem = "The file has more than \(BatchStore.mostLines) requests."
      faults = [(BatchStore.mostLines + 1, Self.fault("too_many_tasks", problem))]
      return
    }
    try claim(BatchStore.writingBytes(lines: count), of: memory)
    lines = content?.lines(takesRest: true, count: count) ?? []
    var known: Set<ByteKey> = []
    var claimed = 0
    for (index, range) in lines.enumerated() {
      if 4 * range.count > claimed {
        try claim(4 * range.count - claimed, of: memory)
        claimed = 4 * range.count
      }
      let bytes = content?.copy(range) ?? []
      let weight = 4 * bytes.count + JSONValue.weight(ofRequest: bytes)
      if weight > claimed {
        try claim(weight - claimed, of: memory)
        claimed = weight
      }
      do throws(APIError) {
        let line = try Self.read(bytes, endpoint)
        guard known.insert(ByteKey(line.customID)).inserted else {
          throw Self.fault("duplicate_custom_id", "Another line has this custom_id.", "custom_id")
        }
        if model == nil { model = line.body["model"]?.stringValue }
      } catch {
        faults.append((index + 1, error))
        guard faults.count < 100 else { return }
      }
    }
  }

  private static func fault(_ code: String, _ message: String, _ param: String? = nil) -> APIError {
    APIError(status: 400, code: code, param: param, message: message)
  }

  private static func read(_ bytes: [UInt8], _ endpoint: String) throws(APIError) -> BatchLine {
    let value: JSONValue
    do {
      value = try JSONValue(request: bytes)
    } catch {
      throw fault("invalid_json_line", "The line is not valid JSON: \(error).")
    }
    return try BatchLine(value, endpoint: endpoint)
  }

  func forEach(_ take: (BatchLine) throws(APIError) -> Void) throws(APIError) {
    for range in lines { try take(try Self.read(content?.copy(range) ?? [], endpoint)) }
  }
}

extension ServerContext {
  /// What the requests of a new batch are claimed with.
  func makeBatchLoan() -> MemoryLoan {
    MemoryLoan(models.ledger, for: .answers, patience: BodyBudget.patience)
  }

  /// What answers batches.
  ///
  /// - Throws: 503 where its folder could not be used.
  func batches(_ worker: BatchWorker?) throws(APIError) -> BatchWorker {
    _ = try archive()
    guard let worker else { throw .internalError("there is nothing that answers batches") }
    return worker
  }
}
