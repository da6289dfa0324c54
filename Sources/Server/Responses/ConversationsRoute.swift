// /v1/conversations: lists of items that responses continue and clients edit.

import HTTP
import JSON
import OpenAI

struct ConversationsRoute {
  private let server: ServerContext
  private let records: ClientRecords

  private init(_ server: ServerContext, _ client: ClientIdentity) {
    self.server = server
    records = server.settings.store.records(of: client)
  }

  static func register(on router: inout Router, _ server: ServerContext) {
    typealias Handle = @Sendable (ConversationsRoute, Request) throws(APIError) -> Response
    func on(_ method: String, _ pattern: String, _ handle: @escaping Handle) {
      router.on(method, pattern) { request, context in
        App.answer { () throws(APIError) in try handle(ConversationsRoute(server, context.client), request) }
      }
    }
    let one = "/v1/conversations/:id"
    on("POST", "/v1/conversations") { (route, request) throws(APIError) in try route.create(request) }
    on("GET", one) { (route, request) throws(APIError) in
      Response(json: try route.object(request).json)
    }
    on("POST", one) { (route, request) throws(APIError) in try route.update(request) }
    on("DELETE", one) { (route, request) throws(APIError) in try route.delete(request) }
    on("GET", one + "/items") { (route, request) throws(APIError) in
      Response(json: try request.page(of: route.conversation(request).items))
    }
    on("POST", one + "/items") { (route, request) throws(APIError) in try route.addItems(request) }
    on("GET", one + "/items/:item") { (route, request) throws(APIError) in try route.item(request) }
    on("DELETE", one + "/items/:item") { (route, request) throws(APIError) in
      try route.deleteItem(request)
    }
  }

  private func id(_ http: Request) -> String { http.parameter("id") ?? "" }

  private func itemID(_ http: Request) -> String { http.parameter("item") ?? "" }

  private func conversation(_ http: Request) throws(APIError) -> StoredConversation {
    let id = id(http)
    guard let found = records.conversation(id) else { throw .conversationNotFound(id) }
    return found
  }

  private func object(_ http: Request) throws(APIError) -> (json: JSONValue, bytes: Int) {
    let id = id(http)
    guard let found = records.conversationObject(id) else { throw .conversationNotFound(id) }
    return found
  }

  /// Every use of a conversation reads all of it.
  private static let mostBytes = 16 << 20

  private func checkSize(_ http: Request, stored: Int) throws(APIError) {
    guard stored + http.body.count <= Self.mostBytes else {
      throw .invalidValue(
        "items", "the conversation would have more than \(Self.mostBytes >> 20) MiB; begin another one")
    }
  }

  /// The body, which may be missing where every field is optional.
  private func body(_ http: Request) throws(APIError) -> ConversationObject.Request {
    try ConversationObject.Request(http.body.isEmpty ? [:] : http.jsonBody())
  }

  private func read(_ items: JSONValue?) throws(APIError) -> ResponsesInput {
    guard let items, items != [] else { return ResponsesInput() }
    return try ResponsesItemReader(
      limits: server.limits, makeID: server.settings.makeID, resolve: { records.item($0) }
    ).read(items, name: "items")
  }

  private func create(_ http: Request) throws(APIError) -> Response {
    try checkSize(http, stored: 0)
    let body = try body(http)
    let conversation = StoredConversation(
      id: "conv_" + server.settings.makeID(), createdAt: server.settings.now(),
      metadata: body.metadata ?? [:],
      items: try read(body.items).items)
    records.put(conversation)
    var response = Response(json: conversation.json)
    response.nameIgnored(body.ignored)
    return response
  }

  private func update(_ http: Request) throws(APIError) -> Response {
    let body = try body(http)
    let id = id(http)
    let changed = records.updateConversation(id) { conversation in
      if let metadata = body.metadata { conversation.metadata = metadata }
    }
    guard let changed else { throw .conversationNotFound(id) }
    var response = Response(json: changed.json)
    response.nameIgnored(body.ignored + (body.items == nil ? [] : ["items"]))
    return response
  }

  private func delete(_ http: Request) throws(APIError) -> Response {
    let id = id(http)
    guard records.removeConversation(id) else { throw .conversationNotFound(id) }
    return Response(json: ConversationObject.deleted(id))
  }

  // MARK: Items

  private func addItems(_ http: Request) throws(APIError) -> Response {
    let id = id(http)
    try checkSize(http, stored: try object(http).bytes)
    let body = try body(http)
    guard let value = body.items else {
      throw APIError(
        status: 400, code: "missing_required_parameter", param: "items",
        message: "Missing required parameter: 'items'.")
    }
    let items = try read(value).items
    guard records.updateConversation(id, { $0.items += items }) != nil else {
      throw .conversationNotFound(id)
    }
    var response = Response(json: ResponseObject.list(items, hasMore: false))
    response.nameIgnored(body.ignored)
    return response
  }

  private func item(_ http: Request) throws(APIError) -> Response {
    let id = itemID(http)
    guard let item = try conversation(http).items.last(where: { $0.hasID(id) }) else {
      throw .itemNotFound(id)
    }
    return Response(json: item)
  }

  private func deleteItem(_ http: Request) throws(APIError) -> Response {
    let id = itemID(http)
    var isFound = false
    let changed = records.updateConversation(self.id(http)) { conversation in
      let before = conversation.items.count
      conversation.items.removeAll { $0.hasID(id) }
      isFound = conversation.items.count < before
    }
    guard let changed else { throw .conversationNotFound(self.id(http)) }
    guard isFound else { throw .itemNotFound(id) }
    return Response(json: changed.json)
  }
}
