// Where a model keeps its chat template: a file of its own, tokenizer_config.json, or chat_template.json.

import JSON

/// The Jinja sources of a model folder.
struct ChatTemplateFiles {
  private(set) var plain: String?
  /// The variant for conversations with tools, where there is one.
  private(set) var withTools: String?

  private static let limit = 8 << 20

  /// - Throws: when a template file exists but cannot be read or is not UTF-8.
  init(folder: String, tokenizerConfig: JSONValue?) throws(CheckpointError) {
    if let source = try Self.source(folder, "chat_template.jinja") {
      plain = source
      withTools = try Self.source(folder, "additional_chat_templates/tool_use.jinja")
      return
    }
    if let value = tokenizerConfig?["chat_template"], take(value) { return }
    if let file = try ModelFolder.object(folder, "chat_template.json", limit: Self.limit),
      let value = file["chat_template"]
    {
      _ = take(value)
    }
  }

  /// A string, or a list of `{"name": "default" | "tool_use" | …, "template": …}`.
  private mutating func take(_ value: JSONValue) -> Bool {
    if let source = value.stringValue {
      plain = source
      return true
    }
    var first: String?
    for entry in value.arrayValue ?? [] {
      guard let name = entry["name"]?.stringValue, let source = entry["template"]?.stringValue else {
        continue
      }
      first = first ?? source
      if name.utf8.elementsEqual("default".utf8) { plain = source }
      if name.utf8.elementsEqual("tool_use".utf8) { withTools = source }
    }
    plain = plain ?? first
    return plain != nil
  }

  private static func source(_ folder: String, _ name: String) throws(CheckpointError) -> String? {
    guard let bytes = try ModelFolder.bytes(folder, name, limit: limit) else { return nil }
    guard let text = String(validating: bytes, as: UTF8.self) else {
      throw .badValue(file: folder + "/" + name, key: "the text", problem: "is not valid UTF-8")
    }
    return text
  }
}
