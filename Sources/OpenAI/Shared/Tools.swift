// The `tools`, `tool_choice` and `parallel_tool_calls` fields.

package import JSON

/// A function that the model may call.
package struct Tool: Sendable, Equatable {
  package var name: String
  /// The tool as an OpenAI object without null members, for the chat template.
  package var json: JSONValue
  /// Whether the arguments of every call must be what the schema allows.
  package var isStrict: Bool
  /// Its place in `tools`.
  package var index: Int

  package init(name: String, json: JSONValue, isStrict: Bool = false, index: Int = 0) {
    self.name = name
    self.json = json
    self.isStrict = isStrict
    self.index = index
  }

  /// The schema of the arguments; nil for a function without arguments.
  package var parameters: JSONValue? { json["function"]?["parameters"] }

  /// The field that holds the schema, for errors.
  package var parametersField: String { "tools[\(index)].function.parameters" }

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

/// Whether the answer calls tools.
package enum ToolChoice: Sendable, Equatable {
  /// Never: the tools are withheld from the model.
  case none
  /// As the model likes.
  case auto
  /// At least once.
  case required
  /// This one, once.
  case named(String)
}

/// The tools of a request, and which of them may be called.
package struct ToolSelection: Sendable, Equatable {
  /// What the model is told about.
  package var tools: [Tool]
  package var choice: ToolChoice
  package var allowsParallelCalls: Bool

  /// - Throws: 400 for a malformed tool, for two of one name, or for a choice that names none of them.
  package init(_ fields: inout Fields, limits: RequestLimits) throws(APIError) {
    tools = try Self.readTools(&fields, limits: limits)
    choice = tools.isEmpty ? .none : .auto
    allowsParallelCalls = try fields.bool("parallel_tool_calls") ?? true
    try choose(by: fields.value("tool_choice"))
    if choice == .none { tools = [] }
  }

  // MARK: Tools

  private static func readTools(_ fields: inout Fields, limits: RequestLimits) throws(APIError) -> [Tool] {
    var tools: [Tool] = []
    var names: Set<String> = []
    for (index, value) in (try fields.array("tools", maxCount: limits.tools) ?? []).enumerated() {
      let tool = try readTool(value, index: index, limits: limits)
      guard names.insert(tool.name).inserted else {
        throw .invalidValue("tools[\(index)].function.name", "the name '\(tool.name)' is used twice")
      }
      tools.append(tool)
    }
    return tools
  }

  private static func readTool(_ value: JSONValue, index: Int, limits: RequestLimits) throws(APIError) -> Tool
  {
    let path = "tools[\(index)]"
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
    let isStrict = try function.bool("strict") ?? false
    return Tool(
      name: name, json: ["type": "function", "function": .object(json)], isStrict: isStrict, index: index)
  }

  // MARK: The choice

  private mutating func choose(by value: JSONValue?) throws(APIError) {
    let name = "tool_choice"
    switch value {
    case nil: return
    case .string(let word)?:
      switch word {
      case "auto": return
      case "none": choice = .none
      case "required":
        guard !tools.isEmpty else { throw .invalidValue(name, "'required' needs 'tools'") }
        choice = .required
      default:
        throw .invalidValue(
          name, "expected 'none', 'auto', 'required' or an object, but got '\(APIError.shortened(word))'")
      }
    case .object?:
      var fields = try Fields(value ?? .null, path: name)
      try choose(byObject: &fields)
    case let other?: throw .wrongType(name, expected: "a string or an object", found: other)
    }
  }

  private mutating func choose(byObject fields: inout Fields) throws(APIError) {
    switch try fields.requiredString("type") {
    case "function":
      guard var function = try fields.fields("function") else { throw .missing("tool_choice.function") }
      choice = .named(try find(&function))
    case "allowed_tools": try chooseAllowed(&fields)
    case let other:
      throw .unsupportedValue("tool_choice.type", "'\(APIError.shortened(other))' cannot be chosen here")
    }
  }

  /// The model is told about the allowed tools only, so that it does not even wish for others.
  private mutating func chooseAllowed(_ fields: inout Fields) throws(APIError) {
    guard var allowed = try fields.fields("allowed_tools") else {
      throw .missing("tool_choice.allowed_tools")
    }
    let mode = try allowed.word("mode", of: ["auto", "required"])
    let references = try allowed.array("tools", maxCount: 1_000) ?? []
    var names: Set<String> = []
    for (index, value) in references.enumerated() {
      let path = "tool_choice.allowed_tools.tools[\(index)]"
      var reference = try Fields(value, path: path)
      guard var function = try reference.fields("function") else { throw .missing("\(path).function") }
      names.insert(try find(&function))
    }
    tools = tools.filter { names.contains($0.name) }
    if mode == "required" {
      guard !tools.isEmpty else {
        throw .invalidValue("tool_choice.allowed_tools.tools", "it is empty, but the mode is 'required'")
      }
      choice = .required
    } else if tools.isEmpty {
      choice = .none
    }
  }

  private func find(_ reference: inout Fields) throws(APIError) -> String {
    let name = try reference.requiredString("name")
    guard tools.contains(where: { $0.name.utf8.elementsEqual(name.utf8) }) else {
      throw .invalidValue(
        reference.name(of: "name"), "there is no tool named '\(APIError.shortened(name))' in 'tools'")
    }
    return name
  }
}
