// /v1/chat/completions with GET, and what is below it: chat completions that were made with `store: true`.

import HTTP
import JSON
import Platform
import Wire

struct StoredChatRoute {
  let server: ServerContext

  static func table(_ server: ServerContext) -> RouteTable {
    let route = StoredChatRoute(server: server)
    let one = "/v1/chat/completions/:id"
    return RouteTable(
      .openAI,
      [
        .get(
          "/v1/chat/completions", "listChatCompletions",
          "Completions that were stored; also filtered by metadata[KEY]", gives: "ChatCompletionList",
          route.list
        ) { $0.query = ["after", "before", "limit", "order", "model"] },
        .get(one, "retrieveChatCompletion", "A stored completion", gives: "ChatCompletion", route.retrieve),
        .post(
          one, "updateChatCompletion", "Changes the metadata of a stored completion",
          reads: .of(
            StoredChatUpdate.self, "ChatCompletionUpdate", like: ["metadata": ["topic": "farewells"]]),
          gives: "ChatCompletion", route.update),
        .delete(one, "deleteChatCompletion", "Forgets a stored completion", gives: "Deleted", route.delete),
        .get(
          one + "/messages", "listChatMessages", "The messages that a stored completion was asked with",
          gives: "ChatMessageList", route.messages
        ) { $0.query = ["after", "before", "limit", "order"] },
      ])
  }

  private func id(_ http: Request) -> String { http.parameter("id") ?? "" }

  private func completion(_ http: Request, _ context: ConnectionContext) throws(APIError) -> StoredCompletion
  {
    let records = server.records(for: context)
    guard let found = records.completion(id(http)) else {
      try records.check()
      throw .completionNotFound(id(http))
    }
    return found
  }

  /// A page, the oldest first, of those with the model and the metadata that the query names.
  private func list(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let records = server.records(for: context)
    let model = http.query("model")
    let metadata = http.metadataQuery
    let heads = records.completionHeads().filter { head in
      model.map { $0.utf8.elementsEqual(head.model.utf8) } ?? true
        && metadata.allSatisfy { head.metadata[$0.key]?.stringValue == $0.value }
    }
    let page = try http.listPage(heads.map(\.id), isUsuallyAscending: true) { place in
      // One that was deleted meanwhile is told by its id alone.
      records.completion(heads[place].id)?.json ?? ["id": .string(heads[place].id)]
    }
    try records.check()
    return Response(json: page)
  }

  private func retrieve(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    Response(json: try completion(http, context).json)
  }

  private func update(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let body = try server.read(StoredChatUpdate.self, http, context)
    let records = server.records(for: context)
    let id = id(http)
    let changed = try storing { () throws(PlatformError) in
      try records.updateCompletion(id) { $0.head.metadata = body.metadata }
    }
    guard let changed else {
      try records.check()
      throw .completionNotFound(id)
    }
    return Response(json: changed.json)
  }

  private func delete(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let id = id(http)
    let isRemoved = try storing { () throws(PlatformError) in
      try server.records(for: context).removeCompletion(id)
    }
    guard isRemoved else { throw .completionNotFound(id) }
    return Response(json: StoredChat.deleted(id))
  }

  private func messages(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let found = try completion(http, context)
    let messages = StoredChat.messages(found.messages, of: found.head.id)
    let ids = messages.map { $0["id"]?.stringValue ?? "" }
    return Response(json: try http.listPage(ids, isUsuallyAscending: true) { messages[$0] })
  }
}

extension Request {
  /// `metadata[KEY]=VALUE`, as the API filters.
  fileprivate var metadataQuery: [(key: String, value: String)] {
    queryItems.compactMap { item in
      guard item.name.hasPrefix("metadata["), item.name.hasSuffix("]") else { return nil }
      return (String(item.name.dropFirst(9).dropLast()), item.value)
    }
  }
}

extension APIError {
  static func completionNotFound(_ id: String) -> APIError {
    APIError(
      status: 404, code: nil,
      message:
        "Chat completion with id '\(shortened(id))' not found. Only those made with 'store': true are kept.")
  }
}
