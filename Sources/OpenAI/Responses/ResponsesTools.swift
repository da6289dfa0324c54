// Tools, the choice among them, and the output format in the flat forms of Responses, with what the response echoes.

import JSON

/// `tools`, `parallel_tool_calls` and `tool_choice`.
struct ResponsesTools {
  private(set) var selection = ToolSelection()
  /// The stores that may be searched.
  private(set) var fileSearch: FileSearchTool?
  /// As the response repeats them.
  private(set) var echoed: [JSONValue] = []

  init(_ fields: inout Fields, limits: RequestLimits) throws(APIError) {
    for (index, value) in (try fields.array("tools", maxCount: limits.tools) ?? []).enumerated() {
      var tool = try Fields(value, path: "tools[\(index)]")
      switch try tool.requiredString("type") {
      case "function": try add(&tool, limits: limits)
      case "custom":
        try selection.add(Tool(custom: &tool, limits: limits))
        echoed.append(Self.withoutNulls(tool))
      case "namespace": try addNamespace(&tool, limits: limits)
      case "file_search":
        try FileSearchTool.read(&tool, into: &fileSearch, &selection, limits: limits)
        echoed += [fileSearch?.echo].compactMap(\.self)
      case let type: try selection.drop(tool, type: type, limits: limits)
      }
    }
    selection.allowsParallelCalls = try fields.bool("parallel_tool_calls") ?? true
    try selection.choose(
      ToolChoiceWords.read(&fields) { (choice) throws(APIError) in try ToolChoiceWords(responses: &choice) })
  }

  private static func withoutNulls(_ tool: Fields) -> JSONValue {
    .object(JSONObject(tool.object.entries.lazy.filter { !$0.value.isNull }.map { ($0.key, $0.value) }))
  }

  /// Functions and custom tools of one group; a client finds its calls by both names.
  private mutating func addNamespace(_ group: inout Fields, limits: RequestLimits) throws(APIError) {
    let name = try group.requiredString("name")
    _ = try group.string("description")
    let tools = try group.array("tools", maxCount: limits.tools) ?? []
    guard selection.tools.count + tools.count <= limits.tools else {
      throw .invalidValue(group.name(of: "tools"), "there are more than \(limits.tools) tools")
    }
    for (index, value) in tools.enumerated() {
      var tool = try Fields(value, path: "\(group.name(of: "tools"))[\(index)]")
      switch try tool.requiredString("type") {
      case "function": try selection.add(Tool(&tool, limits: limits).inNamespace(name))
      case "custom": try selection.add(Tool(custom: &tool, limits: limits).inNamespace(name))
      case let type: try selection.drop(tool, type: type, limits: limits)
      }
    }
    echoed.append(Self.withoutNulls(group))
  }

  private mutating func add(_ tool: inout Fields, limits: RequestLimits) throws(APIError) {
    guard tool.object["function"] == nil else {
      throw .invalidValue(tool.name(of: "function"), "in Responses a function's members stand beside 'type'")
    }
    try selection.add(Tool(&tool, limits: limits))
    var echo = JSONObject([("type", "function")])
    for name in ["name", "description", "parameters", "strict"] { echo[name] = tool.value(name) ?? .null }
    echoed.append(.object(echo))
  }
}

extension ToolChoiceWords {
  fileprivate init(responses choice: inout Fields) throws(APIError) {
    switch try choice.requiredString("type") {
    case "function", "custom": self = .named(try Name(&choice))
    case "file_search": self = .named(try FileSearchTool.choice(choice.path))
    case "allowed_tools":
      let mode = try choice.word("mode", of: ["auto", "required"])
      var names: [Name] = []
      for (index, value) in (try choice.array("tools", maxCount: 1_000) ?? []).enumerated() {
        var tool = try Fields(value, path: "\(choice.name(of: "tools"))[\(index)]")
        let type = try tool.requiredString("type")
        guard type != "file_search" else {
          names.append(try FileSearchTool.choice(tool.path))
          continue
        }
        guard type == "function" || type == "custom" else {
          throw .unsupportedValue(tool.name(of: "type"), "only functions can be chosen here")
        }
        names.append(try Name(&tool))
      }
      self = .allowed(names, isRequired: mode == "required", field: choice.name(of: "tools"))
    case let other:
      throw .unsupportedValue(
        choice.name(of: "type"), "'\(APIError.shortened(other))' cannot be chosen here")
    }
  }
}

/// `text`: the format and the verbosity of an answer.
struct ResponsesText {
  private(set) var format: ResponseFormat?
  /// As the response repeats it.
  private(set) var echo = JSONObject([("format", ["type": "text"] as JSONValue)])

  init(_ fields: inout Fields, limits: RequestLimits) throws(APIError) {
    guard var text = try fields.fields("text") else { return }
    let verbosity = try text.word("verbosity", of: ["low", "medium", "high"])
    if var format = try text.fields("format") {
      let reader = FormatReader(limits: limits)
      self.format = try reader.typed(&format) { (format) throws(APIError) in
        _ = try format.requiredString("name")
        return try reader.described(&format)
      }
      echo["format"] = Self.repeated(&format)
    }
    if let verbosity { echo["verbosity"] = .string(verbosity) }
  }

  /// What has been read, defaults filled in.
  private static func repeated(_ format: inout Fields) -> JSONValue {
    guard let type = format.value("type"), type == "json_schema" else {
      return ["type": format.value("type") ?? "text"]
    }
    return [
      "type": type, "name": format.value("name") ?? "", "description": format.value("description") ?? .null,
      "schema": format.value("schema") ?? .null, "strict": format.value("strict") ?? false,
    ]
  }
}
