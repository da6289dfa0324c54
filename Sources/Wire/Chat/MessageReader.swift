// The `messages` field of a chat request: roles, contents, tool calls and their results, checked one by one.

import JSON

/// Produces message objects for the chat template: null members dropped, images and audio taken out, everything else
/// as the client wrote it.
struct MessageReader {
  private let limits: RequestLimits
  private var transcript: Transcript

  init(limits: RequestLimits) {
    self.limits = limits
    transcript = Transcript(limits: limits)
  }

  private static let roles = ["system", "developer", "user", "assistant", "tool"]

  mutating func read(_ fields: inout Fields) throws(APIError) -> Transcript {
    let values = try fields.requiredArray(
      "messages", of: Shape.named("ChatMessage"), maxCount: limits.messages, "see below",
      like: #"[{"role":"user","content":"Hello!"}]"#)
    for (index, value) in values.enumerated() {
      transcript.append(try readMessage(value, path: "messages[\(index)]"))
    }
    return transcript
  }

  private mutating func readMessage(_ value: JSONValue, path: String) throws(APIError) -> JSONValue {
    var message = try Fields(value, path: path)
    var content: JSONValue?
    let role = try message.requiredString("role")
    guard Self.roles.contains(role) else {
      if role == "function" {
        throw .unsupportedValue("\(path).role", "'function' is deprecated; use 'tool' with 'tool_call_id'")
      }
      throw .invalidValue(
        "\(path).role", "'\(APIError.shortened(role))' is none of \(Self.roles.joined(separator: ", "))")
    }
    _ = try message.string("name")
    var calls: [JSONValue] = []
    switch role {
    case "assistant": calls = try readAssistant(&message)
    case "tool":
      _ = try message.requiredString("tool_call_id")
      content = message.value("content") == [] ? "" : try readContent(&message, role: role)
    default: content = try readContent(&message, role: role)
    }
    var object = JSONObject(
      message.object.entries.lazy.filter { !$0.value.isNull }.map { ($0.key, $0.value) })
    if let content { object["content"] = content }
    if !calls.isEmpty { object["tool_calls"] = .array(calls) }
    if role == "assistant" { settleReasoning(&object, path: path) }
    return .object(object)
  }

  // MARK: Content

  private mutating func readContent(_ message: inout Fields, role: String) throws(APIError) -> JSONValue {
    let path = message.name(of: "content")
    switch try message.required("content") {
    case .string(let text): return .string(text)
    case .array(let parts):
      guard !parts.isEmpty, parts.count <= limits.contentParts else {
        throw .invalidValue(path, "it must have 1 to \(limits.contentParts) parts")
      }
      var read: [JSONValue] = []
      for (index, part) in parts.enumerated() {
        read.append(try readPart(part, path: "\(path)[\(index)]", role: role))
      }
      return .array(read)
    case let other: throw .wrongType(path, expected: "a string or an array of content parts", found: other)
    }
  }

  private mutating func readPart(_ value: JSONValue, path: String, role: String) throws(APIError) -> JSONValue
  {
    var part = try Fields(value, path: path)
    let takesMedia = role == "user" || role == "tool"
    switch try part.requiredString("type") {
    case "text": _ = try part.requiredString("text")
    case "refusal" where role == "assistant": _ = try part.requiredString("refusal")
    case "image_url" where takesMedia: return try transcript.placeholder(of: .image(&part))
    case "input_audio" where takesMedia: return try transcript.placeholder(of: .audio(&part))
    case "file" where takesMedia:
      var file = try part.requiredFields("file")
      return ["type": "text", "text": .string(try InputFile.text(of: &file))]
    case let type where role == "tool": return try Transcript.part(of: part, type: type)
    case let type:
      throw .invalidValue(
        "\(path).type",
        "'\(APIError.shortened(type))' is not a content part of \(role == "assistant" ? "an" : "a") \(role) message"
      )
    }
    return value
  }

  // MARK: Assistant

  /// Gives the first reasoning that has a text the name that templates know; what others say beside it is left out.
  private mutating func settleReasoning(_ message: inout JSONObject, path: String) {
    var reasoning = message["reasoning_content"]?.stringValue
    for name in ["reasoning", "thinking", "reasoning_details"] {
      guard let value = message[name], value != [] else { continue }
      let text =
        value.stringValue ?? (value.arrayValue ?? []).compactMap { $0["text"]?.stringValue }.joined()
      message[name] = nil
      if reasoning == nil, !text.utf8.isEmpty {
        reasoning = text
        message["reasoning_content"] = .string(text)
      } else if text != reasoning, value != "" {
        transcript.leaveOut("\(path).\(name)")
      }
    }
  }

  /// - Returns: its calls, those of custom tools as calls of functions.
  private mutating func readAssistant(_ message: inout Fields) throws(APIError) -> [JSONValue] {
    // Without content it is an empty turn: histories hold such turns when a limit fell inside the reasoning.
    if let content = message.value("content"), content != [] {
      _ = try readContent(&message, role: "assistant")
    }
    _ = try message.string("refusal")
    _ = try message.string("reasoning_content")
    _ = try message.string("reasoning")
    try message.refuse("function_call", because: "it is deprecated; use 'tool_calls'")
    var read: [JSONValue] = []
    let calls = try message.array("tool_calls", maxCount: limits.tools) ?? []
    for (index, value) in calls.enumerated() {
      let path = "\(message.name(of: "tool_calls"))[\(index)]"
      var call = try Fields(value, path: path)
      _ = try call.requiredString("id")
      switch try call.string("type") ?? "function" {
      case "function":
        var function = try call.requiredFields("function")
        _ = try function.requiredString("name")
        _ = try function.requiredString("arguments")
        read.append(value)
      case "custom":
        var custom = try call.requiredFields("custom")
        read.append([
          "id": call.value("id") ?? "", "type": "function",
          "function": [
            "name": .string(try custom.requiredString("name")),
            "arguments": .string(Tool.arguments(of: try custom.requiredString("input"))),
          ],
        ])
      case let type:
        throw .unsupportedValue("\(path).type", "'\(APIError.shortened(type))' calls cannot be used here")
      }
    }
    return read
  }
}
