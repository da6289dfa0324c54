// Messages of the Model Context Protocol: JSON-RPC 2.0, one object each.

package import JSON

/// A message of the other side.
package struct MCPMessage: Sendable {
  package enum Kind: Sendable, Equatable {
    /// Waits for an answer with this id, a text or an integer.
    case request(id: JSONValue)
    case notification
    /// Answers what this side has asked.
    case response
  }

  package let kind: Kind
  package let method: String
  /// An object; an empty one where there is none.
  package let params: JSONValue

  /// Most values of a message, and how deep they may be nested.
  private static let (mostValues, deepest) = (100_000, 64)

  /// - Parameter bytes: the text of one message.
  /// - Throws: what is answered instead, under the message's id where it has one.
  package init(_ bytes: [UInt8]) throws(MCPError) {
    let value: JSONValue
    do throws(JSONError) {
      value = try JSONValue(parsing: bytes, maxDepth: Self.deepest, maxValues: Self.mostValues)
    } catch {
      throw .parse("\(error)")
    }
    try self.init(value)
  }

  /// The same for what is parsed already.
  package init(_ value: JSONValue) throws(MCPError) {
    guard let object = value.objectValue else {
      throw .invalidRequest(
        value.arrayValue == nil
          ? "a message is an object" : "messages come one by one: batches are not part of the protocol")
    }
    let id = object["id"]
    switch id {
    case nil, .string, .int: break
    default: throw .invalidRequest("an id is a text or an integer")
    }
    func refuse(_ words: String) -> MCPError {
      var error = MCPError.invalidRequest(words)
      error.id = id ?? .null
      return error
    }
    guard object["jsonrpc"] == "2.0" else { throw refuse("'jsonrpc' is '2.0'") }
    guard let method = object["method"] else {
      guard id != nil, object["result"] != nil || object["error"] != nil else {
        throw refuse("a message has a 'method', or answers one")
      }
      (kind, self.method, params) = (.response, "", [:])
      return
    }
    guard let method = method.stringValue else { throw refuse("'method' is a text") }
    let params = object["params"] ?? [:]
    guard params.objectValue != nil else { throw refuse("'params' is an object") }
    (self.method, self.params) = (method, params)
    kind = id.map { .request(id: $0) } ?? .notification
  }

  /// The id of a request.
  package var id: JSONValue? { if case .request(let id) = kind { id } else { nil } }

  /// What the sender says beside the parameters.
  package var meta: JSONValue? { params["_meta"] }

  /// Under what the sender wants to hear how far the work is; nil for not at all.
  package var progressToken: JSONValue? {
    switch meta?["progressToken"] {
    case .string(let token): .string(token)
    case .int(let token): .int(token)
    default: nil
    }
  }

  /// The id of the request that this notification takes back.
  package var cancelledID: JSONValue? {
    method == "notifications/cancelled" ? params["requestId"] : nil
  }

  /// The answer to a request.
  package static func reply(_ id: JSONValue, _ result: JSONValue) -> JSONValue {
    ["jsonrpc": "2.0", "id": id, "result": result]
  }

  /// What a sender that wants it is told of work that goes on.
  package static func progress(_ token: JSONValue, _ progress: MCPProgress) -> JSONValue {
    var params = JSONObject([("progressToken", token), ("progress", .double(progress.done))])
    if let total = progress.total { params["total"] = .double(total) }
    params["message"] = .string(progress.words)
    return ["jsonrpc": "2.0", "method": "notifications/progress", "params": .object(params)]
  }
}

/// How far work is.
package struct MCPProgress: Sendable {
  /// Grows with every one that is told.
  package var done: Double
  /// Nil where nobody knows.
  package var total: Double?
  package var words: String

  package init(_ done: Double, of total: Double? = nil, _ words: String) {
    (self.done, self.total, self.words) = (done, total, words)
  }
}

/// What is answered where there is no result.
package struct MCPError: Error, Equatable, Sendable {
  package var code: Int
  package var message: String
  package var data: JSONValue?
  /// Of the request; null where nobody knows.
  package var id = JSONValue.null

  package init(_ code: Int, _ message: String, data: JSONValue? = nil) {
    (self.code, self.message, self.data) = (code, message, data)
  }

  /// What came is no JSON.
  package static func parse(_ words: String) -> MCPError { MCPError(-32700, words) }
  /// It is JSON, and no message.
  package static func invalidRequest(_ words: String) -> MCPError { MCPError(-32600, words) }
  /// Nothing of that name can be asked.
  package static func unknownMethod(_ name: String) -> MCPError {
    MCPError(-32601, "there is no method '\(name.prefix(100))'")
  }
  /// The parameters are not those of the method.
  package static func invalidParams(_ words: String) -> MCPError { MCPError(-32602, words) }
  /// It cannot be done here and now.
  package static func failed(_ words: String) -> MCPError { MCPError(-32603, words) }
  /// Nothing has this URI.
  package static func noResource(_ uri: String) -> MCPError {
    MCPError(-32602, "there is no resource '\(uri.prefix(300))'")
  }
  /// Too many requests at once.
  package static let busy = MCPError(-32000, "too many requests at a time")
  /// Headers of a request that say something else than its body.
  package static func headerMismatch(_ name: String) -> MCPError {
    MCPError(-32020, "the header \(name) does not say what the body says")
  }
  /// A version that is none of `MCPVersion.stateless`.
  package static func unsupportedVersion(_ version: String) -> MCPError {
    MCPError(
      -32022, "this version of the protocol is not spoken here",
      data: [
        "supported": .array(MCPVersion.stateless.map { .string($0) }),
        "requested": .string(String(version.prefix(100))),
      ])
  }

  /// The answer that tells of it.
  package func reply(to id: JSONValue? = nil) -> JSONValue {
    var error = JSONObject([("code", .int(code)), ("message", .string(message))])
    if let data { error["data"] = data }
    return ["jsonrpc": "2.0", "id": id ?? self.id, "error": .object(error)]
  }
}

/// Versions of the protocol.
package enum MCPVersion {
  /// Of those that begin with `initialize`, the latest first.
  package static let handshake = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]
  /// Of those whose every request says everything.
  package static let stateless = ["2026-07-28"]
  /// Where such a request says its version.
  static let versionKey = "io.modelcontextprotocol/protocolVersion"
  static let serverKey = "io.modelcontextprotocol/serverInfo"
}

extension MCPMessage {
  /// The version of a request that says everything itself; nil for one that follows `initialize`.
  ///
  /// - Throws: where it is none that is spoken here.
  package func statelessVersion() throws(MCPError) -> String? {
    guard let said = meta?[MCPVersion.versionKey] else { return nil }
    guard let version = said.stringValue else { throw .invalidParams("the version is a text") }
    guard MCPVersion.stateless.contains(version) else { throw .unsupportedVersion(version) }
    return version
  }
}
