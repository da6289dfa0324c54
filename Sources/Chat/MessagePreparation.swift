// Brings messages of the API into the form that a model's template takes.

import JSON

struct MessagePreparation {
  let capabilities: TemplateCapabilities
  /// Around the reasoning that clients leave in earlier answers.
  let reasoning: ReasoningMarkers
  /// Whether the template is that of gpt-oss.
  var isHarmony = false

  struct Prepared {
    var messages: [JSONValue]
    var tools: [JSONValue]
  }

  /// The conversation with every message, its calls and their results in the form that the template takes. Texts of
  /// different messages are still apart.
  func prepare(_ conversation: Conversation) throws(ChatError) -> Conversation {
    var messages: [JSONObject] = []
    for (index, message) in conversation.messages.enumerated() {
      guard let object = message.objectValue else {
        throw .malformedMessage(index: index, problem: "not an object")
      }
      messages.append(try prepare(object, index))
    }
    if !capabilities.stripsReasoning { stripReasoning(&messages) }
    messages = ToolResults.arranged(messages, opensAnswer: conversation.opensAnswer)
    if !capabilities.takesResults {
      messages = messages.map { $0["role"] == "tool" ? CallsInText.result($0) : $0 }
    }
    placeSystem(&messages)
    if capabilities.needsUserFirst, !conversation.tools.isEmpty { beginWithUser(&messages) }
    if !capabilities.takesTextBesideCalls, !isHarmony { messages = messages.flatMap(splitText) }
    if capabilities.needsSingleCalls { messages = splitCalls(messages) }
    if capabilities.foldsResults { messages = foldResults(messages) }
    if isHarmony { messages = messages.map(HarmonyMessages.prepare) }
    if let ids = capabilities.callIDs { renameCalls(&messages, ids) }
    var result = conversation
    result.messages = messages.map(JSONValue.object)
    return result
  }

  /// What the template gets of a prepared conversation: texts joined that it cannot take apart.
  func join(_ conversation: Conversation) -> Prepared {
    var messages = conversation.messages.compactMap(\.objectValue)
    var tools = conversation.tools
    if capabilities.tools == .systemMessage {
      messages = PhiMessages.prepare(messages, tools: tools)
      tools = []
    }
    if capabilities.writesCallsAsText { messages = messages.map(PythonCalls.written) }
    if !capabilities.takesCalls { messages = messages.map(CallsInText.call) }
    mergeSystem(&messages)
    messages = merged(messages)
    if capabilities.needsParts { messages = messages.map(withParts) }
    return Prepared(messages: messages.map(JSONValue.object), tools: tools)
  }

  private func withParts(_ message: JSONObject) -> JSONObject {
    guard let text = message["content"]?.stringValue, !text.utf8.isEmpty || message["tool_calls"] == nil
    else { return message }
    var result = message
    result["content"] = [.textPart(text)]
    return result
  }

  // MARK: One message

  private func prepare(_ message: JSONObject, _ index: Int) throws(ChatError) -> JSONObject {
    guard let role = message["role"]?.stringValue else {
      throw .malformedMessage(index: index, problem: "'role' is missing")
    }
    var result = message
    if role == "developer", !capabilities.takesDeveloperRole { result["role"] = "system" }
    if let calls = message["tool_calls"]?.arrayValue, !calls.isEmpty {
      var prepared: [JSONValue] = []
      for call in calls { prepared.append(try prepareCall(call, index)) }
      result["tool_calls"] = .array(prepared)
    } else {
      // Templates ask whether the key exists.
      result["tool_calls"] = nil
    }
    // Templates know one name or the other.
    if let reasoning = message["reasoning_content"] ?? message["reasoning"], !reasoning.isNull {
      result["reasoning_content"] = reasoning
    } else {
      result["reasoning_content"] = nil
    }
    result["reasoning"] = nil
    result["content"] = try content(of: message, hasCalls: result["tool_calls"] != nil)
    if role == "assistant", result["reasoning_content"] != nil, let text = result["content"]?.stringValue {
      // The same reasoning a second time, left in the text by a client.
      result["content"] = .string(withoutReasoning(text))
    }
    return result
  }

  /// Text without reasoning at its beginning.
  private func withoutReasoning(_ text: String) -> String {
    let bytes = Bytes.trimmed(Array(text.utf8))
    guard bytes.starts(with: reasoning.open.utf8), let end = Bytes.find(reasoning.close, in: bytes[...])
    else {
      return text
    }
    return Bytes.text(bytes[(end + reasoning.close.utf8.count)...].drop { Bytes.isSpace($0) })
  }

  private func content(of message: JSONObject, hasCalls: Bool) throws(ChatError) -> JSONValue? {
    switch message["content"] {
    case .array(let parts): return try prepareParts(parts, isTool: message["role"]?.stringValue == "tool")
    case .string(let text) where !text.utf8.isEmpty: return .string(text)
    case nil, .null, .string:
      return hasCalls ? noContent : ""
    case let other?: return other
    }
  }

  /// Stands for "no text" beside calls.
  private var noContent: JSONValue? {
    switch capabilities.emptyContent {
    case .text: ""
    case .null: .null
    case .absent: nil
    }
  }

  /// Parts as they are where the template takes them, else their texts joined.
  private func prepareParts(_ parts: [JSONValue], isTool: Bool) throws(ChatError) -> JSONValue {
    let texts = parts.compactMap { part -> String? in
      switch part["type"]?.stringValue {
      case "text", "input_text", "output_text", "refusal":
        part["text"]?.stringValue ?? part["refusal"]?.stringValue
      default: nil
      }
    }
    if texts.count == parts.count, !capabilities.needsParts || isTool { return .string(texts.joined()) }
    guard capabilities.takesParts else {
      let other = parts.first {
        !["text", "input_text", "output_text", "refusal"].contains($0["type"]?.stringValue ?? "")
      }
      throw .unsupportedPart(type: other?["type"]?.stringValue ?? "unknown")
    }
    return .array(parts)
  }

  private func prepareCall(_ call: JSONValue, _ index: Int) throws(ChatError) -> JSONValue {
    guard var object = call.objectValue, var function = object["function"]?.objectValue,
      function["name"]?.stringValue != nil
    else { throw .malformedMessage(index: index, problem: "a tool call without a function name") }
    let arguments = function["arguments"] ?? .null
    if capabilities.needsArgumentText {
      function["arguments"] = .string(arguments.stringValue ?? arguments.text)
    } else if let text = arguments.stringValue {
      let isEmpty = Bytes.isSpace(text.utf8)
      let value = isEmpty ? [:] : try? JSONValue(parsing: text)
      // A limit may cut an answer in the middle of a call, and the client sends that call back. The template wants an
      // object, and the model should see what it wrote.
      function["arguments"] = value?.objectValue == nil ? ["malformed_json": .string(text)] : value
    } else if arguments.isNull {
      function["arguments"] = [:]
    }
    object["function"] = .object(function)
    return .object(object)
  }

  // MARK: The conversation

  /// Removes reasoning that clients left in the text of earlier answers, for templates that do not.
  private func stripReasoning(_ messages: inout [JSONObject]) {
    guard let lastUser = messages.lastIndex(where: { $0["role"]?.stringValue == "user" }) else { return }
    for index in messages.indices
    where index < lastUser && messages[index]["role"]?.stringValue == "assistant" {
      guard let content = messages[index]["content"]?.stringValue else { continue }
      messages[index]["content"] = .string(withoutReasoning(content))
    }
  }

  private static func isSystem(_ message: JSONObject) -> Bool {
    message["role"] == "system" || message["role"] == "developer"
  }

  /// Joins system texts at the beginning where the template takes one, and gives later ones to the user where it does not
  /// take them in their place.
  private func placeSystem(_ messages: inout [JSONObject]) {
    let count = messages.prefix(while: Self.isSystem).count
    for index in messages.indices.dropFirst(count) where Self.isSystem(messages[index]) {
      guard !capabilities.rolesAnywhere.contains(messages[index]["role"]?.stringValue ?? "") else { continue }
      messages[index]["role"] = "user"
    }
    guard count > 1, !capabilities.takesSeveralSystemTexts else { return }
    messages[0]["content"] = .joined(messages.prefix(count).compactMap { $0["content"] })
    messages.removeSubrange(1..<count)
  }

  private func beginWithUser(_ messages: inout [JSONObject]) {
    let first = messages.prefix(while: Self.isSystem).count
    guard messages.dropFirst(first).first?["role"] != "user" else { return }
    messages.insert(JSONObject([("role", "user"), ("content", "")]), at: first)
  }

  /// Text before calls as a message of its own.
  private func splitText(_ message: JSONObject) -> [JSONObject] {
    guard message["tool_calls"] != nil, let content = message["content"], content != "", content != [],
      !content.isNull
    else { return [message] }
    var calls = message
    calls["content"] = noContent
    return [JSONObject([("role", "assistant"), ("content", content)]), calls]
  }

  /// One message per call, each followed by its result.
  private func splitCalls(_ messages: [JSONObject]) -> [JSONObject] {
    var result: [JSONObject] = []
    var rest = messages[...]
    while let message = rest.first {
      let turn = rest.prefix { $0["tool_calls"] != nil }
      guard turn.count > 1 || (turn.first?["tool_calls"]?.arrayValue?.count ?? 0) > 1 else {
        result.append(message)
        rest = rest.dropFirst()
        continue
      }
      rest = rest[turn.endIndex...]
      for message in turn {
        for (place, call) in (message["tool_calls"]?.arrayValue ?? []).enumerated() {
          var single = message
          single["tool_calls"] = [call]
          if place > 0 { (single["content"], single["reasoning_content"]) = (noContent, nil) }
          result.append(single)
          // They are in the order of the calls.
          if let answer = rest.first, answer["role"] == "tool", answer["tool_call_id"] == call["id"] {
            result.append(answer)
            rest = rest.dropFirst()
          }
        }
      }
    }
    return result
  }

  /// Calls, their results and the answer that follows as one message, which the template prints as one turn in this
  /// order.
  private func foldResults(_ messages: [JSONObject]) -> [JSONObject] {
    func isPlainAnswer(_ message: JSONObject) -> Bool {
      message["role"]?.stringValue == "assistant" && message["tool_calls"] == nil
    }
    var result: [JSONObject] = []
    var index = 0
    while index < messages.count {
      var message = messages[index]
      index += 1
      var responses: [JSONValue] = []
      while message["tool_calls"] != nil, index < messages.count,
        messages[index]["role"]?.stringValue == "tool"
      {
        var response = JSONObject([("response", messages[index]["content"] ?? "")])
        response["name"] = messages[index]["name"]
        responses.append(.object(response))
        index += 1
      }
      if !responses.isEmpty {
        message["tool_responses"] = .array(responses)
        if index < messages.count, isPlainAnswer(messages[index]) {
          message["content"] = messages[index]["content"]
          index += 1
        }
      }
      result.append(message)
    }
    return result
  }

  /// Gives calls and their results the identifiers that the template wants.
  private func renameCalls(_ messages: inout [JSONObject], _ ids: TemplateCapabilities.CallIDs) {
    var renamed: [ByteKey: JSONValue] = [:]
    var count = 0
    for index in messages.indices {
      if let id = messages[index]["tool_call_id"]?.stringValue {
        messages[index]["tool_call_id"] = renamed[ByteKey(id)] ?? .string(Self.shortID(id))
      }
      guard let calls = messages[index]["tool_calls"]?.arrayValue else { continue }
      messages[index]["tool_calls"] = .array(
        calls.map { call in
          guard var object = call.objectValue, let id = object["id"]?.stringValue else { return call }
          let name = object["function"]?["name"]?.stringValue ?? ""
          let new = JSONValue.string(ids == .short ? Self.shortID(id) : "functions.\(name):\(count)")
          count += 1
          renamed[ByteKey(id)] = new
          object["id"] = new
          return .object(object)
        })
    }
  }

  /// Nine letters and digits: the identifier itself when it is that, else a hash of it (FNV-1a).
  static func shortID(_ id: String) -> String {
    func isAlphanumeric(_ byte: UInt8) -> Bool {
      (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
    }
    if id.utf8.count == 9, id.utf8.allSatisfy(isAlphanumeric) { return id }
    let digits = Array(String(FNV1a.hash(id), radix: 36).utf8)
    return Bytes.text(Array(repeating: UInt8(ascii: "0"), count: max(0, 9 - digits.count)) + digits.prefix(9))
  }

  /// Puts the system text in front of a user message where the template does not show it: of the one that begins the
  /// conversation, or of the last one.
  private func mergeSystem(_ messages: inout [JSONObject]) {
    func isUser(_ message: JSONObject?) -> Bool { message?["role"] == "user" }
    let system = messages.filter { $0["role"] == "system" }.compactMap { $0["content"] }
    guard !system.isEmpty else { return }
    let rest = messages.filter { $0["role"] != "system" }
    var place = 0
    if capabilities.takesSystemRole, capabilities.takesSystemAlone || isUser(rest.first) {
      guard !capabilities.takesSystemBehindUser, !isUser(rest.last) else { return }
      place = rest.lastIndex(where: isUser) ?? 0
    }
    messages = rest
    if place < rest.count, isUser(rest[place]) {
      messages[place]["content"] = .joined(system + [rest[place]["content"] ?? ""])
    } else {
      messages.insert(JSONObject([("role", "user"), ("content", .joined(system))]), at: 0)
    }
  }

  /// Joins neighbours of one role that are plain text, where the template takes none; the first of them keeps its other
  /// members.
  private func merged(_ messages: [JSONObject]) -> [JSONObject] {
    guard capabilities.joinsUsers || capabilities.joinsAnswers else { return messages }
    func text(of message: JSONObject, from role: String) -> String? {
      guard message["role"]?.stringValue == role, message["tool_calls"] == nil else { return nil }
      return message["content"]?.stringValue
    }
    var result: [JSONObject] = []
    var index = 0
    while index < messages.count {
      var message = messages[index]
      index += 1
      if let role = message["role"]?.stringValue,
        role == "user" ? capabilities.joinsUsers : role == "assistant" && capabilities.joinsAnswers,
        let first = text(of: message, from: role)
      {
        var texts = [first]
        while index < messages.count, let next = text(of: messages[index], from: role) {
          texts.append(next)
          index += 1
        }
        if texts.count > 1 { message["content"] = .string(texts.joined(separator: "\n\n")) }
      }
      result.append(message)
    }
    return result
  }
}
