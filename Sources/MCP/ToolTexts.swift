// What servers of tools have beside them: prompts and resources, which a person chooses, and what they say.

package import JSON

/// Things of another server that become text of a message.
package enum ToolTexts: String, Sendable {
  case prompts, resources

  /// Most of a list; what a list says beyond is left out.
  private static let most = 100
  /// Members that a list tells of each.
  private var members: [String] {
    switch self {
    case .prompts: ["name", "title", "description", "arguments"]
    case .resources: ["uri", "name", "title", "description", "mimeType"]
    }
  }
  /// What names one, and is there.
  private var name: String { self == .prompts ? "name" : "uri" }

  /// The first page of what a server has; nothing where it knows none.
  package func list(_ server: any ToolServer, _ wait: ToolWait) throws(ToolFault) -> [JSONValue] {
    let page: JSONValue
    do throws(ToolFault) {
      page = try server.ask("\(self)/list", JSONObject(), wait)
    } catch {
      if case .refused = error { return [] }
      throw error
    }
    var bytes = 0
    return (page["\(self)"]?.arrayValue ?? []).filter { $0[name]?.stringValue?.isEmpty == false }
      .prefix(Self.most).map { item in
        .object(JSONObject(members.compactMap { name in item[name].map { (name, $0) } }))
      }.prefix { item in
        bytes += item.bytes.count
        return bytes <= ToolLimits.bytes
      }
  }

  /// What one says.
  ///
  /// - Parameters:
  ///   - name: of a prompt, or the URI of a resource.
  ///   - arguments: of a prompt.
  package func text(
    of name: String, _ arguments: JSONObject, from server: any ToolServer, _ wait: ToolWait
  ) throws(ToolFault) -> String {
    var params = JSONObject([(self.name, .string(name))])
    let texts: [String]
    switch self {
    case .prompts:
      params["arguments"] = .object(arguments)
      let result = try server.ask("prompts/get", params, wait)
      guard let messages = result["messages"]?.arrayValue else {
        throw .garbage("its prompt has no messages")
      }
      texts = messages.map { ToolOutput.text(of: $0["content"] ?? .null) }
    case .resources:
      let result = try server.ask("resources/read", params, wait)
      guard let contents = result["contents"]?.arrayValue else {
        throw .garbage("its resource has no contents")
      }
      texts = contents.map { $0["text"]?.stringValue ?? "[resource omitted]" }
    }
    let text = texts.joined(separator: "\n\n")
    guard text.utf8.count <= ToolOutput.textBytes else { throw .tooLarge(limit: ToolOutput.textBytes) }
    return text
  }
}
