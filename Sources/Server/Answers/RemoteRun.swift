// The tools of other servers in one answer: their lists, and the calls that the model makes of them.

import Fetch
import HTTP
import JSON
import MCP
import Pipeline
import Platform
import Tokenizers
import Wire

/// Used by one thread, but for its calls, which have threads of their own.
final class RemoteRun {
  private struct Server {
    let tool: MCPTool
    let entry: ToolServers.Entry
    let session: any ToolServer
    /// What the session has said of changes when its tools were listed.
    var changes = 0
  }
  /// A function that the model knows.
  private struct Function {
    let server: Int
    let tool: RemoteTool
  }
  /// A call that is made, or a question.
  struct Call: Sendable {
    let label: String
    let name: String
    let arguments: String
    /// The question that the client has said yes to.
    var approvalID: String?
    fileprivate let server: Int
    fileprivate var asks = false
  }

  private let plan: MCPTools
  private let scope: RequestScope
  private let isUnwanted: () -> Bool
  private var servers: [Server] = []
  private var functions: [ByteKey: Function] = [:]
  /// Calls that may still be made.
  private(set) var left = 16
  /// Whether nobody waits any more, for the threads of calls.
  private let isOver = Monitor(false)

  private static let listSeconds = 20.0
  /// How long nobody looks whether the answer is still wanted, seconds.
  private static let lookSeconds = 0.05
  private static let stackBytes = 1 << 20

  typealias Deliver = (TokenStream.SearchStep) throws(AnswerFailure) -> Void

  /// - Parameter isUnwanted: whether nobody waits for the answer any more.
  /// - Returns: nil when the request names no server.
  /// - Throws: 400 for servers that may not be asked, before anything is answered.
  init?(_ request: ChatRequest, _ scope: RequestScope, isUnwanted: @escaping () -> Bool) throws(APIError) {
    guard let plan = request.remote else { return nil }
    (self.plan, self.scope, self.isUnwanted) = (plan, scope, isUnwanted)
    for tool in plan.servers {
      let entry = try Self.entry(tool, scope)
      servers.append(Server(tool: tool, entry: entry, session: entry.server))
    }
  }

  /// Sessions that only this answer has are ended where nobody waits for it.
  deinit {
    isOver.update { $0 = true }
    for server in servers { server.entry.leave(server.session) }
  }

  private static func entry(_ tool: MCPTool, _ scope: RequestScope) throws(APIError) -> ToolServers.Entry {
    let (known, key) = (scope.settings.toolServers, scope.client.name)
    if let url = tool.url {
      let field = "\(tool.path).server_url"
      let entry: ToolServers.Entry?
      do throws(FetchError) {
        entry = try known?.entry(tool.label, at: url, secrets: tool.headers, for: key)
      } catch {
        throw .invalidValue(field, "\(error)")
      }
      if let entry { return entry }
      throw .unsupportedValue(
        field,
        "this server asks no addresses that requests name; its operator can allow it (--mcp-config), or name the server"
      )
    }
    let field = "\(tool.path).server_label"
    guard let entry = known?.entry(tool.label, for: key) else {
      throw .unsupportedValue(
        field,
        "no server of this name can be used here; its operator names servers in the file of --mcp-config"
      )
    }
    guard tool.headers.isEmpty else {
      throw .unsupportedParameter("\(tool.path).headers", "they are sent to a 'server_url' only")
    }
    return entry
  }

  // MARK: Lists

  /// Lists the tools, and shows the model those that it may call.
  ///
  /// - Throws: where a call is demanded and no tool is there.
  func begin(_ request: inout ChatRequest, _ deliver: Deliver) throws(AnswerFailure) {
    guard plan.mayCall else { return }
    for index in servers.indices { try list(index, &request, deliver) }
    if request.toolChoice == .none, !request.tools.isEmpty { request.toolChoice = .auto }
    guard request.toolChoice == .required || plan.isForced else { return }
    guard plan.isForced ? !functions.isEmpty : !request.tools.isEmpty else {
      throw .refused(
        APIError(
          status: 424, type: "external_connector_error", code: "external_connector_error",
          param: "tool_choice",
          message: "A call is demanded, and no server has a tool for it."))
    }
    guard plan.isForced else { return }
    let names = request.tools.map(\.name).filter { functions[ByteKey($0)] != nil }
    request.toolChoice = names.count == 1 ? .named(names[0]) : .required
  }

  /// Whether the first generation has only tools of other servers, one of which it calls.
  var isForced: Bool { plan.mayCall && plan.isForced }

  private func list(
    _ index: Int, _ request: inout ChatRequest, isChange: Bool = false, _ deliver: Deliver
  ) throws(AnswerFailure) {
    let server = servers[index]
    // A list that has changed is told as one that the conversation does not have.
    let known = isChange ? nil : plan.lists.last { $0["server_label"] == .string(server.tool.label) }
    if let known, !server.entry.isNear { return show(Self.tools(of: known), of: index, &request) }
    var item = JSONObject([
      ("id", .string("mcpl_" + scope.settings.makeID())), ("type", "mcp_list_tools"),
      ("server_label", .string(server.tool.label)), ("tools", [] as JSONValue),
    ])
    // What a program of this machine has is known at once; where it is what the conversation has, nothing is told.
    if known == nil { try deliver(.remoteBegan(.object(item))) }
    var tools: [RemoteTool] = []
    servers[index].changes = server.session.changes
    do throws(ToolFault) {
      tools = try server.session.tools(ToolWait(seconds: Self.listSeconds, isUnwanted: isUnwanted))
    } catch {
      if error == .unwanted { throw .clientGone }
      Log.warning("tools not listed", ["server": server.tool.label, "ending": error.word])
      item["error"] = .string("The server '\(server.tool.label)' gave no list: \(error).")
    }
    tools = tools.filter { server.tool.allows($0.name, isReadOnly: $0.isReadOnly) }
    item["tools"] = .array(tools.map(\.json))
    let isNews = known.map { Self.tools(of: $0) != tools } ?? true
    if known != nil, isNews { try deliver(.remoteBegan(.object(item))) }
    if isNews { try deliver(.remoteEnded(.object(item))) }
    show(tools, of: index, &request)
  }

  /// Shows the model the tools of a server, in the place of those that it had.
  private func show(_ tools: [RemoteTool], of index: Int, _ request: inout ChatRequest) {
    let server = servers[index].tool
    request.tools.removeAll { functions[ByteKey($0.name)]?.server == index }
    functions = functions.filter { $0.value.server != index }
    for tool in tools where request.tools.count < scope.limits.tools {
      if let choices = plan.choices, !choices.contains(where: { $0.has(server.label, tool.name) }) {
        continue
      }
      guard server.allows(tool.name, isReadOnly: tool.isReadOnly) else { continue }
      var name = MCPTool.functionName(tool.name)
      if request.tool(named: name) != nil { name = server.functionName(besides: name) }
      guard request.tool(named: name) == nil,
        let own = try? Tool(
          remote: name, description: tool.description, schema: tool.schema, path: server.path,
          limits: scope.limits)
      else { continue }
      request.tools.append(own)
      functions[ByteKey(name)] = Function(server: index, tool: tool)
    }
  }

  /// Those of an item.
  private static func tools(of item: JSONValue) -> [RemoteTool] {
    (item["tools"]?.arrayValue ?? []).compactMap { tool in
      guard let name = tool["name"]?.stringValue else { return nil }
      return RemoteTool(
        name: name, description: tool["description"]?.stringValue ?? "",
        schema: tool["input_schema"] ?? ["type": "object"],
        annotations: tool["annotations"]?.objectValue.map(JSONValue.object))
    }
  }

  /// Lists again what has changed meanwhile.
  func listChanges(_ request: inout ChatRequest, _ deliver: Deliver) throws(AnswerFailure) {
    for index in servers.indices where servers[index].session.changes > servers[index].changes {
      try list(index, &request, isChange: true, deliver)
    }
  }

  /// Takes the tools from the model.
  func withdraw(from request: inout ChatRequest) {
    request.tools.removeAll { functions[ByteKey($0.name)] != nil }
    functions = [:]
  }

  // MARK: Calls

  func has(_ function: String) -> Bool { functions[ByteKey(function)] != nil }

  /// What a model asks for.
  func call(of function: String, _ arguments: String) -> Call? {
    guard let found = functions[ByteKey(function)] else { return nil }
    let tool = servers[found.server].tool
    return Call(
      label: tool.label, name: found.tool.name, arguments: arguments.utf8.isEmpty ? "{}" : arguments,
      server: found.server, asks: tool.asks(before: found.tool.name, isReadOnly: found.tool.isReadOnly))
  }

  /// Calls that the client has said yes to.
  var approved: [Call] {
    plan.approved.compactMap { item in
      let label = item["server_label"]?.stringValue ?? ""
      guard let index = servers.firstIndex(where: { $0.tool.label.utf8.elementsEqual(label.utf8) }) else {
        return nil
      }
      return Call(
        label: label, name: item["name"]?.stringValue ?? "",
        arguments: item["arguments"]?.stringValue ?? "{}",
        approvalID: item["id"]?.stringValue, server: index)
    }
  }

  /// Makes calls side by side, and tells of them one after the other.
  ///
  /// - Parameters:
  ///   - most: calls that are made; the rest is left out.
  ///   - onSilence: shows that the answer lives.
  /// - Returns: the messages of what was called, and whether the client is asked about a call.
  func make(
    _ calls: [Call], most: Int, onSilence: () throws(AnswerFailure) -> Void, _ deliver: Deliver
  ) throws(AnswerFailure) -> (messages: [JSONValue], asks: Bool) {
    let calls = calls.prefix(max(0, min(left, most)))
    left -= calls.count
    let results = calls.map { $0.asks ? nil : begin($0) }
    var messages: [JSONValue] = []
    for (call, result) in zip(calls, results) {
      var item = JSONObject([
        ("id", .string((call.asks ? "mcpr_" : "mcp_") + scope.settings.makeID())),
        ("type", call.asks ? "mcp_approval_request" : "mcp_call"),
        ("server_label", .string(call.label)), ("name", .string(call.name)),
        ("arguments", .string(call.arguments)),
      ])
      guard let result else {
        try deliver(.remoteBegan(.object(item)))
        try deliver(.remoteEnded(.object(item)))
        continue
      }
      (item["status"], item["output"], item["error"]) = ("in_progress", .null, .null)
      if let id = call.approvalID { item["approval_request_id"] = .string(id) }
      try deliver(.remoteBegan(.object(item)))
      let outcome = try wait(for: result, onSilence)
      switch outcome {
      case .success(let output) where output.failure == nil:
        (item["status"], item["output"]) = ("completed", .string(try cut(output.text, calls.count)))
      case .success(let output):
        item["status"] = "failed"
        let words = try cut(output.text, calls.count)
        item["error"] = [
          "type": "mcp_tool_execution_error", "content": [["type": "text", "text": .string(words)]],
        ]
      case .failure(let fault):
        (item["status"], item["error"]) = ("failed", fault.json(of: call.label))
      }
      try deliver(.remoteEnded(.object(item)))
      let id = item["id"]?.stringValue ?? ""
      messages += [
        .toolCall(id: id, MCPTool.functionName(call.name), arguments: call.arguments),
        MCPMessages.result(of: .object(item)),
      ]
    }
    return (messages, calls.contains(where: \.asks))
  }

  private typealias Outcome = Result<ToolOutput, ToolFault>

  /// Begins a call on a thread of its own.
  private func begin(_ call: Call) -> Monitor<Outcome?> {
    let result = Monitor<Outcome?>(nil)
    let (session, seconds) = (servers[call.server].session, servers[call.server].entry.seconds)
    let over = isOver
    let work: @Sendable () -> Void = {
      let begin = Instant.now
      let outcome = Self.outcome(call, session, ToolWait(seconds: seconds) { over.withLock { $0 } })
      Self.log(call, outcome, seconds: Instant.now.seconds(since: begin))
      result.update { $0 = outcome }
    }
    let thread = try? Thread(name: "mcp-call", stackBytes: Self.stackBytes, work)
    if thread == nil { result.update { $0 = .failure(.unreachable("no thread is left")) } }
    thread?.detach()
    return result
  }

  /// For the operator: who was asked for what, and no text of it.
  private static func log(_ call: Call, _ outcome: Outcome, seconds: Double) {
    var ending = "done"
    if case .failure(let fault) = outcome { ending = fault.word }
    Log.info(
      "tool called",
      [
        "server": call.label, "tool": call.name, "ms": "\(Int(seconds * 1_000))",
        "argument_bytes": "\(call.arguments.utf8.count)", "ending": ending,
      ])
  }

  private static func outcome(_ call: Call, _ session: any ToolServer, _ wait: ToolWait) -> Outcome {
    guard let arguments = try? JSONValue(parsing: call.arguments), arguments.objectValue != nil else {
      return .failure(.refused(code: -32602, message: "the arguments are no object"))
    }
    do throws(ToolFault) {
      return .success(try session.call(call.name, arguments, wait))
    } catch {
      return .failure(error)
    }
  }

  private func wait(
    for result: Monitor<Outcome?>, _ onSilence: () throws(AnswerFailure) -> Void
  ) throws(AnswerFailure) -> Outcome {
    var lastSign = Instant.now
    while true {
      if let outcome: Outcome = result.wait(until: Instant.now.adding(seconds: Self.lookSeconds), { $0 }) {
        return outcome
      }
      if isUnwanted() {
        isOver.update { $0 = true }
        throw .clientGone
      }
      guard Instant.now.seconds(since: lastSign) >= scope.settings.keepAliveSeconds else { continue }
      lastSign = .now
      try onSilence()
    }
  }

  /// A text as far as there is room for it in the prompt, for which the memory is claimed.
  private func cut(_ text: String, _ calls: Int) throws(AnswerFailure) -> String {
    let bytes = 4 * text.utf8.count
    if let memory = scope.memory, !memory.extend(by: bytes) {
      throw .outOfMemory(needed: bytes, limit: memory.limit)
    }
    let room = scope.model.contextTokens / 4 / max(1, calls)
    var (kept, all) = (text, text.utf8.count)
    // No token of a language has more.
    if all > room * 16 { kept = String(decoding: text.utf8.prefix(room * 16), as: UTF8.self) }
    while !kept.isEmpty, scope.model.tokenizer.encode(kept, addSpecialTokens: false).count > room {
      kept = String(decoding: kept.utf8.prefix(kept.utf8.count * 3 / 4), as: UTF8.self)
    }
    all -= kept.utf8.count
    return all <= 0 ? kept : kept + "\n[\(all) bytes more are left out.]"
  }
}

extension ToolFault {
  /// As the item of a call has it.
  fileprivate func json(of label: String) -> JSONValue {
    let words = JSONValue.string("The server '\(label)' did not do it: \(self).")
    switch self {
    case .status(let status): return ["type": "http_error", "code": .int(status), "message": words]
    case .refused(let code, let message):
      return ["type": "mcp_protocol_error", "code": .int(code), "message": .string(message)]
    default: return ["type": "mcp_protocol_error", "code": .int(code), "message": words]
    }
  }

  /// Without what the server said.
  fileprivate var word: String {
    switch self {
    case .refused(let code, _): "error \(code)"
    case .unreachable: "unreachable"
    default: "\(self)"
    }
  }

  /// As the protocol's own libraries number them.
  private var code: Int {
    switch self {
    case .tooSlow: -32001
    case .garbage: -32700
    default: -32000
    }
  }
}
