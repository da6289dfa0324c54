// POST /mcp: the Model Context Protocol over streamable HTTP. A client's vector stores are its notes.

import HTTP
import JSON
import MCP
import Platform
import Wire

/// Nothing is kept between requests but which of them run, so that one can be taken back: a session is a name.
struct MCPRoute {
  let server: ServerContext
  let worker: ArchiveWorker?
  /// Requests that run, by client, session and id, and whether each is taken back.
  private let running = Monitor<[ByteKey: Bool]>([:])

  private static let (sessionHeader, versionHeader) = ("mcp-session-id", "mcp-protocol-version")

  static func table(_ server: ServerContext, _ worker: ArchiveWorker?) -> RouteTable {
    let route = MCPRoute(server: server, worker: worker)
    return RouteTable(
      .mcp,
      [
        .post(
          "/mcp", "mcp", "The client's vector stores as tools of assistants (Model Context Protocol)",
          reads: .mcp, gives: "MCPAnswer", route.respond)
      ])
  }

  private func respond(to http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    if let version = http.headers[Self.versionHeader],
      !(MCPVersion.handshake + MCPVersion.stateless).contains(version)
    {
      return Response(json: MCPError.unsupportedVersion(version).reply(), status: 400)
    }
    let body = try http.jsonBody(context.memory)
    let message: MCPMessage
    do throws(MCPError) {
      message = try MCPMessage(body)
      try check(http, message)
    } catch {
      return Response(json: error.reply(), status: 400)
    }
    guard case .request(let id) = message.kind else {
      if let id = message.cancelledID { cancel(id, http, context) }
      return Response(status: 202)
    }
    // Without a session any client could take back what another with the same key has asked.
    let key = http.headers[Self.sessionHeader].map { Self.key(id, session: $0, context) }
    if let key {
      let isNew = running.withLock { running in
        defer { running[key] = running[key] ?? false }
        return running[key] == nil
      }
      guard isNew else {
        return Response(
          json: MCPError.invalidRequest("a request with this id is running").reply(to: id), status: 400)
      }
    }
    guard let token = message.progressToken, http.headers.hasToken("text/event-stream", in: "accept") else {
      return answer(message, id, key, context) { _ in }
    }
    // Progress needs a stream, which begins with its first word.
    return .events { stream in
      let response = answer(message, id, key, context) { progress in
        try? stream.send(MCPMessage.progress(token, progress).text, event: "message")
      }
      guard case .bytes(let bytes) = response.body else { return }
      stream.finish(String(decoding: bytes, as: UTF8.self), event: "message")
    }
  }

  private func answer(
    _ message: MCPMessage, _ id: JSONValue, _ key: ByteKey?, _ context: ConnectionContext,
    _ tell: @escaping (MCPProgress) -> Void
  ) -> Response {
    defer { if let key { running.withLock { $0[key] = nil } } }
    let running = running
    let work = MCPWork(
      isUnwanted: {
        context.isClientGone() || key.map { key in running.withLock { $0[key] == true } } ?? false
      }, tell: tell)
    let notes = StoreNotes(
      server: server, worker: worker, client: context.client, peer: context.peer, memory: context.memory)
    do throws(MCPError) {
      var response = Response(
        json: MCPMessage.reply(id, try NoteServer(notes).result(of: message, work)))
      if message.method == "initialize" { response.headers.add(Self.sessionHeader, server.settings.makeID()) }
      return response
    } catch {
      // A version without a handshake has statuses for errors.
      let isStateless = (try? message.statelessVersion()) != .some(nil)
      let status = !isStateless ? 200 : error.code == -32601 ? 404 : error.code == -32603 ? 200 : 400
      return Response(json: error.reply(to: id), status: status)
    }
  }

  /// Proxies read the headers, this server the body: they must say the same.
  private func check(_ http: Request, _ message: MCPMessage) throws(MCPError) {
    func refuse(_ header: String) -> MCPError {
      var error = MCPError.headerMismatch(header)
      error.id = message.id ?? .null
      return error
    }
    guard case .request = message.kind, let version = try message.statelessVersion() else { return }
    guard http.headers[Self.versionHeader] == version else { throw refuse("MCP-Protocol-Version") }
    guard http.headers["mcp-method"].map({ $0 == message.method }) ?? false else {
      throw refuse("Mcp-Method")
    }
    let name = message.params["name"]?.stringValue ?? message.params["uri"]?.stringValue
    guard let name, ["tools/call", "prompts/get", "resources/read"].contains(message.method) else { return }
    guard let said = http.headers["mcp-name"], Self.plain(said) == name else { throw refuse("Mcp-Name") }
  }

  /// The value of a header, whose letters other than ASCII's come as Base64.
  private static func plain(_ value: String) -> String? {
    let (opening, closing) = ("=?base64?", "?=")
    guard value.hasPrefix(opening), value.hasSuffix(closing) else { return value }
    return Base64.decode(String(value.dropFirst(opening.count).dropLast(closing.count)))
      .flatMap { String(validating: $0, as: UTF8.self) }
  }

  // MARK: What is taken back

  private static func key(_ id: JSONValue, session: String, _ context: ConnectionContext) -> ByteKey {
    ByteKey("\(context.client.number) \(session) \(id.text)")
  }

  private func cancel(_ id: JSONValue, _ http: Request, _ context: ConnectionContext) {
    guard let session = http.headers[Self.sessionHeader] else { return }
    let key = Self.key(id, session: session, context)
    running.withLock { if $0[key] != nil { $0[key] = true } }
  }
}

extension DescribedBody {
  fileprivate static let mcp = DescribedBody(
    "MCPRequest", like: ["jsonrpc": "2.0", "id": 1, "method": "tools/list"]
  ) { (fields) throws(APIError) in
    _ = try fields.requiredString("jsonrpc", "2.0", like: #""2.0""#)
    _ = try fields.requiredString("method", "what is asked, such as tools/call", like: #""tools/list""#)
  }
}

extension Wire {
  /// JSON-RPC's: also what is wrong before a message is read.
  static let mcp = Wire(roots: ["/mcp"], idHeader: nil, schema: "MCPAnswer") { error, _ in
    let code = error.code == "invalid_json" ? -32700 : error.status >= 500 ? -32603 : -32000
    return MCPError(code, error.message, data: error.code.map { ["code": .string($0)] }).reply()
  }
}
