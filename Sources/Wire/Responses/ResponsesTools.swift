// Tools, the choice among them, and the output format in the flat forms of Responses, with what the response echoes.

import JSON

/// `tools`, `parallel_tool_calls` and `tool_choice`, with the tools that the conversation has loaded.
struct ResponsesTools: Sendable {
  /// Everything but the choice.
  private(set) var selection = ToolSelection()
  /// The stores that may be searched.
  private(set) var fileSearch: FileSearchTool?
  /// Servers of tools; nil for none.
  private(set) var remote: MCPTools?
  /// As the response repeats them.
  private(set) var echoed: [JSONValue] = []
  private let choice: ToolChoiceWords
  /// Whether the client finds deferred tools.
  private var hasSearch = false

  /// None yet.
  private init() { choice = .auto }

  init(_ fields: inout Fields, limits: RequestLimits) throws(APIError) {
    _ = fields.value(
      "tool_choice",
      #"""
      {"anyOf": [{"enum": ["none", "auto", "required"]}, {"type": "object", "required": ["type"], "properties": {
        "type": {"enum": ["function", "custom", "file_search", "mcp", "allowed_tools"]}, "name": {"type": "string"},
        "server_label": {"type": "string"}, "mode": {"enum": ["auto", "required"]}, "tools": {"type": "array", "items": {"type": "object"}}}}]}
      """#, "all forms, as in chat", like: #""none""#)
    var choices: [MCPTools.Choice] = []
    choice = try ToolChoiceWords.read(&fields) { (choice) throws(APIError) in
      try ToolChoiceWords(responses: &choice, &choices)
    }
    var servers: [MCPTool] = []
    selection.allowsParallelCalls =
      try fields.bool("parallel_tool_calls", "as in chat", like: "false") ?? true
    try selection.readHiding(&fields)
    let tools = try fields.array(
      "tools", of: Shape.named("ResponsesTool"), maxCount: limits.tools,
      """
      functions, custom tools, namespaces of both, `file_search`, [`mcp`](mcp.md#tools-of-other-servers), and tools that \
      the client runs; see below
      """,
      like: #"[{"type":"function","name":"f"}]"#)
    for (index, value) in (tools ?? []).enumerated() {
      var tool = try Fields(value, path: "tools[\(index)]")
      switch try tool.requiredString("type") {
      case "file_search":
        try FileSearchTool.read(&tool, into: &fileSearch, &selection, limits: limits)
        echoed += [fileSearch?.echo].compactMap(\.self)
      case "mcp":
        let server = try MCPTool(&tool)
        guard limits.showsTools else {
          throw .unsupportedValue(tool.name(of: "type"), "the template of this model shows no tools")
        }
        guard servers.count < Self.mostServers, !servers.contains(where: { $0.label == server.label }) else {
          throw .invalidValue(
            tool.name(of: "server_label"), "it stands here twice, or there are more than \(Self.mostServers)")
        }
        servers.append(server)
        echoed.append(server.echo)
      case let type:
        if let echo = try read(&tool, type: type, loadedInto: nil, limits: limits) { echoed.append(echo) }
      }
    }
    remote = try Self.remote(servers, choice, choices)
  }

  private static let mostServers = 16

  /// What is chosen of servers of tools.
  private static func remote(
    _ servers: [MCPTool], _ choice: ToolChoiceWords, _ choices: [MCPTools.Choice]
  ) throws(APIError) -> MCPTools? {
    for choice in choices where !servers.contains(where: { $0.label == choice.label }) {
      throw .invalidValue("tool_choice", "'tools' has no server '\(APIError.shortened(choice.label))'")
    }
    guard !servers.isEmpty else { return nil }
    var remote = MCPTools(servers: servers, choices: choices.isEmpty ? nil : choices, isForced: false)
    switch choice {
    case .auto: remote.isForced = !choices.isEmpty
    case .none: remote.mayCall = false
    case .allowed: remote.choices = choices
    case .required, .named: break
    }
    return remote
  }

  /// Takes in the tools that items of the conversation bring: those that a search has found, and `additional_tools`.
  mutating func load(_ items: [JSONValue], paths: [String], limits: RequestLimits) throws(APIError) {
    for (index, item) in items.enumerated() where Self.bringsTools(item) {
      let path = index < paths.count ? paths[index] : "input"
      for (number, value) in (item["tools"]?.arrayValue ?? []).enumerated() {
        var tool = try Fields(value, path: "\(path).tools[\(number)]")
        let type = try tool.requiredString("type")
        let place = ClientToolItem.form(of: item) == nil ? Tool.Place.prompt : .result
        _ = try read(&tool, type: type, loadedInto: place, limits: limits)
      }
    }
  }

  private static func bringsTools(_ item: JSONValue) -> Bool {
    item["type"] == "tool_search_output" || item["type"] == "additional_tools"
  }

  /// What the model is told of, and what it may call.
  func chosen(limits: RequestLimits) throws(APIError) -> ToolSelection {
    var chosen = selection
    if !hasSearch { chosen.loadAll() }
    try chosen.choose(choice, limits: limits, hasOthers: remote?.mayCall ?? false)
    return chosen
  }

  /// What the model is told of the tools that a search has found.
  static func definitions(of output: JSONValue, path: String, limits: RequestLimits) throws(APIError)
    -> String
  {
    var found = ResponsesTools()
    try found.load([output], paths: [path], limits: limits)
    let tools = found.selection.tools
    return tools.isEmpty
      ? "No tool was found." : "Tools that can be called now:\n" + tools.map(\.definition).joined()
  }

  // MARK: Reading

  private static func withoutNulls(_ tool: Fields) -> JSONValue {
    .object(JSONObject(tool.object.entries.lazy.filter { !$0.value.isNull }.map { ($0.key, $0.value) }))
  }

  /// Reads a function, a custom tool, a namespace of both, or a tool whose calls are items of their own.
  ///
  /// - Parameter place: where the model is told of a tool that an item of the conversation brings; nil for the request's own.
  /// - Returns: what the response repeats; nil for a tool that is left out.
  private mutating func read(
    _ tool: inout Fields, type: String, loadedInto place: Tool.Place?, limits: RequestLimits
  ) throws(APIError) -> JSONValue? {
    switch type {
    case "function":
      guard tool.object["function"] == nil else {
        throw .invalidValue(
          tool.name(of: "function"), "in Responses a function's members stand beside 'type'")
      }
      try take(Tool(&tool, limits: limits), place, limits)
      var echo = JSONObject([("type", "function")])
      for name in ["name", "description", "parameters", "strict"] { echo[name] = tool.value(name) ?? .null }
      if let isDeferred = tool.value("defer_loading") { echo["defer_loading"] = isDeferred }
      return .object(echo)
    case "custom":
      try take(Tool(custom: &tool, limits: limits), place, limits)
      return Self.withoutNulls(tool)
    case "namespace":
      try readNamespace(&tool, loadedInto: place, limits: limits)
      return Self.withoutNulls(tool)
    default:
      guard let own = try ClientToolItem.tool(&tool, type: type, limits: limits) else {
        try selection.drop(tool, type: type, limits: limits)
        return nil
      }
      hasSearch = hasSearch || type == Tool.searchName
      try take(own, place, limits)
      return Self.withoutNulls(tool)
    }
  }

  private mutating func take(_ tool: Tool, _ place: Tool.Place?, _ limits: RequestLimits) throws(APIError) {
    if let place { try selection.load(tool, place: place, limits: limits) } else { try selection.add(tool) }
  }

  /// Functions and custom tools of one group; a client finds its calls by both names.
  private mutating func readNamespace(
    _ group: inout Fields, loadedInto place: Tool.Place?, limits: RequestLimits
  ) throws(APIError) {
    let name = try group.requiredString("name")
    _ = try group.string("description")
    let tools = try group.array("tools", maxCount: limits.tools) ?? []
    guard selection.tools.count + tools.count <= limits.tools else {
      throw .invalidValue(group.name(of: "tools"), "there are more than \(limits.tools) tools")
    }
    for (index, value) in tools.enumerated() {
      var tool = try Fields(value, path: "\(group.name(of: "tools"))[\(index)]")
      switch try tool.requiredString("type") {
      case "function": try take(Tool(&tool, limits: limits).inNamespace(name), place, limits)
      case "custom": try take(Tool(custom: &tool, limits: limits).inNamespace(name), place, limits)
      case let type: try selection.drop(tool, type: type, limits: limits)
      }
    }
  }
}

extension ToolChoiceWords {
  /// - Parameter remote: gets what is chosen of servers of tools. Where that is all, the words are `auto`.
  fileprivate init(responses choice: inout Fields, _ remote: inout [MCPTools.Choice]) throws(APIError) {
    switch try choice.requiredString("type") {
    case "mcp":
      remote = [try MCPTools.Choice(&choice)]
      self = .auto
    case "function", "custom": self = .named(try Name(&choice))
    case "file_search": self = .named(try FileSearchTool.choice(choice.path))
    case "allowed_tools":
      let mode = try choice.word("mode", of: ["auto", "required"])
      var names: [Name] = []
      for (index, value) in (try choice.array("tools", maxCount: 1_000) ?? []).enumerated() {
        var tool = try Fields(value, path: "\(choice.name(of: "tools"))[\(index)]")
        let type = try tool.requiredString("type")
        if type == "mcp" {
          remote.append(try MCPTools.Choice(&tool))
          continue
        }
        guard type != "file_search" else {
          names.append(try FileSearchTool.choice(tool.path))
          continue
        }
        names.append(
          type == "function" || type == "custom"
            ? try Name(&tool) : Name(type: type, isName: ClientToolItem.isTool(type), of: tool))
      }
      self = .allowed(names, isRequired: mode == "required", field: choice.name(of: "tools"))
    case let type: self = .named(Name(type: type, isName: ClientToolItem.isTool(type), of: choice))
    }
  }
}

/// `text`: the format and the verbosity of an answer.
struct ResponsesText {
  private(set) var format: ResponseFormat?
  /// As the response repeats it.
  private(set) var echo = JSONObject([("format", ["type": "text"] as JSONValue)])

  init(_ fields: inout Fields, limits: RequestLimits) throws(APIError) {
    _ = fields.value(
      "text",
      #"""
      {"type": "object", "properties": {"verbosity": {"enum": ["low", "medium", "high"]},
        "format": {"type": "object", "required": ["type"], "properties": {
          "type": {"enum": ["text", "json_object", "json_schema", "structural_tag", "quote"]}, "name": {"type": "string"},
          "description": {"type": "string"}, "schema": {"type": "object"}, "strict": {"type": "boolean"}}}}}
      """#, "`format` as `response_format` in chat; `verbosity` is accepted",
      like: #"{"format":{"type":"text"}}"#)
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
