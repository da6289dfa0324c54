// The `tools`, `tool_choice` and `parallel_tool_calls` fields of a chat request.

import JSON

extension ToolSelection {
  /// - Parameter search: becomes the stores that may be searched.
  /// - Throws: 400 for a malformed tool, for two of one name, or for a choice that names none of them.
  init(
    chat fields: inout Fields, search: inout FileSearchTool?, limits: RequestLimits
  ) throws(APIError) {
    self.init()
    let tools = try fields.array(
      "tools", of: Shape.named("ChatTool"), maxCount: limits.tools,
      "up to \(limits.tools) functions, custom tools and [`file_search`](vector-stores.md#in-an-answer); see below",
      like: #"[{"type":"function","function":{"name":"f"}}]"#)
    for (index, value) in (tools ?? []).enumerated() {
      var tool = try Fields(value, path: "tools[\(index)]")
      let type = try tool.requiredString("type")
      switch type {
      case "function":
        var function = try tool.requiredFields("function")
        try add(Tool(&function, limits: limits))
      case "custom":
        var custom = try tool.requiredFields("custom")
        try add(Tool(custom: &custom, limits: limits))
      case "file_search": try FileSearchTool.read(&tool, into: &search, &self, limits: limits)
      case "mcp":
        throw .unsupportedValue(
          tool.name(of: "type"),
          "chat has no items for calls and approvals of 'mcp' tools; use POST /v1/responses")
      default: try drop(tool, type: type, limits: limits)
      }
    }
    allowsParallelCalls =
      try fields.bool(
        "parallel_tool_calls", "false ends the answer after its first call", like: "false") ?? true
    loadAll()
    _ = fields.value("tool_choice", Shape.named("ToolChoice"), "all forms; see below", like: #""none""#)
    try readHiding(&fields)
    try choose(
      ToolChoiceWords.read(&fields) { (choice) throws(APIError) in try ToolChoiceWords(chat: &choice) },
      limits: limits)
  }
}

extension ToolChoiceWords {
  fileprivate init(chat choice: inout Fields) throws(APIError) {
    switch try choice.requiredString("type") {
    case "function":
      var function = try choice.requiredFields("function")
      self = .named(try Name(&function))
    case "custom":
      var custom = try choice.requiredFields("custom")
      self = .named(try Name(&custom))
    case "file_search": self = .named(try FileSearchTool.choice(choice.path))
    case "allowed_tools":
      var allowed = try choice.requiredFields("allowed_tools")
      let mode = try allowed.word("mode", of: ["auto", "required"])
      var names: [Name] = []
      for (index, value) in (try allowed.array("tools", maxCount: 1_000) ?? []).enumerated() {
        var reference = try Fields(value, path: "\(allowed.name(of: "tools"))[\(index)]")
        switch try reference.string("type") ?? "function" {
        case "file_search": names.append(try FileSearchTool.choice(reference.path))
        case let kind where kind == "function" || kind == "custom":
          var function = try reference.requiredFields(kind)
          names.append(try Name(&function))
        case let type: names.append(Name(type: type, of: reference))
        }
      }
      self = .allowed(names, isRequired: mode == "required", field: allowed.name(of: "tools"))
    case let type: self = .named(Name(type: type, of: choice))
    }
  }
}
