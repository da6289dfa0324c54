// /v1/conversations: lists of items that responses continue and clients edit.

import HTTP
import JSON
import Platform
import Wire

struct ConversationsRoute {
  let server: ServerContext

  static func table(_ server: ServerContext) -> RouteTable {
    let route = ConversationsRoute(server: server)
    let one = "/v1/conversations/:id"
    return RouteTable(
      .openAI,
      [
        .post(
          "/v1/conversations", "createConversation", "Begins a conversation",
          reads: .of(ConversationRequest.self, like: ["metadata": ["topic": "greetings"]]),
          gives: "Conversation", route.create
        ) { $0.bodyIsOptional = true },
        .get(one, "retrieveConversation", "A conversation", gives: "Conversation", route.retrieve),
        .post(
          one, "updateConversation", "Changes its metadata",
          reads: .of(ConversationRequest.self, like: ["metadata": ["topic": "farewells"]]),
          gives: "Conversation", route.update),
        .delete(one, "deleteConversation", "Forgets a conversation", gives: "Deleted", route.delete),
        .get(one + "/items", "listConversationItems", "Its items", gives: "ItemList", route.items) {
          $0.query = ["after", "limit", "order", "include"]
        },
        .post(
          one + "/items", "addConversationItems", "Adds items",
          reads: DescribedBody(
            "ConversationItemsRequest",
            like: ["items": [["type": "message", "role": "user", "content": "Hello!"]]]
          ) { (fields) throws(APIError) in
            _ = try ConversationRequest(&fields)
            fields.need("items")
          }, gives: "ItemList", route.addItems),
        .get(one + "/items/:item", "retrieveConversationItem", "One item", gives: "Item", route.item),
        .delete(
          one + "/items/:item", "deleteConversationItem", "Removes an item", gives: "Conversation",
          route.deleteItem),
      ])
  }

  private func records(_ context: ConnectionContext) -> ClientRecords { server.records(for: context) }

  private func id(_ http: Request) -> String { http.parameter("id") ?? "" }

  private func itemID(_ http: Request) -> String { http.parameter("item") ?? "" }

  private func conversation(_ http: Request, _ context: ConnectionContext) throws(APIError)
    -> StoredConversation
  {
    let id = id(http)
    let records = records(context)
    guard let found = records.conversation(id) else {
      try records.check()
      throw .conversationNotFound(id)
    }
    return found
  }

  private func object(_ http: Request, _ context: ConnectionContext) throws(APIError) -> (
    json: JSONValue, bytes: Int
  ) {
    let id = id(http)
    guard let found = records(context).conversationObject(id) else { throw .conversationNotFound(id) }
    return found
  }

  /// Every use of a conversation reads all of it.
  private static let mostBytes = 16 << 20

  /// What is stored is read into items, written as a record, and that is described: two more sets of values, three texts.
  private func claimForStoring(_ http: Request, _ context: ConnectionContext) throws(APIError) {
    try claim(2 * JSONValue.weight(ofRequest: http.body) + 3 * http.body.count, of: context.memory)
  }

  private func checkSize(_ http: Request, stored: Int) throws(APIError) {
    guard stored + http.body.count <= Self.mostBytes else {
      throw .invalidValue(
        "items", "the conversation would have more than \(Self.mostBytes >> 20) MiB; begin another one")
    }
  }

  /// The body, which may be missing where every field is optional.
  private func body(_ http: Request, _ context: ConnectionContext) throws(APIError) -> ConversationRequest {
    let body = try ConversationRequest(http.body.isEmpty ? [:] : http.jsonBody(context.memory))
    context.ignored = body.ignored
    return body
  }

  private func read(_ items: JSONValue?, _ records: ClientRecords) throws(APIError) -> ResponsesInput {
    guard let items, items != [] else { return ResponsesInput() }
    do throws(APIError) {
      return try ResponsesItemReader(
        limits: server.limits, makeID: server.settings.makeID, resolve: { records.item($0) }
      ).read(items, name: "items")
    } catch {
      try records.check()
      throw error
    }
  }

  private func change(
    _ id: String, _ context: ConnectionContext, _ body: (inout StoredConversation) -> Void
  ) throws(APIError) -> StoredConversation {
    let records = records(context)
    let changed = try storing { () throws(PlatformError) in try records.updateConversation(id, body) }
    guard let changed else {
      try records.check()
      throw .conversationNotFound(id)
    }
    return changed
  }

  private func create(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    try checkSize(http, stored: 0)
    try claimForStoring(http, context)
    let body = try body(http, context)
    let conversation = StoredConversation(
      id: "conv_" + server.settings.makeID(), createdAt: server.settings.now(),
      metadata: body.metadata ?? [:],
      items: try read(body.items, records(context)).items)
    try storing { () throws(PlatformError) in try records(context).put(conversation) }
    // What is stored counts at once: many of these may come within the second of a measurement.
    server.models.observe()
    return Response(json: conversation.json)
  }

  private func retrieve(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    Response(json: try object(http, context).json)
  }

  private func update(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let body = try body(http, context)
    if body.items != nil { context.ignored.append("items") }
    let changed = try change(id(http), context) { conversation in
      if let metadata = body.metadata { conversation.metadata = metadata }
    }
    return Response(json: changed.json)
  }

  private func delete(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let id = id(http)
    let isRemoved = try storing { () throws(PlatformError) in
      try records(context).removeConversation(id)
    }
    guard isRemoved else { throw .conversationNotFound(id) }
    return Response(json: ConversationObject.deleted(id))
  }

  // MARK: Items

  private func items(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    Response(json: try http.page(of: conversation(http, context).items))
  }

  private func addItems(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let id = id(http)
    try checkSize(http, stored: try object(http, context).bytes)
    try claimForStoring(http, context)
    let body = try body(http, context)
    guard let value = body.items else { throw .missing("items") }
    let items = try read(value, records(context)).items
    _ = try change(id, context) { $0.items += items }
    server.models.observe()
    return Response(json: ResponseObject.list(items, hasMore: false))
  }

  private func item(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let id = itemID(http)
    guard let item = try conversation(http, context).items.last(where: { $0.hasID(id) }) else {
      throw .itemNotFound(id)
    }
    return Response(json: item)
  }

  private func deleteItem(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let id = itemID(http)
    var isFound = false
    let changed = try change(self.id(http), context) { conversation in
      let before = conversation.items.count
      conversation.items.removeAll { $0.hasID(id) }
      isFound = conversation.items.count < before
    }
    guard isFound else { throw .itemNotFound(id) }
    return Response(json: changed.json)
  }
}
