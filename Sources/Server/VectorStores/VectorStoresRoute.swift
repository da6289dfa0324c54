// /v1/vector_stores: stores, and the search in them.

import HTTP
import JSON
import Platform
import Search
import Vectors
import Wire

struct VectorStoresRoute {
  let server: ServerContext
  let worker: ArchiveWorker?

  static func table(_ server: ServerContext, _ worker: ArchiveWorker?) -> RouteTable {
    let route = VectorStoresRoute(server: server, worker: worker)
    let all = "/v1/vector_stores"
    let one = all + "/:id"
    let files = StoreFilesRoute(server: server, worker: worker)
    return RouteTable(
      .openAI,
      [
        .post(
          all, "createVectorStore", "Makes a vector store",
          reads: .of(VectorStoreRequest.self, like: ["name": "Notes"]),
          gives: "VectorStore", route.create
        ) { $0.bodyIsOptional = true },
        .get(all, "listVectorStores", "The client's vector stores", gives: "VectorStoreList", route.list) {
          $0.query = ["after", "before", "limit", "order"]
        },
        .get(one, "retrieveVectorStore", "A vector store", gives: "VectorStore", route.retrieve),
        .post(
          one, "updateVectorStore", "Changes name, metadata and expiry",
          reads: .of(VectorStoreRequest.self, like: ["name": "Notes"]),
          gives: "VectorStore", route.update
        ) { $0.bodyIsOptional = true },
        .delete(
          one, "deleteVectorStore", "Deletes a vector store; its files stay", gives: "Deleted", route.delete),
        .post(
          one + "/search", "searchVectorStore", "Searches by meaning and by words",
          reads: .of(StoreSearchRequest.self, "VectorStoreSearchRequest"), gives: "VectorStoreSearchPage",
          route.search),
      ] + files.routes(one))
  }

  private func store(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Archive.Store {
    try server.archive().store(http.parameter("id") ?? "", context.client)
  }

  private func object(_ store: Archive.Store) -> JSONValue {
    store.record.json(Array(store.entries.values), now: server.settings.now())
  }

  private func create(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let archive = try server.archive()
    let body = try server.read(VectorStoreRequest.self, http, context, isOptional: true)
    var ids: [String] = []
    var seen: Set<String> = []
    for (index, id) in body.fileIDs.enumerated() {
      do throws(APIError) { _ = try archive.file(id, context.client) } catch {
        var error = error
        error.param = "file_ids[\(index)]"
        throw error
      }
      // Named twice, it is one file.
      if seen.insert(id).inserted { ids.append(id) }
    }
    let created = server.settings.now()
    var record = StoreRecord(
      id: "vs_" + server.settings.makeID(), owner: Archive.owner(context.client), created: created)
    record.name = body.name ?? ""
    record.description = body.description
    record.metadata = body.metadata ?? JSONObject()
    record.expiry = body.expiry
    record.model = body.model
    let entries = ids.map { id in
      var entry = EntryRecord(file: id, store: record.id, created: created)
      entry.strategy = body.strategy
      return entry
    }
    try claim(EntryRecord.bytesToAdd(entries), of: context.memory)
    try server.documents.read(ids, by: body.reader, for: context.client)
    try archive.add(record)
    do throws(APIError) { try archive.add(entries, batch: nil, key: context.client.key) } catch {
      // A file was deleted meanwhile: what is refused leaves nothing.
      try? archive.removeStore(record.id)
      throw error
    }
    server.models.observe()
    if !entries.isEmpty { worker?.start() }
    return Response(json: object(try archive.store(record.id, context.client)))
  }

  private func list(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let stores = try server.archive().stores(of: context.client)
    return Response(json: try http.listPage(stores.map(\.record.id)) { object(stores[$0]) })
  }

  private func retrieve(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let store = try store(http, context)
    var response = Response(json: object(store))
    if store.entries.values.contains(where: { $0.status == .inProgress }) { response.askAgainSoon() }
    return response
  }

  private func update(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let store = try store(http, context)
    let body = try server.read(VectorStoreRequest.self, http, context, isOptional: true)
    try server.documents.read(store.entries.keys.sorted(), by: body.reader, for: context.client)
    let changed = try server.archive().change(store.record.id) { record in
      if let name = body.name { record.name = name }
      if let metadata = body.metadata { record.metadata = metadata }
      if body.namesExpiry { record.expiry = body.expiry }
    }
    // One that has ended the server too often is not tried by itself.
    try server.archive().attempts.end("rebuild." + store.record.id)
    return Response(json: object(changed))
  }

  private func delete(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let id = try store(http, context).record.id
    try server.archive().removeStore(id)
    return Response(json: ["id": .string(id), "object": "vector_store.deleted", "deleted": true])
  }

  // MARK: Search

  private func search(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let store = try store(http, context)
    let body = try server.read(StoreSearchRequest.self, http, context)
    var query = SearchQuery(body.queries)
    query.limit = body.limit
    query.threshold = Float(body.ranking.threshold)
    query.weights = body.ranking.weights.map { HybridWeights(embedding: $0.embedding, text: $0.text) }
    query.explains = body.explains
    if body.isExact { query.depth = .exact }
    let wishes = SearchWishes(
      filter: body.filter, reranker: RerankerChoice(ranker: body.ranking.ranker),
      tenant: context.client.number, session: http.headers["x-search-session"])
    let found = try server.archive().search(
      [store], query, wishes, models: server.models, isUnwanted: context.isClientGone)
    worker?.resume()
    // Each text as a value and in the answer.
    try claim(found.passages.reduce(0) { $0 + 8 * $1.result.passage.text.count }, of: context.memory)
    var page = JSONObject([
      ("object", "vector_store.search_results.page"),
      ("search_query", .array(body.queries.map(JSONValue.string))),
      ("data", .array(found.passages.map(\.json))), ("has_more", false), ("next_page", nil),
    ])
    if found.isDegraded { page["degraded"] = "lexical" }
    if let reranked = found.reranked { page["reranked"] = .int(reranked) }
    if let cut = found.cut { page["query_cut"] = ["tokens": .int(cut.tokens), "read": .int(cut.read)] }
    var response = Response(json: .object(page))
    response.headers.add("server-timing", found.timing)
    return response
  }
}

extension Response {
  /// Tells clients that wait for an object when to look again.
  mutating func askAgainSoon() { headers.add("openai-poll-after-ms", "100") }
}

extension FoundPassages {
  /// The phases of a search, for a `Server-Timing` header.
  var timing: String {
    times.phases.filter { $0.seconds > 0 }.map { "\($0.name);dur=\(Double(Int($0.seconds * 1e6)) / 1e3)" }
      .joined(separator: ", ")
  }
}

extension FoundPassage {
  /// A result of a search.
  var json: JSONValue {
    var object = JSONObject([
      ("file_id", .string(file)), ("filename", .string(name)), ("score", .double(Double(result.score))),
      ("attributes", .object(attributes)), ("content", .array([["type": "text", "text": .string(text)]])),
      ("offset", .int(offset)),
    ])
    if let why = result.why { object["why"] = why.json(result.parts) }
    return .object(object)
  }

  var text: String { String(decoding: result.passage.text, as: UTF8.self) }

  /// Bytes of the file's text before it.
  var offset: Int { result.passage.range.lowerBound }
}
