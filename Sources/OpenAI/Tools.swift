// The `tools`, `tool_choice` and `parallel_tool_calls` fields.

package import JSON

/// A function that the model may call.
package struct Tool: Sendable, Equatable {
  package var name: String
  /// The tool as an OpenAI object without null members, for the chat template.
  package var json: JSONValue

  package init(name: String, json: JSONValue) {
    self.name = name
    self.json = json
  }

  /// ASCII letters, digits, `_` and `-`; 1 to 64 of them.
  static func isValidName(_ name: String) -> Bool {
    (1...64).contains(name.utf8.count)
      && name.utf8.allSatisfy {
        switch $0 {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
          UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "-"):
          true
        default: false
        }
      }
  }
}

struct ToolSelection {
  /// What the model is told about and may call.
  var tools: [Tool]
  var allowsParallelCalls: Bool

  init(_ fields: inout Fields, limits: RequestLimits) throws(APIError) {
    let all = try Self.readTools(&fields, limits: limits)
    tools = try Self.choose(among: all, by: fields.value("tool_choice"))
    allowsParallelCalls = try fields.bool("parallel_tool_calls") ?? true
  }

  // MARK: Tools

  private static func readTools(_ fields: inout Fields, limits: RequestLimits) throws(APIError) -> [Tool] {
    var tools: [Tool] = []
    var names: Set<String> = []
    for (index, value) in (try fields.array("tools", maxCount: limits.tools) ?? []).enumerated() {
      let tool = try readTool(value, path: "tools[\(index)]", limits: limits)
      guard names.insert(tool.name).inserted else {
        throw .invalidValue("tools[\(index)].function.name", "the name '\(tool.name)' is used twice")
      }
      tools.append(tool)
    }
    return tools
  }

  private static func readTool(_ value: JSONValue, path: String, limits: RequestLimits) throws(APIError)
    -> Tool
  {
    var tool = try Fields(value, path: path)
    let type = try tool.requiredString("type")
    guard type == "function" else {
      throw .unsupportedValue("\(path).type", "'\(APIError.shortened(type))' tools cannot be used here")
    }
    guard var function = try tool.fields("function") else { throw .missing("\(path).function") }
    let name = try function.requiredString("name")
    guard Tool.isValidName(name) else {
      throw .invalidValue("\(path).function.name", "it must match ^[a-zA-Z0-9_-]{1,64}$")
    }
    var json: JSONObject = JSONObject([("name", .string(name))])
    if let description = try function.string("description") { json["description"] = .string(description) }
    let parameters = try function.object("parameters")
    if let parameters {
      try SchemaCheck(path: "\(path).function.parameters", maxBytes: limits.schemaBytes).check(parameters)
      json["parameters"] = .object(parameters)
    }
    if try function.bool("strict") == true {
      throw .unsupportedValue("\(path).function.strict", "this server does not constrain arguments yet")
    }
    return Tool(name: name, json: ["type": "function", "function": .object(json)])
  }

  // MARK: The choice

  private static func choose(among tools: [Tool], by choice: JSONValue?) throws(APIError) -> [Tool] {
    let name = "tool_choice"
    switch choice {
    case nil: return tools
    case .string(let word)?:
      switch word {
      case "auto": return tools
      case "none": return []
      case "required":
        guard !tools.isEmpty else { throw .invalidValue(name, "'required' needs 'tools'") }
        throw .unsupportedValue(name, "this server cannot force a tool call yet; use 'auto' or 'none'")
      default:
        throw .invalidValue(
          name, "expected 'none', 'auto', 'required' or an object, but got '\(APIError.shortened(word))'")
      }
    case .object?:
      var fields = try Fields(choice ?? .null, path: name)
      return try chooseNamed(among: tools, by: &fields)
    case let other?: throw .wrongType(name, expected: "a string or an object", found: other)
    }
  }

  private static func chooseNamed(among tools: [Tool], by choice: inout Fields) throws(APIError) -> [Tool] {
    switch try choice.requiredString("type") {
    case "function":
      guard var function = try choice.fields("function") else { throw .missing("tool_choice.function") }
      _ = try find(&function, in: tools)
      throw .unsupportedValue("tool_choice", "this server cannot force a tool call yet; use 'auto' or 'none'")
    case "allowed_tools": return try chooseAllowed(among: tools, by: &choice)
    case let other:
      throw .unsupportedValue("tool_choice.type", "'\(APIError.shortened(other))' cannot be chosen here")
    }
  }

  private static func chooseAllowed(among tools: [Tool], by choice: inout Fields) throws(APIError) -> [Tool] {
    guard var allowed = try choice.fields("allowed_tools") else {
      throw .missing("tool_choice.allowed_tools")
    }
    let mode = try allowed.word("mode", of: ["auto", "required"])
    let references = try allowed.array("tools", maxCount: 1_000) ?? []
    var names: Set<String> = []
    for (index, value) in references.enumerated() {
      let path = "tool_choice.allowed_tools.tools[\(index)]"
      var reference = try Fields(value, path: path)
      guard var function = try reference.fields("function") else { throw .missing("\(path).function") }
      names.insert(try find(&function, in: tools))
    }
    guard mode != "required" else {
      throw .unsupportedValue(
        "tool_choice.allowed_tools.mode", "this server cannot force a tool call yet; use 'auto'")
    }
    return tools.filter { names.contains($0.name) }
  }

  private static func find(_ reference: inout Fields, in tools: [Tool]) throws(APIError) -> String {
    let name = try reference.requiredString("name")
    guard tools.contains(where: { $0.name.utf8.elementsEqual(name.utf8) }) else {
      throw .invalidValue(
        reference.name(of: "name"), "there is no tool named '\(APIError.shortened(name))' in 'tools'")
    }
    return name
  }
}
