// /v1/mcp/servers: what the operator's servers of tools have, for a person who chooses among it before a model may.

import HTTP
import JSON
import MCP
import Platform
import Wire

/// Calls nothing: calls are made in answers, where the client is asked.
struct ToolServersRoute {
  let server: ServerContext

  /// How long a server may take to say what it has, seconds.
  private static let listSeconds = 20.0

  static func table(_ server: ServerContext) -> RouteTable {
    let route = ToolServersRoute(server: server)
    let one = "/v1/mcp/servers/:label"
    return RouteTable(
      .openAI,
      [
        // Programs are started for it, so it is no GET, which any page of the web can have a browser send.
        .post(
          one, "listToolServer", "Tools, prompts and resources of a server of --mcp-config",
          gives: "ToolServer", route.list),
        .post(
          one + "/text", "readToolServer", "What a prompt or a resource of such a server says",
          reads: .of(ToolTextRequest.self, like: ["resource": "file:///notes/alps.md"]),
          gives: "ToolServerText", route.read),
      ])
  }

  /// - Throws: 404 for a label that the client may not use.
  private func entry(_ http: Request, _ context: ConnectionContext) throws(APIError) -> ToolServers.Entry {
    let label = http.parameter("label") ?? ""
    guard let entry = server.settings.toolServers?.entry(label, for: context.client.name) else {
      throw APIError(
        status: 404, code: nil, param: "label",
        message: "No server of the name '\(APIError.shortened(label))' can be used here.")
    }
    return entry
  }

  private func list(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let entry = try entry(http, context)
    let session = entry.server
    defer { entry.leave(session) }
    let wait = ToolWait(seconds: Self.listSeconds, isUnwanted: context.isClientGone)
    var object = JSONObject([
      ("object", "mcp_server"), ("label", .string(entry.label)), ("tools", [] as JSONValue),
      ("prompts", [] as JSONValue), ("resources", [] as JSONValue), ("error", .null),
    ])
    do throws(ToolFault) {
      object["tools"] = .array(try session.tools(wait).map(\.json))
      for kind in [ToolTexts.prompts, .resources] {
        object["\(kind)"] = .array(try kind.list(session, wait))
      }
    } catch {
      object["error"] = .string("The server '\(entry.label)' gave no list: \(error).")
    }
    return Response(json: .object(object))
  }

  private func read(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let entry = try entry(http, context)
    let asked = try server.read(ToolTextRequest.self, http, context)
    let session = entry.server
    defer { entry.leave(session) }
    let wait = ToolWait(seconds: entry.seconds, isUnwanted: context.isClientGone)
    do throws(ToolFault) {
      let kind = asked.isPrompt ? ToolTexts.prompts : .resources
      let text = try kind.text(of: asked.name, asked.arguments, from: session, wait)
      return Response(json: ["object": "mcp_text", "text": .string(text)])
    } catch {
      throw APIError(
        status: 424, type: "external_connector_error", code: "external_connector_error", param: nil,
        message: "The server '\(entry.label)' did not give it: \(error).")
    }
  }
}

/// A prompt or a resource of a server of tools.
struct ToolTextRequest: RequestBody {
  let isPrompt: Bool
  /// Of a prompt, or the URI of a resource.
  let name: String
  /// Of a prompt: texts by their names.
  let arguments: JSONObject
  var ignored: [String] = []

  init(_ fields: inout Fields) throws(APIError) {
    let prompt = try fields.string("prompt", maxBytes: 1_024, "the name of a prompt", like: #""review""#)
    let resource = try fields.string("resource", maxBytes: 8_192, "the URI of a resource")
    arguments = try fields.object("arguments", "of a prompt: texts by their names") ?? JSONObject()
    isPrompt = try fields.one(of: ["prompt", "resource"], Shape.string) == "prompt"
    for (key, value) in arguments.entries where value.stringValue == nil {
      throw .wrongType("arguments.\(APIError.shortened(key))", expected: "a string", found: value)
    }
    name = prompt ?? resource ?? ""
  }
}

extension ToolServers.Entry {
  /// Ends a session that one answer alone has had, where nobody waits for it.
  func leave(_ session: any ToolServer) {
    guard !isNear else { return }
    try? Thread(name: "mcp-end") { session.end() }.detach()
  }
}

extension RemoteTool {
  /// As Responses tell of it.
  var json: JSONValue {
    [
      "name": .string(name), "description": description.isEmpty ? nil : .string(description),
      "input_schema": schema, "annotations": annotations ?? nil,
    ]
  }
}
