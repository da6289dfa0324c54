// The tool `mcp` of Responses: servers of tools that this server asks, and which of their tools an answer may call.

package import JSON

/// A server of tools, as a request names it.
package struct MCPTool: Sendable {
  /// Some of its tools.
  struct Filter: Sendable {
    var names: [String]?
    var isReadOnly: Bool?

    /// Whether a tool is among them.
    func has(_ name: String, isReadOnly: Bool) -> Bool {
      (names.map { $0.contains { $0.utf8.elementsEqual(name.utf8) } } ?? true)
        && (self.isReadOnly.map { $0 == isReadOnly } ?? true)
    }
  }

  package let label: String
  /// The address, where the request says one. It may hold secrets.
  package let url: String?
  /// Lines of the head with their secrets.
  package let headers: [String]
  /// Nil for all.
  private let allowed: Filter?
  /// Tools that are called unasked; nil for none.
  private let unasked: Filter?
  /// Where the request has it.
  package let path: String
  /// As a response repeats it, without secrets.
  package let echo: JSONValue

  /// Names of the head that are this server's own.
  private static let ownHeaders = [
    "host", "content-length", "content-type", "transfer-encoding", "connection", "accept", "cookie", "expect",
  ]
  private static let (labelBytes, mostHeaders, headerBytes) = (64, 32, 8 << 10)
  private static let hidden = "<redacted>"

  init(_ tool: inout Fields) throws(APIError) {
    path = tool.path
    label = try tool.requiredString("server_label")
    guard ToolName.isValid(label, most: Self.labelBytes) else {
      throw .invalidValue(tool.name(of: "server_label"), "it must match ^[a-zA-Z0-9_-]{1,64}$")
    }
    for name in ["connector_id", "tunnel_id"] where tool.value(name) != nil {
      throw .unsupportedParameter(
        tool.name(of: name), "connectors and tunnels are OpenAI's own; name a server by 'server_url'")
    }
    url = try tool.string("server_url")
    let description = try tool.string("server_description")
    let authorization = try tool.string("authorization")
    var headers: [String] = []
    let given = try tool.object("headers") ?? JSONObject()
    try APIError.check(count: given.count, atMost: Self.mostHeaders, field: tool.name(of: "headers"))
    for (name, value) in given.entries {
      headers.append(try Self.header(name, value, tool.name(of: "headers.\(APIError.shortened(name))")))
    }
    if let authorization {
      let field = tool.name(of: "authorization")
      headers.append(try Self.header("Authorization", .string("Bearer " + authorization), field))
    }
    self.headers = headers
    allowed = try Self.filter(tool.value("allowed_tools"), tool.name(of: "allowed_tools"))
    unasked = try Self.unasked(&tool)
    for name in ["defer_loading", "allowed_callers"] { _ = tool.value(name) }
    var echo = JSONObject([("type", "mcp"), ("server_label", .string(label))])
    // Some addresses have a key behind the question mark.
    if let url { echo["server_url"] = .string(String(url.prefix { $0 != "?" && $0 != "#" })) }
    if let description { echo["server_description"] = .string(description) }
    echo["allowed_tools"] = tool.value("allowed_tools") ?? .null
    echo["require_approval"] = tool.value("require_approval") ?? "always"
    let names = given.keys.map { ($0, JSONValue.string(Self.hidden)) }
    echo["headers"] = given.isEmpty ? .null : .object(JSONObject(names))
    self.echo = .object(echo)
  }

  /// Whether the client lets the model call a tool.
  package func allows(_ name: String, isReadOnly: Bool) -> Bool {
    allowed?.has(name, isReadOnly: isReadOnly) ?? true
  }

  /// Whether the client wants to be asked before a tool is called; so it is where it does not say.
  package func asks(before name: String, isReadOnly: Bool) -> Bool {
    !(unasked?.has(name, isReadOnly: isReadOnly) ?? false)
  }

  private static func header(_ name: String, _ value: JSONValue, _ field: String) throws(APIError) -> String {
    guard let text = value.stringValue else { throw .wrongType(field, expected: "a string", found: value) }
    guard ToolName.isValid(name, most: headerBytes), !ownHeaders.contains(name.lowercased()),
      !name.lowercased().hasPrefix("mcp-")
    else { throw .invalidValue(field, "this header cannot be given here") }
    guard (name + text).utf8.count <= headerBytes, !text.utf8.contains(where: { $0 < 0x20 || $0 == 0x7F })
    else {
      throw .invalidValue(field, "a header is one line of at most \(headerBytes) bytes")
    }
    return "\(name): \(text)"
  }

  private static func filter(_ value: JSONValue?, _ field: String) throws(APIError) -> Filter? {
    guard let value, !value.isNull else { return nil }
    if value.arrayValue != nil {
      return Filter(names: try names(value, field))
    }
    var members = try Fields(value, path: field)
    return Filter(
      names: try members.value("tool_names").map { (value) throws(APIError) in
        try names(value, members.name(of: "tool_names"))
      },
      isReadOnly: try members.bool("read_only"))
  }

  private static func names(_ value: JSONValue, _ field: String) throws(APIError) -> [String] {
    let names = value.arrayValue?.compactMap(\.stringValue)
    guard let names, names.count == value.arrayValue?.count else {
      throw .wrongType(field, expected: "an array of strings", found: value)
    }
    return names
  }

  private static func unasked(_ tool: inout Fields) throws(APIError) -> Filter? {
    let field = tool.name(of: "require_approval")
    switch tool.value("require_approval") {
    case nil, "always"?: return nil
    case "never"?: return Filter()
    case let value?:
      guard value.objectValue != nil else {
        throw .invalidValue(field, "expected 'always', 'never' or an object")
      }
      var members = try Fields(value, path: field)
      _ = try filter(members.value("always"), members.name(of: "always"))
      return try filter(members.value("never"), members.name(of: "never"))
    }
  }

  // MARK: Functions

  /// The name of a tool as one of a function: other letters become `_`.
  package static func functionName(_ name: String) -> String {
    let letters = name.unicodeScalars.map { scalar in
      scalar.isASCII && ToolName.isLetter(UInt8(scalar.value)) ? Character(scalar) : "_"
    }
    return String(letters.prefix(ToolName.maxBytes))
  }

  /// The same, where another tool has this name.
  package func functionName(besides name: String) -> String {
    ToolName.joined(label, Self.functionName(name))
  }
}

extension Tool {
  /// A function that stands for a tool of another server. Its arguments are held to the schema where that can be.
  ///
  /// - Throws: for a schema that is none, or too large.
  package init(
    remote name: String, description: String, schema: JSONValue, path: String, limits: RequestLimits
  ) throws(APIError) {
    var fields = try Fields(
      ["name": .string(name), "description": .string(description), "parameters": schema], path: path)
    try self.init(&fields, limits: limits)
  }
}

/// The servers of tools of a request, and what it says of calls.
package struct MCPTools: Sendable {
  /// What a request chooses of one server.
  package struct Choice: Sendable {
    package let label: String
    /// Nil for any of its tools.
    package let name: String?

    init(_ choice: inout Fields) throws(APIError) {
      (label, name) = (try choice.requiredString("server_label"), try choice.string("name"))
    }

    /// Whether it is a choice of this tool.
    package func has(_ label: String, _ name: String) -> Bool {
      self.label.utf8.elementsEqual(label.utf8)
        && (self.name.map { $0.utf8.elementsEqual(name.utf8) } ?? true)
    }
  }

  package var servers: [MCPTool]
  /// The only tools that may be called; nil for all.
  package var choices: [Choice]?
  /// Whether the answer begins with a call of one of `choices`.
  package var isForced: Bool
  /// Whether the model may call at all.
  package var mayCall = true
  /// Lists of tools that the conversation has, by label the last.
  package var lists: [JSONValue] = []
  /// Requests for approval that this request approves.
  package var approved: [JSONValue] = []

  /// The server of a label.
  package func server(_ label: String) -> MCPTool? {
    servers.first { $0.label.utf8.elementsEqual(label.utf8) }
  }

  /// Takes what the conversation says of servers: lists, and calls that wait for the client's word.
  ///
  /// - Parameters:
  ///   - context: items of earlier turns.
  ///   - input: those of the request, with their places in it.
  /// - Throws: 400 for an answer to no question, or to one that is answered.
  mutating func read(_ context: [JSONValue], _ input: ResponsesInputItems) throws(APIError) {
    let items = context + input.items
    lists = items.filter { $0["type"] == "mcp_list_tools" && ($0["error"]?.isNull ?? true) }
    var asked: [ByteKey: JSONValue] = [:]
    var answered: Set<ByteKey> = []
    for (index, item) in items.enumerated() {
      switch item["type"]?.stringValue {
      case "mcp_approval_request": asked[ByteKey(item["id"]?.stringValue ?? "")] = item
      case "mcp_call": answered.insert(ByteKey(item["approval_request_id"]?.stringValue ?? ""))
      case "mcp_approval_response":
        let id = item["approval_request_id"]?.stringValue ?? ""
        let isNew = answered.insert(ByteKey(id)).inserted
        guard index >= context.count else { continue }
        let field = "\(input.path(index - context.count)).approval_request_id"
        guard let request = asked[ByteKey(id)] else {
          throw .invalidValue(field, "there is no request for approval '\(APIError.shortened(id))'")
        }
        guard isNew else { throw .invalidValue(field, "this request is answered already") }
        guard item["approve"] == true else { continue }
        guard server(request["server_label"]?.stringValue ?? "") != nil else {
          throw .invalidValue(field, "'tools' does not name the server of this call; send the tool again")
        }
        approved.append(request)
      default: break
      }
    }
  }
}

/// Items of a request and their places.
package struct ResponsesInputItems {
  let items: [JSONValue]
  let paths: [String]

  func path(_ index: Int) -> String { paths.indices.contains(index) ? paths[index] : "input" }
}

/// What came of a call of a tool of another server, as the model sees it.
package enum MCPMessages {
  /// The tool's message.
  package static func result(of item: JSONValue) -> JSONValue {
    ["role": "tool", "tool_call_id": item["id"] ?? "", "content": .string(text(of: item))]
  }

  /// What came of a call.
  private static func text(of item: JSONValue) -> String {
    if let output = item["output"]?.stringValue { return output }
    let error = item["error"] ?? nil
    let parts = (error["content"]?.arrayValue ?? []).compactMap { $0["text"]?.stringValue }
    let words = error.stringValue ?? error["message"]?.stringValue ?? parts.joined(separator: "\n")
    return "Error: " + (words.isEmpty ? "the call failed" : words)
  }

  /// What the model is told of a call that the client has refused.
  static func refusal(_ reason: String?) -> String {
    "The user refused this call." + (reason.map { " " + $0 } ?? "")
  }
}

/// What items of servers of tools are while they are made.
enum MCPItem {
  static let types: Set = ["mcp_list_tools", "mcp_call", "mcp_approval_request"]

  /// An item as it is when it begins.
  static func begun(_ item: JSONValue) -> JSONValue {
    guard var object = item.objectValue else { return item }
    switch item["type"]?.stringValue {
    case "mcp_list_tools":
      (object["tools"], object["error"]) = ([], nil)
    case "mcp_call":
      (object["arguments"], object["status"], object["output"], object["error"]) = (
        "", "in_progress", .null, .null
      )
    default: break
    }
    return .object(object)
  }

  /// One that something cuts off.
  static func cut(_ item: JSONValue) -> JSONValue {
    guard var object = item.objectValue else { return item }
    switch item["type"]?.stringValue {
    case "mcp_list_tools": object["error"] = "the answer ended before the server had answered"
    case "mcp_call": object["status"] = "incomplete"
    default: break
    }
    return .object(object)
  }
}
