// Items of tools that a client runs and that have a form of their own, as calls of functions and their results.

import JSON

/// A kind of item: `local_shell_call`, `shell_call`, `apply_patch_call`, `tool_search_call` or what one of them gave.
struct ClientToolItem: Sendable {
  /// What the model is told that the tool is called; nil for a result.
  private let name: String?
  /// The member that holds what is asked for; of a result, what came of it.
  private let member: String

  var isCall: Bool { name != nil }

  /// By the type of the item.
  private static let all: [String: ClientToolItem] = [
    "local_shell_call": ClientToolItem(name: "local_shell", member: "action"),
    "local_shell_call_output": ClientToolItem(name: nil, member: "output"),
    "shell_call": ClientToolItem(name: "shell", member: "action"),
    "shell_call_output": ClientToolItem(name: nil, member: "output"),
    "apply_patch_call": ClientToolItem(name: "apply_patch", member: "operation"),
    "apply_patch_call_output": ClientToolItem(name: nil, member: "output"),
    "tool_search_call": ClientToolItem(name: Tool.searchName, member: "arguments"),
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

  /// A result as one of a function: its text, the JSON of what is no text, or its status alone.
  func output(_ item: JSONValue) -> JSONValue {
    let output: JSONValue =
      switch item[member] {
      case .string(let text)?: .string(text)
      case .array(let tools)? where member == "tools": .string(ResponsesTools.names(of: tools))
      case let value?: .string(value.text)
      case nil: item["status"] ?? ""
      }
    return ["call_id": id(item), "output": output]
  }
}
