// `system` and `messages` of POST /v1/messages as the messages of a conversation.

import JSON

/// Every block is taken over or refused with its path; nothing is dropped but reasoning of other servers, and the work of
/// tools that they ran themselves.
struct MessagesConversation {
  /// What a request gives of it.
  struct Given {
    fileprivate let system: JSONValue?
    fileprivate let messages: [JSONValue]

    init(_ fields: inout Fields) throws(APIError) {
      system = fields.value(
        "system", Shape.named("TextBlocks"), "a string or text blocks", like: #""Be brief.""#)
      messages = try fields.requiredArray(
        "messages", of: Shape.named("MessagesMessage"), maxCount: fields.limits.messages, "see below",
        like: #"[{"role":"user","content":"Hello!"}]"#)
    }

    /// The names in the `tool_reference` blocks of the client's results, or of those that a provider has found, which the
    /// model is not shown.
    func references(ofProvider: Bool) -> [String] {
      messages.flatMap { Self.blocks(in: $0) }.flatMap { block -> [String] in
        let found =
          ofProvider ? block["content"]?["tool_references"]?.arrayValue ?? [] : Self.blocks(in: block)
        return found.filter { $0["type"] == "tool_reference" }.compactMap { $0["tool_name"]?.stringValue }
      }
    }

    private static func blocks(in value: JSONValue) -> [JSONValue] { value["content"]?.arrayValue ?? [] }
  }

  private let limits: RequestLimits
  /// Those of the request; a reference in a result stands for one that a search has found.
  private let tools: ToolSelection
  private(set) var transcript: Transcript
  /// The assistant's own last message, with which the answer goes on.
  private(set) var continuedField: String?

  init(limits: RequestLimits, tools: ToolSelection) {
    (self.limits, self.tools) = (limits, tools)
    transcript = Transcript(limits: limits)
  }

  mutating func read(_ given: Given) throws(APIError) {
    if let system = given.system {
      let content = try texts(system, path: "system", in: "the system prompt")
      if content != "" { transcript.append(["role": "system", "content": content]) }
    }
    let values = given.messages
    for (index, value) in values.enumerated() { try readMessage(value, path: "messages[\(index)]") }
    try transcript.checkCount(field: "messages")
    // An assistant's text that stands last is the beginning of the answer.
    if let last = transcript.messages.last, last["role"] == "assistant", last["tool_calls"] == nil {
      continuedField = "messages[\(values.count - 1)]"
    }
  }

  private mutating func readMessage(_ value: JSONValue, path: String) throws(APIError) {
    var message = try Fields(value, path: path)
    let role = try message.requiredString("role")
    let content = try message.required("content")
    switch role {
    case "user": try readUser(content, path: path)
    case "assistant": try readAssistant(content, path: path)
    case "system":
      let content = try texts(content, path: "\(path).content", in: "a system message")
      transcript.append(["role": "system", "content": content])
    default:
      throw .invalidValue(
        "\(path).role", "'\(APIError.shortened(role))' is none of user, assistant, system")
    }
  }

  private func blocks(_ content: JSONValue, path: String) throws(APIError) -> [JSONValue] {
    guard let blocks = content.arrayValue else {
      throw .wrongType(path, expected: "a string or an array of content blocks", found: content)
    }
    guard blocks.count <= limits.contentParts else {
      throw .invalidValue(path, "there are \(blocks.count) blocks, more than \(limits.contentParts)")
    }
    return blocks
  }

  /// A string, or text blocks as parts of a chat message.
  private func texts(_ content: JSONValue, path: String, in place: String) throws(APIError) -> JSONValue {
    if case .string = content { return content }
    var parts: [JSONValue] = []
    for (index, value) in try blocks(content, path: path).enumerated() {
      var block = try Fields(value, path: "\(path)[\(index)]")
      let type = try block.requiredString("type")
      guard type == "text" else { throw misplaced(type, in: place, path: block.path) }
      parts.append(try Self.part(&block))
    }
    return parts.isEmpty ? "" : .array(parts)
  }

  private static func part(_ block: inout Fields) throws(APIError) -> JSONValue {
    ["type": "text", "text": .string(try block.requiredString("text"))]
  }

  private func misplaced(_ type: String, in place: String, path: String) -> APIError {
    if ["document", "search_result", "container_upload"].contains(type) {
      return .unsupportedValue("\(path).type", "'\(type)' blocks cannot stand in \(place); send their text")
    }
    return .invalidValue("\(path).type", "'\(APIError.shortened(type))' is not a block of \(place)")
  }

  // MARK: User

  /// Results of tools are messages of their own, in the order of the blocks.
  private mutating func readUser(_ content: JSONValue, path: String) throws(APIError) {
    if case .string = content { return transcript.append(["role": "user", "content": content]) }
    var parts: [JSONValue] = []
    let values = try blocks(content, path: "\(path).content")
    guard !values.isEmpty else { throw .invalidValue("\(path).content", "it is empty") }
    for (index, value) in values.enumerated() {
      var block = try Fields(value, path: "\(path).content[\(index)]")
      switch try block.requiredString("type") {
      case "text": parts.append(try Self.part(&block))
      case "image": parts.append(try image(&block))
      case "document": parts.append(try document(&block))
      case "search_result": parts.append(try searchResult(&block))
      case "compaction": if try readCompaction(&block) { parts = [] }
      case "tool_result":
        if !parts.isEmpty { transcript.append(["role": "user", "content": .array(parts)]) }
        parts = []
        try readResult(&block)
      case let type: throw misplaced(type, in: "a user message", path: block.path)
      }
    }
    if !parts.isEmpty { transcript.append(["role": "user", "content": .array(parts)]) }
  }

  private mutating func readResult(_ block: inout Fields) throws(APIError) {
    let id = try block.requiredString("tool_use_id")
    let isError = try block.bool("is_error") == true
    var content: JSONValue = isError ? Self.errorText("") : ""
    if let given = block.value("content") {
      content = try result(given, path: block.name(of: "content"), isError: isError)
    }
    transcript.append(["role": "tool", "tool_call_id": .string(id), "content": content])
  }

  /// A string, or blocks of text and images. Chat templates can be told of an error in words only.
  private mutating func result(_ content: JSONValue, path: String, isError: Bool) throws(APIError)
    -> JSONValue
  {
    if case .string(let text) = content { return isError ? Self.errorText(text) : content }
    var parts: [JSONValue] = isError ? [["type": "text", "text": "Error: "]] : []
    for (index, value) in try blocks(content, path: path).enumerated() {
      var block = try Fields(value, path: "\(path)[\(index)]")
      switch try block.requiredString("type") {
      case "text": parts.append(try Self.part(&block))
      case "image": parts.append(try image(&block))
      case "document": parts.append(try document(&block))
      case "search_result": parts.append(try searchResult(&block))
      case "tool_reference": parts.append(try reference(&block))
      case let type: parts.append(try Transcript.part(of: block, type: type))
      }
    }
    return parts.isEmpty ? "" : .array(parts)
  }

  /// The definition of the tool that a search has found; the name of one that the model knows anyway.
  private func reference(_ block: inout Fields) throws(APIError) -> JSONValue {
    guard let name = try block.string("tool_name"), let definition = tools.definition(of: name) else {
      return try Transcript.part(of: block, type: "tool_reference")
    }
    return ["type": "text", "text": .string(definition)]
  }

  private static func errorText(_ text: String) -> JSONValue {
    [["type": "text", "text": "Error: "], ["type": "text", "text": .string(text)]]
  }

  // MARK: Documents

  /// The text of a document, below its title and what is said of it.
  private func document(_ block: inout Fields) throws(APIError) -> JSONValue {
    let title = try block.string("title")
    let note = try block.string("context").map { $0 + "\n" } ?? ""
    var source = try block.requiredFields("source")
    let text: String
    switch try source.requiredString("type") {
    case "text": text = try source.requiredString("data")
    case "content":
      text = try joined(source.required("content"), path: source.name(of: "content"), in: "a document")
    case "base64":
      let type = try source.requiredString("media_type")
      guard type.utf8.starts(with: "text/".utf8) else {
        throw .unsupportedValue(
          source.name(of: "media_type"),
          "only documents of text can be read, not '\(APIError.shortened(type))'")
      }
      guard let bytes = Base64.decode(try source.requiredString("data")),
        let decoded = String(validating: bytes, as: UTF8.self)
      else { throw .invalidValue(source.name(of: "data"), "it is not UTF-8 text in base64") }
      text = decoded
    case let type:
      throw .unsupportedValue(
        source.name(of: "type"),
        "expected 'text', 'content' or 'base64', but got '\(APIError.shortened(type))'")
    }
    return ["type": "text", "text": .string(InputFile.text(note + text, named: title))]
  }

  /// The text of a search result, below its title and where it is from.
  private func searchResult(_ block: inout Fields) throws(APIError) -> JSONValue {
    let title = try block.requiredString("title")
    let source = try block.requiredString("source")
    let text = try joined(
      block.required("content"), path: block.name(of: "content"), in: "a search result")
    return ["type": "text", "text": .string(InputFile.text(text, named: "\(title) (\(source))"))]
  }

  /// A string, or the texts of blocks line by line.
  private func joined(_ content: JSONValue, path: String, in place: String) throws(APIError) -> String {
    let read = try texts(content, path: path, in: place)
    return read.stringValue
      ?? (read.arrayValue ?? []).compactMap { $0["text"]?.stringValue }.joined(separator: "\n")
  }

  // MARK: Images

  /// An image block as a part of the message that is being read.
  private mutating func image(_ block: inout Fields) throws(APIError) -> JSONValue {
    var source = try block.requiredFields("source")
    let url: String
    let field: String
    switch try source.requiredString("type") {
    case "base64":
      let type = try source.requiredString("media_type")
      url = "data:\(type);base64,\(try source.requiredString("data"))"
      field = source.name(of: "data")
    case "url":
      url = try source.requiredString("url")
      field = source.name(of: "url")
    case let type:
      throw .unsupportedValue(
        source.name(of: "type"), "expected 'base64' or 'url', but got '\(APIError.shortened(type))'")
    }
    return try transcript.placeholder(
      of: MediaPart(content: .image(url: url, detail: .auto), path: block.path, field: field))
  }

  // MARK: Compactions

  /// A summary stands for everything before it, but for system messages; without a text it stands for nothing.
  ///
  /// - Returns: whether there is one.
  private mutating func readCompaction(_ block: inout Fields) throws(APIError) -> Bool {
    guard let summary = try block.string("content") else { return false }
    transcript.forget()
    let text = "Summary of the conversation so far:\n\n" + summary
    transcript.append(["role": "user", "content": .string(text)])
    return true
  }

  // MARK: Assistant

  private mutating func readAssistant(_ content: JSONValue, path: String) throws(APIError) {
    if case .string = content { return transcript.append(["role": "assistant", "content": content]) }
    var text = ""
    var reasoning = ""
    var calls: [JSONValue] = []
    var isCompacted = false
    for (index, value) in try blocks(content, path: "\(path).content").enumerated() {
      var block = try Fields(value, path: "\(path).content[\(index)]")
      switch try block.requiredString("type") {
      case "text": text += try block.requiredString("text")
      case "compaction":
        if try readCompaction(&block) { (text, reasoning, calls, isCompacted) = ("", "", [], true) }
      case "thinking":
        let words = try block.requiredString("thinking")
        if ReasoningSignature.isOwn(try block.string("signature") ?? "", of: words) {
          reasoning += words
        } else {
          transcript.leaveOut("\(block.path).type=thinking")
        }
      // Another server's.
      case "redacted_thinking": transcript.leaveOut("\(block.path).type=redacted_thinking")
      // What another server's own tools did: its text says what came of it.
      case "server_tool_use", "mcp_tool_use": continue
      case let type where type.hasSuffix("_tool_result"): continue
      case "tool_use": calls.append(try readCall(&block))
      case let type: throw misplaced(type, in: "an assistant message", path: block.path)
      }
    }
    // After a summary nothing need be said.
    if isCompacted, text.utf8.isEmpty, calls.isEmpty { return }
    var message = JSONObject([("role", "assistant")])
    if !text.utf8.isEmpty || calls.isEmpty { message["content"] = .string(text) }
    if !reasoning.utf8.isEmpty { message["reasoning_content"] = .string(reasoning) }
    if !calls.isEmpty { message["tool_calls"] = .array(calls) }
    guard calls.count <= limits.tools else {
      throw .invalidValue("\(path).content", "there are more than \(limits.tools) tool_use blocks")
    }
    transcript.append(.object(message))
  }

  private mutating func readCall(_ block: inout Fields) throws(APIError) -> JSONValue {
    let id = try block.requiredString("id")
    let name = try block.requiredString("name")
    guard let input = try block.object("input") else { throw .missing(block.name(of: "input")) }
    return [
      "id": .string(id), "type": "function",
      "function": ["name": .string(name), "arguments": .string(JSONValue.object(input).text)],
    ]
  }
}

/// Tells reasoning that this server wrote from others: a check sum of its text, no proof.
package enum ReasoningSignature {
  /// The signature of a text.
  package static func make(of reasoning: String) -> String {
    "mlxserve_" + String(FNV1a.hash(reasoning), radix: 16)
  }

  static func isOwn(_ signature: String, of reasoning: String) -> Bool {
    signature.utf8.elementsEqual(make(of: reasoning).utf8)
  }
}
