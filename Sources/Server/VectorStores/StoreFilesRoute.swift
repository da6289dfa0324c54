// /v1/vector_stores/{id}/files and /file_batches: what is in a store.

import HTTP
import JSON
import Platform
import Vectors
import Wire

struct StoreFilesRoute {
  let server: ServerContext
  let worker: ArchiveWorker?

  func routes(_ one: String) -> [Route] {
    let (files, batches) = (one + "/files", one + "/file_batches")
    return [
      .post(
        files, "createVectorStoreFile", "Puts a file into a store",
        reads: .of(StoreFileRequest.self, "VectorStoreFileRequest"),
        gives: "VectorStoreFile", create),
      .get(files, "listVectorStoreFiles", "The files of a store", gives: "VectorStoreFileList", list) {
        $0.query = ["after", "before", "limit", "order", "filter"]
      },
      .get(
        files + "/:file", "retrieveVectorStoreFile", "A file of a store", gives: "VectorStoreFile", retrieve),
      .post(
        files + "/:file", "updateVectorStoreFile", "Changes the attributes of a file",
        reads: .of(AttributesRequest.self, like: ["attributes": ["year": 2025]]), gives: "VectorStoreFile",
        update),
      .delete(
        files + "/:file", "deleteVectorStoreFile", "Takes a file out of a store", gives: "Deleted", delete),
      .get(
        files + "/:file/content", "readVectorStoreFile", "The text that was read from a file",
        gives: "VectorStoreFileContent", content),
      .post(
        batches, "createVectorStoreFileBatch", "Puts several files into a store",
        reads: .of(
          FileBatchRequest.self, "VectorStoreFileBatchRequest", like: ["file_ids": ["file-1", "file-2"]]),
        gives: "VectorStoreFileBatch", createBatch),
      .get(
        batches + "/:batch", "retrieveVectorStoreFileBatch", "How far a batch is",
        gives: "VectorStoreFileBatch", retrieveBatch),
      .post(
        batches + "/:batch/cancel", "cancelVectorStoreFileBatch", "Ends a batch",
        gives: "VectorStoreFileBatch", cancelBatch),
      .get(
        batches + "/:batch/files", "listVectorStoreFileBatch", "The files of a batch",
        gives: "VectorStoreFileList", listBatch
      ) { $0.query = ["after", "before", "limit", "order", "filter"] },
    ]
  }

  private func store(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Archive.Store {
    try server.archive().store(http.parameter("id") ?? "", context.client)
  }

  private func entry(_ http: Request, _ context: ConnectionContext) throws(APIError) -> EntryRecord {
    let id = http.parameter("file") ?? ""
    guard let entry = try store(http, context).entries[id] else {
      throw .notFound("file in the vector store", id)
    }
    return entry
  }

  private func batch(_ http: Request, _ context: ConnectionContext) throws(APIError) -> (
    batch: BatchRecord, entries: [EntryRecord]
  ) {
    let id = http.parameter("batch") ?? ""
    let store = try store(http, context)
    guard let batch = store.batches[id] else { throw .notFound("file batch", id) }
    return (batch, batch.files.compactMap { store.entries[$0] })
  }

  private func answer(_ entry: EntryRecord) -> Response {
    var response = Response(json: entry.json)
    if entry.status == .inProgress { response.askAgainSoon() }
    return response
  }

  private func new(
    _ request: StoreFileRequest, _ store: Archive.Store, _ context: ConnectionContext, batch: String?
  ) throws(APIError) -> EntryRecord {
    do throws(APIError) {
      let file = try server.archive().file(request.fileID, context.client)
      var entry = EntryRecord(file: file.id, store: store.record.id, created: server.settings.now())
      entry.attributes = request.attributes ?? JSONObject()
      entry.strategy = request.strategy
      entry.batch = batch
      return entry
    } catch {
      var error = error
      error.param = request.name
      throw error
    }
  }

  private func create(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let store = try store(http, context)
    let body = try server.read(StoreFileRequest.self, http, context)
    let entry = try new(body, store, context, batch: nil)
    try claim(EntryRecord.bytesToAdd([entry]), of: context.memory)
    try server.documents.read([entry.file], by: body.reader, for: context.client)
    try server.archive().add([entry], batch: nil, key: context.client.key)
    worker?.start()
    let now = try server.archive().store(store.record.id, context.client).entries[entry.file]
    return answer(now ?? entry)
  }

  private func list(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    Response(json: try page(http, context, Array(store(http, context).entries.values)))
  }

  private func page(
    _ http: Request, _ context: ConnectionContext, _ entries: [EntryRecord]
  ) throws(APIError) -> JSONValue {
    let work = 3 * entries.count * MemoryLayout<EntryRecord>.stride
    let largest = entries.map(\.jsonByteCount).max() ?? 0
    try claim(work + min(entries.count, Request.listLimit) * largest, of: context.memory)
    var entries = entries
    if let filter = http.query("filter") {
      guard let status = EntryStatus(rawValue: filter) else {
        let words = EntryStatus.allCases.map { "'\($0.rawValue)'" }.joined(separator: ", ")
        throw .invalidValue("filter", "expected one of \(words)")
      }
      entries.removeAll { $0.status != status }
    }
    entries.sort { ($0.created, $0.file) < ($1.created, $1.file) }
    return try http.listPage(entries.map(\.file)) { entries[$0].json }
  }

  private func retrieve(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    answer(try entry(http, context))
  }

  private func update(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let entry = try entry(http, context)
    let body = try server.read(AttributesRequest.self, http, context)
    let changed = try server.archive().changeEntry(entry.file, store: entry.store) {
      $0.attributes = body.attributes
    }
    guard let changed else { throw .notFound("file in the vector store", entry.file) }
    return answer(changed)
  }

  private func delete(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let entry = try entry(http, context)
    guard try server.archive().removeEntry(entry.file, store: entry.store) else {
      throw .notFound("file in the vector store", entry.file)
    }
    return Response(json: ["id": .string(entry.file), "object": "vector_store.file.deleted", "deleted": true])
  }

  private func content(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let entry = try entry(http, context)
    // The passages, which may overlap, the text that they make, and the text as JSON.
    try claim(10 * entry.bytes, of: context.memory)
    var text: [UInt8] = []
    do {
      if let index = try server.archive().openIndex(entry.store) {
        text = Archive.text(try index.view.passages(of: entry.file))
      }
    } catch let error as IndexError {
      throw APIError(indexing: error)
    } catch {
      throw APIError(status: 500, type: "server_error", code: "index_error", message: "\(error)")
    }
    // Nothing is in an index of what was deleted meanwhile either.
    if text.isEmpty { _ = try self.entry(http, context) }
    let data: [JSONValue] =
      text.isEmpty ? [] : [["type": "text", "text": .string(String(decoding: text, as: UTF8.self))]]
    return Response(
      json: [
        "object": "vector_store.file_content.page", "data": .array(data), "has_more": false, "next_page": nil,
      ])
  }

  // MARK: Batches

  private func createBatch(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let store = try store(http, context)
    let body = try server.read(FileBatchRequest.self, http, context)
    let id = "vsfb_" + server.settings.makeID()
    var entries: [EntryRecord] = []
    var seen: Set<String> = []
    for request in body.files where seen.insert(request.fileID).inserted {
      entries.append(try new(request, store, context, batch: id))
    }
    let batch = BatchRecord(
      id: id, store: store.record.id, created: server.settings.now(), files: entries.map(\.file))
    try claim(EntryRecord.bytesToAdd(entries) + 4 * batch.byteCount, of: context.memory)
    for file in body.files {
      try server.documents.read([file.fileID], by: file.reader ?? body.reader, for: context.client)
    }
    try server.archive().add(entries, batch: batch, key: context.client.key)
    server.models.observe()
    worker?.start()
    let now = try server.archive().store(store.record.id, context.client).entries
    var response = Response(json: batch.json(batch.files.compactMap { now[$0] }))
    response.askAgainSoon()
    return response
  }

  private func retrieveBatch(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let (batch, entries) = try batch(http, context)
    var response = Response(json: batch.json(entries))
    if entries.contains(where: { $0.status == .inProgress }) { response.askAgainSoon() }
    return response
  }

  private func cancelBatch(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let (found, _) = try batch(http, context)
    try server.archive().cancel(found)
    let (batch, entries) = try batch(http, context)
    return Response(json: batch.json(entries))
  }

  private func listBatch(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    Response(json: try page(http, context, try batch(http, context).entries))
  }
}
