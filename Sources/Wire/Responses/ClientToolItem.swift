// Items of tools that a client runs and that have a form of their own, as calls of functions and their results.

import JSON

/// A kind of item: `local_shell_call`, `shell_call`, `apply_patch_call`, `tool_search_call` or what one of them gave.
struct ClientToolItem: Sendable {
  /// What the model is told that the tool is called; nil for a result.
  private let name: String?
  /// The member that holds what is asked for; of a result, what came of it.
  private let member: String
  /// What is asked for where the model does not say so.
  private var usual: JSONValue = [:]
  private var idPrefix = ""

  var isCall: Bool { name != nil }

  /// By the type of the item.
  private static let all: [String: ClientToolItem] = [
    "local_shell_call": ClientToolItem(
      name: "local_shell", member: "action",
      usual: ["type": "exec", "command": [], "env": [:]], idPrefix: "lsh_"),
    "local_shell_call_output": ClientToolItem(name: nil, member: "output"),
    "shell_call": ClientToolItem(
      name: "shell", member: "action", usual: ["commands": []], idPrefix: "sh_"),
    "shell_call_output": ClientToolItem(name: nil, member: "output"),
    "apply_patch_call": ClientToolItem(name: "apply_patch", member: "operation", idPrefix: "apc_"),
    "apply_patch_call_output": ClientToolItem(name: nil, member: "output"),
    "tool_search_call": ClientToolItem(name: Tool.searchName, member: "arguments", idPrefix: "tsc_"),
    "tool_search_output": ClientToolItem(name: nil, member: "tools"),
  ]

  /// The form of an item; nil for other items, and for a search that another server has made itself.
  static func form(of item: JSONValue) -> ClientToolItem? {
    guard let type = item["type"]?.stringValue else { return nil }
    if type.utf8.starts(with: Tool.searchName.utf8), item["call_id"]?.stringValue == nil { return nil }
    return all[type]
  }

  /// - Throws: 400 for an item without what such an item says.
  func check(_ item: inout Fields) throws(APIError) {
    _ = try item.string("id")
    // The results of a local shell name their call in `id`.
    if try item.string("call_id") == nil, item.object["id"]?.stringValue == nil {
      throw .missing(item.name(of: "call_id"))
    }
    guard isCall else { return }
    guard try item.object(member) != nil else { throw .missing(item.name(of: member)) }
  }

  private func id(_ item: JSONValue) -> JSONValue { item["call_id"] ?? item["id"] ?? "" }

  /// A call as one of a function.
  func call(_ item: JSONValue) -> JSONValue {
    ["call_id": id(item), "name": .string(name ?? ""), "status": item["status"] ?? "completed"]
  }

  /// JSON text of what is asked for.
  func arguments(_ item: JSONValue) -> String { item[member]?.text ?? "{}" }

  /// A result as one of a function: its text, the tools that a search has found, the JSON of anything else, or its status
  /// alone.
  func output(_ item: JSONValue, path: String, limits: RequestLimits) throws(APIError) -> JSONValue {
    let output: JSONValue
    switch item[member] {
    case .string(let text)?: output = .string(item["status"] == "failed" ? "Error: " + text : text)
    case .array? where member == "tools":
      output = .string(try ResponsesTools.definitions(of: item, path: path, limits: limits))
    case let value?: output = .string(value.text)
    case nil: output = item["status"] ?? ""
    }
    return ["call_id": id(item), "output": output]
  }
  // MARK: Calls that a model makes

  /// A call of a tool as its item.
  ///
  /// - Parameter arguments: what came of them.
  static func item(ofTool name: String, id: String, callID: String, status: String, arguments: String)
    -> JSONValue
  {
    let form = all[name + "_call"]
    var asked = form?.usual.objectValue ?? JSONObject()
    for (key, value) in Tool.object(of: arguments).objectValue?.entries ?? [] { asked[key] = value }
    var item = JSONObject([
      ("id", .string(id)), ("type", .string(name + "_call")), ("status", .string(status)),
      ("call_id", .string(callID)),
    ])
    if name == Tool.searchName { item["execution"] = "client" }
    item[form?.member ?? "arguments"] = .object(asked)
    return .object(item)
  }

  /// The tool, the id of the call and the arguments of an item; nil for other items.
  static func call(of item: JSONValue) -> (tool: String, callID: String, arguments: String)? {
    guard let form = item["type"]?.stringValue.flatMap({ all[$0] }), let name = form.name else { return nil }
    return (name, item["call_id"]?.stringValue ?? "", form.arguments(item))
  }

  // MARK: Tools of a request

  static func isTool(_ type: String) -> Bool { all[type + "_call"]?.isCall ?? false }

  /// The function that stands for a tool of a request; nil for one that its provider runs.
  static func tool(_ tool: inout Fields, type: String, limits: RequestLimits) throws(APIError) -> Tool? {
    var description: String
    var properties: JSONValue
    var required: JSONValue
    switch type {
    case Tool.searchName:
      guard try tool.word("execution", of: ["server", "client"]) == "client" else { return nil }
      description = "Finds further tools by what they do. The tools that it finds can be called afterwards."
      (properties, required) = (["query": ["type": "string"]], ["query"])
    case "local_shell":
      description = "Runs a command on the user's computer."
      properties = [
        "command": words(#"The program and its arguments, such as ["bash", "-lc", "ls"]."#),
        "working_directory": ["type": "string"], "timeout_ms": ["type": "integer"],
      ]
      required = ["command"]
    case "shell":
      var environment = try tool.fields("environment")
      guard try environment?.requiredString("type") ?? "local" == "local" else { return nil }
      description = "Runs commands in a shell on the user's computer." + (try skills(&environment, limits))
      properties = [
        "commands": words("Commands that are run one after the other."), "timeout_ms": ["type": "integer"],
        "max_output_length": ["type": "integer"],
      ]
      required = ["commands"]
    case "apply_patch":
      description = "Creates, updates or deletes a file."
      properties = [
        "type": ["type": "string", "enum": ["create_file", "update_file", "delete_file"]],
        "path": ["type": "string", "description": "Relative to the root of the workspace."],
        "diff": ["type": "string", "description": .string(Self.diff)],
      ]
      required = ["type", "path"]
    default: return nil
    }
    let schema: JSONValue = [
      "type": "object", "properties": properties, "required": required, "additionalProperties": false,
    ]
    let isSearch = type == Tool.searchName
    let function: JSONValue = [
      "name": .string(type),
      "description": (isSearch ? tool.value("description") : nil) ?? .string(description),
      "parameters": (isSearch ? tool.value("parameters") : nil) ?? schema, "strict": .bool(!isSearch),
    ]
    return try Tool(
      item: function, idPrefix: all[type + "_call"]?.idPrefix ?? "", path: tool.path, limits: limits)
  }

  private static let diff =
    "Not for delete_file. Of create_file: the lines of the file, each after a +. Of update_file: hunks that begin with @@ "
    + "and, where it helps, a line above the place; lines that stay after a space, old ones after a -, new ones after a +."

  private static func words(_ description: String) -> JSONValue {
    ["type": "array", "items": ["type": "string"], "minItems": 1, "description": .string(description)]
  }

  /// What a local environment says of the skills that are there.
  private static func skills(_ environment: inout Fields?, _ limits: RequestLimits) throws(APIError) -> String
  {
    var lines: [String] = []
    for (index, value) in (try environment?.array("skills", maxCount: limits.tools) ?? []).enumerated() {
      var skill = try Fields(value, path: "\(environment?.path ?? "").skills[\(index)]")
      let (name, path) = (try skill.requiredString("name"), try skill.requiredString("path"))
      lines.append("\n\(name) (\(path)): \(try skill.string("description") ?? "")")
    }
    return lines.isEmpty ? "" : " Skills that are described in these folders:" + lines.joined()
  }
}
