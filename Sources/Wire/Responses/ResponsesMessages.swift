// From Responses items to the messages of a conversation.

import JSON

/// Joins what belongs to one turn of the assistant: its reasoning, its text and its calls.
struct ResponsesMessages {
  /// The assistant's turn that is being joined; grown in place, however many items it has.
  private struct Turn {
    var reasoning: [String] = []
    var content: String?
    var calls: [JSONValue] = []

    /// Whether it has said or done something, so that what follows may be another turn.
    var hasActed: Bool { content != nil || !calls.isEmpty }

    var message: JSONValue {
      var object = JSONObject([("role", "assistant")])
      if !reasoning.isEmpty { object["reasoning_content"] = .string(reasoning.joined()) }
      // A turn of reasoning alone still needs its text.
      if content != nil || calls.isEmpty { object["content"] = .string(content ?? "") }
      if !calls.isEmpty { object["tool_calls"] = .array(calls) }
      return .object(object)
    }
  }

  private let limits: RequestLimits
  private var written: Transcript
  private var turn: Turn?
  /// Calls that the client was asked for, by the ids of the questions.
  private var asked: [ByteKey: JSONValue] = [:]
  /// System messages at the start, until another message follows: most templates take only one.
  private var leading: [JSONValue]? = []

  /// - Parameter instructions: come first as a system message.
  init(instructions: String?, limits: RequestLimits) {
    self.limits = limits
    written = Transcript(limits: limits)
    if let instructions { leading = [["role": "system", "content": .string(instructions)]] }
  }

  /// - Parameter paths: where each item stands in the request, for errors.
  mutating func add(_ items: [JSONValue], paths: [String]) throws(APIError) {
    for (index, item) in items.enumerated() {
      try add(item, path: index < paths.count ? paths[index] : "input")
    }
  }

  /// The whole conversation.
  ///
  /// - Throws: 400 when there is nothing in it, or too much.
  mutating func finish() throws(APIError) -> Transcript {
    endTurn()
    endLead()
    guard !written.messages.isEmpty else {
      throw .invalidValue("input", "nothing in it can be shown to the model")
    }
    try written.checkCount(field: "input")
    return written
  }

  private mutating func append(_ message: JSONValue) {
    if leading != nil, message["role"] == "system" || message["role"] == "developer" {
      leading?.append(message)
    } else {
      endLead()
      written.append(message)
    }
  }

  /// Makes one message of all leading ones, if they are texts.
  private mutating func endLead() {
    guard let messages = leading else { return }
    leading = nil
    let texts = messages.compactMap { $0["content"]?.stringValue }
    guard messages.count > 1, texts.count == messages.count else {
      for message in messages { written.append(message) }
      return
    }
    let role: JSONValue = messages.contains { $0["role"] == "system" } ? "system" : "developer"
    written.append(["role": role, "content": .string(texts.joined(separator: "\n\n"))])
  }

  // MARK: Items

  private mutating func add(_ item: JSONValue, path: String) throws(APIError) {
    switch item["type"]?.stringValue {
    case "message": try addMessage(item, path: path)
    case "reasoning": addReasoning(item)
    case "file_search_call": try addSearch(item, path: path)
    case "mcp_call": try addRemote(item, path: path)
    case "mcp_approval_request": asked[ByteKey(item["id"]?.stringValue ?? "")] = item
    case "mcp_approval_response":
      // What was approved has been called, and has an item of its own, or is called now.
      guard item["approve"] != true,
        var call = asked[ByteKey(item["approval_request_id"]?.stringValue ?? "")]?.objectValue
      else { break }
      call["output"] = .string(MCPMessages.refusal(item["reason"]?.stringValue))
      try addRemote(.object(call), path: path)
    case "function_call": try addCall(item, arguments: item["arguments"]?.stringValue ?? "", path: path)
    case "custom_tool_call":
      try addCall(item, arguments: Tool.arguments(of: item["input"]?.stringValue ?? ""), path: path)
    case "function_call_output", "custom_tool_call_output": try addOutput(item, path: path)
    default:
      guard let form = ClientToolItem.form(of: item) else { break }
      if form.isCall {
        try addCall(form.call(item), arguments: form.arguments(item), path: path)
      } else {
        try addOutput(form.output(item, path: path, limits: limits), path: path)
      }
    }
  }

  private mutating func endTurn() {
    guard let last = turn else { return }
    turn = nil
    append(last.message)
  }

  private mutating func openTurn() {
    if turn == nil { turn = Turn() }
  }

  private mutating func addMessage(_ item: JSONValue, path: String) throws(APIError) {
    let role = item["role"]?.stringValue ?? "user"
    let parts = item["content"]?.arrayValue ?? []
    if role == "assistant" {
      if turn?.hasActed == true { endTurn() }
      openTurn()
      turn?.content = parts.compactMap { $0["text"]?.stringValue ?? $0["refusal"]?.stringValue }.joined()
      return
    }
    endTurn()
    append(["role": .string(role), "content": try content(parts, path: "\(path).content")])
  }

  private mutating func addReasoning(_ item: JSONValue) {
    let text = Self.reasoningText(of: item)
    guard !text.utf8.isEmpty else { return }
    // Reasoning after an answer or a call begins the next turn; two in a row are one.
    if turn?.hasActed == true { endTurn() }
    openTurn()
    turn?.reasoning.append(text)
  }

  /// The reasoning itself where it is there, else its summary.
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
  private mutating func addCall(_ item: JSONValue, arguments: String, path: String) throws(APIError) {
    if item["status"] == "incomplete" { return }
    let id = item["call_id"]?.stringValue ?? ""
    let own = item["name"]?.stringValue ?? ""
    let name = item["namespace"]?.stringValue.map { ToolName.joined($0, own) } ?? own
    openTurn()
    guard (turn?.calls.count ?? 0) < limits.tools else {
      throw .invalidValue(path, "there are more than \(limits.tools) calls in one turn")
    }
    turn?.calls.append([
      "id": .string(id), "type": "function",
      "function": ["name": .string(name), "arguments": .string(arguments)],
    ])
  }

  /// A search of an earlier turn, as the call and the result that the model saw.
  private mutating func addSearch(_ item: JSONValue, path: String) throws(APIError) {
    guard let results = item["results"]?.arrayValue else { return }
    let call = FileSearchMessages.call(item)
    try addCall(call, arguments: call["arguments"]?.stringValue ?? "", path: path)
    endTurn()
    append(FileSearchMessages.result(of: item, FileSearchMessages.text(results)))
  }

  /// A call of a tool of another server, as the call and the result that the model saw.
  private mutating func addRemote(_ item: JSONValue, path: String) throws(APIError) {
    guard item["status"] != "incomplete", item["status"] != "in_progress" else { return }
    let call: JSONValue = [
      "call_id": item["id"] ?? "", "name": .string(MCPTool.functionName(item["name"]?.stringValue ?? "")),
    ]
    try addCall(call, arguments: item["arguments"]?.stringValue ?? "", path: path)
    endTurn()
    append(MCPMessages.result(of: item))
  }

  private mutating func addOutput(_ item: JSONValue, path: String) throws(APIError) {
    endTurn()
    var output: JSONValue = item["output"] ?? ""
    if case .array(let parts) = output { output = try content(parts, path: "\(path).output") }
    append(["role": "tool", "tool_call_id": item["call_id"] ?? "", "content": output])
  }

  // MARK: Content parts

  /// One string when everything is text, else parts.
  private mutating func content(_ parts: [JSONValue], path: String) throws(APIError) -> JSONValue {
    var converted: [JSONValue] = []
    for (index, part) in parts.enumerated() {
      var fields = try Fields(part, path: "\(path)[\(index)]")
      converted.append(try chatPart(&fields))
    }
    let texts = converted.compactMap { $0["text"]?.stringValue }
    return texts.count == converted.count ? .string(texts.joined()) : .array(converted)
  }

  private mutating func chatPart(_ part: inout Fields) throws(APIError) -> JSONValue {
    switch part.object["type"]?.stringValue {
    case "input_image": return try written.placeholder(of: Self.image(&part))
    case "input_audio": return try written.placeholder(of: .audio(&part))
    case "input_file": return ["type": "text", "text": .string(try InputFile.text(of: &part))]
    case let type: return try Transcript.part(of: part, type: type ?? "")
    }
  }

  /// The members of an image stand in the part itself on this wire.
  private static func image(_ part: inout Fields) throws(APIError) -> MediaPart {
    if part.object["file_id"]?.stringValue != nil {
      throw .unsupportedParameter(part.name(of: "file_id"), "this server holds no files")
    }
    return MediaPart(
      content: .image(url: try part.requiredString("image_url"), detail: try .read(&part)), path: part.path,
      field: part.name(of: "image_url"))
  }
}
