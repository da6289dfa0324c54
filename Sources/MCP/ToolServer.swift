// A server of tools somewhere else: what it has, what it is asked, and what can go wrong with it.

package import JSON
package import Platform

/// A tool of another server.
package struct RemoteTool: Sendable, Equatable {
  /// As its server knows it.
  package let name: String
  /// At most 4 KiB, without control characters; empty where there is none.
  package let description: String
  /// JSON Schema of the arguments, an object.
  package let schema: JSONValue
  package let annotations: JSONValue?

  package init(name: String, description: String, schema: JSONValue, annotations: JSONValue?) {
    (self.name, self.description, self.schema, self.annotations) = (name, description, schema, annotations)
  }

  /// Whether its server says that it changes nothing.
  package var isReadOnly: Bool { annotations?["readOnlyHint"] == true }

  /// Bytes of a name and of a description.
  private static let (nameBytes, descriptionBytes) = (256, 4 << 10)

  /// Reads one of a server's list; nil for what is none.
  init?(_ value: JSONValue) {
    guard let name = value["name"]?.stringValue, (1...Self.nameBytes).contains(name.utf8.count) else {
      return nil
    }
    let words = value["description"]?.stringValue ?? value["title"]?.stringValue ?? ""
    let isPlain = { (scalar: Unicode.Scalar) in
      scalar == "\n" || scalar == "\t" || (scalar.value >= 0x20 && scalar.value != 0x7F)
    }
    var plain = String.UnicodeScalarView()
    plain.append(contentsOf: words.unicodeScalars.filter(isPlain))
    self.name = name
    description = String(decoding: String(plain).utf8.prefix(Self.descriptionBytes), as: UTF8.self)
    schema = value["inputSchema"]?.objectValue.map(JSONValue.object) ?? ["type": "object"]
    annotations = value["annotations"]?.objectValue.map(JSONValue.object)
  }
}

/// What came of a call.
package struct ToolOutput: Sendable, Equatable {
  /// What a model reads of it.
  package let text: String
  /// The parts as the server gave them, where it says that the call failed; else nil.
  package let failure: JSONValue?

  /// Bytes of the text of one result.
  package static let textBytes = 1 << 20

  /// - Throws: where it is no result, or too much.
  init(_ result: JSONValue) throws(ToolFault) {
    guard result["resultType"] != "input_required" else {
      throw .garbage("it asks back, which is not answered here")
    }
    guard let parts = result["content"]?.arrayValue else { throw .garbage("its result has no content") }
    let texts = parts.map(Self.text)
    let structured = result["structuredContent"].map { $0.isNull ? "" : $0.text } ?? ""
    text = texts.isEmpty ? structured : texts.joined(separator: "\n")
    guard text.utf8.count <= Self.textBytes else { throw .tooLarge(limit: Self.textBytes) }
    failure = result["isError"] == true ? .array(parts) : nil
  }

  /// What a model reads of one part.
  static func text(of part: JSONValue) -> String {
    switch part["type"]?.stringValue {
    case "text": part["text"]?.stringValue ?? ""
    case "resource": part["resource"]?["text"]?.stringValue ?? "[resource omitted]"
    case "resource_link": part["uri"]?.stringValue ?? ""
    case let type: "[\(type.map { String($0.prefix(20)) } ?? "part") omitted]"
    }
  }
}

/// Why a server did not do what it was asked. The description ends a sentence that names the server, and holds no address
/// and no secret.
package enum ToolFault: Error, Sendable, Equatable, CustomStringConvertible {
  /// It cannot be reached, or its program does not start.
  case unreachable(String)
  /// It answered with this status, and nothing of the protocol.
  case status(Int)
  /// It answered with an error of the protocol.
  case refused(code: Int, message: String)
  case tooSlow
  case tooLarge(limit: Int)
  /// It has more tools than are taken.
  case tooMany(String)
  /// What it said is nothing of the protocol.
  case garbage(String)
  /// Its program ended.
  case died
  /// Nobody waits any more.
  case unwanted

  package var description: String {
    switch self {
    case .unreachable(let words): "it cannot be reached: \(words)"
    case .status(let status): "it answered with status \(status)"
    case .refused(let code, let message): "it answered with error \(code): \(Self.withoutEnd(message))"
    case .tooSlow: "it did not answer in time"
    case .tooLarge(let limit): "it answered with more than \(limit >> 10) KiB"
    case .tooMany(let words): "it has more tools than are taken: \(words)"
    case .garbage(let words): "what it answered is nothing of the protocol: \(words)"
    case .died: "its program ended"
    case .unwanted: "nobody waited for it any more"
    }
  }

  /// A server's sentence without its full stop: it stands within one of ours.
  private static func withoutEnd(_ words: String) -> Substring {
    words.dropLast(words.reversed().prefix { $0 == "." || $0.isWhitespace }.count)
  }
}

/// For how long somebody waits.
package struct ToolWait {
  package var deadline: Instant
  /// Asked many times a second; must not block.
  package var isUnwanted: () -> Bool

  package init(seconds: Double, isUnwanted: @escaping () -> Bool) {
    (deadline, self.isUnwanted) = (Instant.now.adding(seconds: seconds), isUnwanted)
  }
}

/// Answers requests of the protocol; all functions block.
package protocol ToolServer: AnyObject, Sendable {
  /// The result of a request. A call is never sent twice.
  func ask(_ method: String, _ params: JSONObject, _ wait: ToolWait) throws(ToolFault) -> JSONValue
  /// Grows each time the server says that its tools are others now.
  var changes: Int { get }
  /// Lets it go. Nothing is asked afterwards.
  func end()
}

extension ToolServer {
  /// All tools that it has.
  package func tools(_ wait: ToolWait) throws(ToolFault) -> [RemoteTool] {
    var (tools, bytes): ([RemoteTool], Int) = ([], 0)
    var params = JSONObject()
    for _ in 0..<ToolLimits.pages {
      let page = try ask("tools/list", params, wait)
      guard let list = page["tools"]?.arrayValue else { throw .garbage("its list has no tools") }
      for value in list {
        guard let tool = RemoteTool(value) else { throw .garbage("a tool of its list has no proper name") }
        bytes += tool.schema.bytes.count + tool.description.utf8.count
        tools.append(tool)
        guard tools.count <= ToolLimits.tools else { throw .tooMany("\(ToolLimits.tools) at most") }
        guard bytes <= ToolLimits.bytes else { throw .tooMany("\(ToolLimits.bytes >> 10) KiB at most") }
      }
      guard let cursor = page["nextCursor"]?.stringValue else { return tools }
      params["cursor"] = .string(cursor)
    }
    throw .tooMany("\(ToolLimits.pages) pages at most")
  }

  /// Calls a tool.
  ///
  /// - Parameter arguments: an object.
  package func call(_ name: String, _ arguments: JSONValue, _ wait: ToolWait) throws(ToolFault) -> ToolOutput
  {
    let params = JSONObject([("name", .string(name)), ("arguments", arguments)])
    return try ToolOutput(ask("tools/call", params, wait))
  }
}

/// Most of what one server may have.
enum ToolLimits {
  static let (tools, bytes, pages) = (128, 256 << 10, 16)
  /// Bytes of one message.
  static let messageBytes = 4 << 20
}

/// Messages of this side.
enum ToolMessage {
  static func request(_ id: Int, _ method: String, _ params: JSONObject) -> JSONValue {
    ["jsonrpc": "2.0", "id": .int(id), "method": .string(method), "params": .object(params)]
  }

  static func notification(_ method: String, _ params: JSONValue = [:]) -> JSONValue {
    ["jsonrpc": "2.0", "method": .string(method), "params": params]
  }

  static let initialized = notification("notifications/initialized")

  static var hello: JSONObject {
    JSONObject([
      ("protocolVersion", .string(MCPVersion.handshake[0])), ("capabilities", [:] as JSONValue),
      ("clientInfo", client),
    ])
  }

  private static let client: JSONValue = ["name": "mlxserve", "version": .string(Version.text)]

  /// The version that a server has chosen.
  static func version(of result: JSONValue) throws(ToolFault) -> String {
    guard let version = result["protocolVersion"]?.stringValue, MCPVersion.handshake.contains(version) else {
      throw .garbage("it speaks no version of the protocol that is spoken here")
    }
    return version
  }

  /// What each request says in a version without a handshake.
  static let meta: JSONValue = .object(
    JSONObject([
      (MCPVersion.versionKey, .string(MCPVersion.stateless[0])),
      ("io.modelcontextprotocol/clientInfo", client),
      ("io.modelcontextprotocol/clientCapabilities", [:] as JSONValue),
    ]))

  /// What an answer holds.
  static func result(of answer: JSONValue) throws(ToolFault) -> JSONValue {
    if let result = answer["result"], result.objectValue != nil { return result }
    guard let error = answer["error"], let code = error["code"]?.intValue else {
      throw .garbage("an answer has neither a result nor an error")
    }
    throw .refused(code: code, message: String((error["message"]?.stringValue ?? "").prefix(1_000)))
  }
}
