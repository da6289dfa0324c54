// From Responses items to chat messages, with the way back for errors.

import JSON

/// Joins what belongs to one turn of the assistant: its thought, its text and its calls.
struct ResponsesMessages {
  private struct Message {
    var object: JSONObject
    /// The item that the message, or its first part, came from.
    var path: String
    /// Where each content part came from; empty for a plain string.
    var parts: [String] = []
  }

  /// The assistant's turn that is being joined; grown in place, however many items it has.
  private struct Turn {
    let path: String
    var thoughts: [String] = []
    var content: String?
    var calls: [JSONValue] = []

    /// Whether it has said or done something, so that what follows may be another turn.
    var hasActed: Bool { content != nil || !calls.isEmpty }

    var message: JSONObject {
      var object = JSONObject([("role", "assistant")])
      if !thoughts.isEmpty { object["reasoning_content"] = .string(thoughts.joined()) }
      // A turn of thoughts alone still needs its text.
      if content != nil || calls.isEmpty { object["content"] = .string(content ?? "") }
      if !calls.isEmpty { object["tool_calls"] = .array(calls) }
      return object
    }
  }

  private var finished: [Message] = []
  private var turn: Turn?
  private var callIDs: Set<ByteKey> = []

  init() {}

  /// Message objects in the form of chat completions.
  private(set) var messages: [JSONValue] = []

  /// - Parameter paths: where each item stands in the request, for errors.
  mutating func add(_ items: [JSONValue], paths: [String]) throws(APIError) {
    for (index, item) in items.enumerated() {
      try add(item, path: index < paths.count ? paths[index] : "input")
    }
  }

  /// Ends the last turn, and makes one message of all system messages at the start: most templates take
  /// only one.
  mutating func finish(instructions: String?) {
    endTurn()
    var leading: [Message] = []
    if let instructions {
      leading.append(
        Message(
          object: JSONObject([("role", "system"), ("content", .string(instructions))]), path: "instructions"))
    }
    let start = finished.prefix { Self.isSystem($0.object) }
    leading += start
    finished.removeFirst(start.count)
    if leading.count > 1, leading.allSatisfy({ $0.object["content"]?.stringValue != nil }) {
      let text = leading.compactMap { $0.object["content"]?.stringValue }.joined(separator: "\n\n")
      let role: JSONValue = leading.contains { $0.object["role"] == "system" } ? "system" : "developer"
      leading = [
        Message(object: JSONObject([("role", role), ("content", .string(text))]), path: leading[0].path)
      ]
    }
    finished = leading + finished
    messages = finished.map { .object($0.object) }
  }

  private static func isSystem(_ message: JSONObject) -> Bool {
    message["role"] == "system" || message["role"] == "developer"
  }

  /// What fields of the messages are called in the Responses body.
  var names: FieldNames {
    var names: FieldNames = ["messages": "input"]
    for (index, message) in finished.enumerated() {
      let place = "messages[\(index)]"
      names.add(place, as: message.path)
      // Instructions are a text and have no members.
      if message.path == "instructions" { names.add("\(place).content", as: message.path) }
      for (index, path) in message.parts.enumerated() {
        let part = "\(place).content[\(index)]"
        names.add(part, as: path)
        // Fields of an image stand in the part itself on this wire.
        names.add("\(part).image_url.url", as: "\(path).image_url")
        names.add("\(part).image_url.detail", as: "\(path).detail")
      }
    }
    return names
  }

  // MARK: Items

  private mutating func add(_ item: JSONValue, path: String) throws(APIError) {
    switch item["type"]?.stringValue {
    case "message": try addMessage(item, path: path)
    case "reasoning": addReasoning(item, path: path)
    case "function_call": addCall(item, arguments: item["arguments"]?.stringValue ?? "", path: path)
    case "custom_tool_call":
      let input: JSONValue = ["input": item["input"] ?? ""]
      addCall(item, arguments: input.text, path: path)
    case "function_call_output", "custom_tool_call_output": try addOutput(item, path: path)
    default: break
    }
  }

  private mutating func endTurn() {
    guard let last = turn else { return }
    turn = nil
    finished.append(Message(object: last.message, path: last.path))
  }

  private mutating func openTurn(path: String) {
    if turn == nil { turn = Turn(path: path) }
  }

  private mutating func addMessage(_ item: JSONValue, path: String) throws(APIError) {
    let role = item["role"]?.stringValue ?? "user"
    let parts = item["content"]?.arrayValue ?? []
    if role == "assistant" {
      if turn?.hasActed == true { endTurn() }
      openTurn(path: path)
      turn?.content = parts.compactMap { $0["text"]?.stringValue ?? $0["refusal"]?.stringValue }.joined()
      return
    }
    endTurn()
    let (content, paths) = try Self.content(parts, path: "\(path).content")
    finished.append(
      Message(object: JSONObject([("role", .string(role)), ("content", content)]), path: path, parts: paths))
  }

  private mutating func addReasoning(_ item: JSONValue, path: String) {
    let text = Self.reasoningText(of: item)
    guard !text.utf8.isEmpty else { return }
    // A thought after an answer or a call begins the next turn; two in a row are one.
    if turn?.hasActed == true { endTurn() }
    openTurn(path: path)
    turn?.thoughts.append(text)
  }

  /// The thought itself where it is there, else its summary.
  private static func reasoningText(of item: JSONValue) -> String {
    func texts(_ name: String) -> String {
      (item[name]?.arrayValue ?? []).compactMap { $0["text"]?.stringValue }.joined()
    }
    let raw = texts("content")
    if !raw.utf8.isEmpty { return raw }
    if let text = item["encrypted_content"]?.stringValue.flatMap(SealedContent.reasoning.open) { return text }
    return texts("summary")
  }

  /// A call that a token limit has cut off cannot be shown to the model, and nothing answers it.
  private mutating func addCall(_ item: JSONValue, arguments: String, path: String) {
    if item["status"] == "incomplete" { return }
    let id = item["call_id"]?.stringValue ?? ""
    callIDs.insert(ByteKey(id))
    openTurn(path: path)
    turn?.calls.append([
      "id": .string(id), "type": "function",
      "function": ["name": item["name"] ?? "", "arguments": .string(arguments)],
    ])
  }

  private mutating func addOutput(_ item: JSONValue, path: String) throws(APIError) {
    let id = item["call_id"]?.stringValue ?? ""
    guard callIDs.contains(ByteKey(id)) else {
      throw APIError(
        status: 400, code: nil, param: "input",
        message: "No tool call found for function call output with call_id \(APIError.shortened(id)).")
    }
    endTurn()
    var content: JSONValue = item["output"] ?? ""
    var paths: [String] = []
    if case .array(let parts) = content {
      (content, paths) = try Self.content(parts, path: "\(path).output")
    }
    finished.append(
      Message(
        object: JSONObject([("role", "tool"), ("tool_call_id", .string(id)), ("content", content)]),
        path: path, parts: paths))
  }

  // MARK: Content parts

  /// One string when everything is text, else chat parts.
  private static func content(_ parts: [JSONValue], path: String) throws(APIError) -> (JSONValue, [String]) {
    var converted: [JSONValue] = []
    var paths: [String] = []
    for (index, part) in parts.enumerated() {
      let place = "\(path)[\(index)]"
      converted.append(try chatPart(part, path: place))
      paths.append(place)
    }
    let texts = converted.compactMap { $0["text"]?.stringValue }
    if texts.count == converted.count { return (.string(texts.joined()), []) }
    return (.array(converted), paths)
  }

  private static func chatPart(_ value: JSONValue, path: String) throws(APIError) -> JSONValue {
    var part = try Fields(value, path: path)
    switch part.object["type"]?.stringValue {
    case "input_image":
      if part.object["file_id"]?.stringValue != nil {
        throw .unsupportedParameter("\(path).file_id", "this server holds no files")
      }
      var image = JSONObject([("url", .string(try part.requiredString("image_url")))])
      if let detail = try part.string("detail") { image["detail"] = .string(detail) }
      return ["type": "image_url", "image_url": .object(image)]
    case "input_audio": return ["type": "input_audio", "input_audio": part.object["input_audio"] ?? [:]]
    case "input_file": return ["type": "text", "text": .string(try ResponsesFile.text(of: &part))]
    default: return ["type": "text", "text": part.object["text"] ?? ""]
    }
  }
}

/// Files within the request: text is content, anything else is refused.
enum ResponsesFile {
  private static let textEndings = [
    "txt", "md", "markdown", "json", "csv", "tsv", "xml", "yaml", "yml", "html", "log", "py", "swift", "js",
    "ts", "c", "h", "cpp", "rs", "go", "java", "sh", "toml", "ini",
  ]
  private static let textTypes = [
    "application/json", "application/xml", "application/yaml", "application/x-yaml",
  ]

  /// The text of an `input_file` part, below its name.
  static func text(of part: inout Fields) throws(APIError) -> String {
    for name in ["file_id", "file_url"] where part.value(name) != nil {
      throw .unsupportedParameter(part.name(of: name), "this server holds and fetches no files")
    }
    let name = try part.string("filename")
    let path = part.name(of: "file_data")
    let data = try part.requiredString("file_data")
    let url = DataURL(data)
    if url == nil, data.utf8.starts(with: "data:".utf8) {
      throw .invalidValue(path, "it is no base64 data URL")
    }
    let type = url?.type
    let ending = name.map {
      $0.split(separator: ".").last.map { $0.lowercased() } ?? ""
    }
    let isText =
      type.map { $0.utf8.starts(with: "text/".utf8) || textTypes.contains($0) }
      ?? textEndings.contains(ending ?? "")
    guard isText else {
      throw .unsupportedValue(
        path, "only files of text can be read, not '\(APIError.shortened(type ?? name ?? "unknown"))'")
    }
    guard let bytes = Base64.decode(url?.encoded ?? data) else {
      throw .invalidValue(path, "it is not base64")
    }
    guard let text = String(validating: bytes, as: UTF8.self) else {
      throw .invalidValue(path, "the file is not UTF-8 text")
    }
    return name.map { "\($0):\n\(text)\n" } ?? text
  }
}
