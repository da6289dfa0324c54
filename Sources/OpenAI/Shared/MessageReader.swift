// The `messages` field: roles, contents, tool calls and their results, checked one by one.

import JSON

/// Produces message objects for the chat template: null members dropped, images and audio taken out, everything else
/// as the client wrote it.
struct MessageReader {
  private let limits: RequestLimits
  /// What the placeholders in the messages stand for.
  private(set) var media: [MediaPart] = []

  init(limits: RequestLimits) { self.limits = limits }

  private static let roles = ["system", "developer", "user", "assistant", "tool"]

  mutating func read(_ fields: inout Fields) throws(APIError) -> [JSONValue] {
    guard let values = try fields.array("messages", maxCount: limits.messages) else {
      throw .missing("messages")
    }
    guard !values.isEmpty else { throw .invalidValue("messages", "it is empty") }
    var callIDs: Set<ByteKey> = []
    var messages: [JSONValue] = []
    messages.reserveCapacity(values.count)
    for (index, value) in values.enumerated() {
      messages.append(try readMessage(value, path: "messages[\(index)]", callIDs: &callIDs))
    }
    return messages
  }

  private mutating func readMessage(_ value: JSONValue, path: String, callIDs: inout Set<ByteKey>)
    throws(APIError) -> JSONValue
  {
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
    switch role {
    case "assistant": try checkAssistant(&message, callIDs: &callIDs)
    case "tool":
      let id = try message.requiredString("tool_call_id")
      guard callIDs.contains(ByteKey(id)) else {
        throw .invalidValue(
          "\(path).tool_call_id", "no earlier assistant message has a tool call '\(APIError.shortened(id))'")
      }
      content = try readContent(&message, role: role)
    default: content = try readContent(&message, role: role)
    }
    var object = JSONObject(
      message.object.entries.lazy.filter { !$0.value.isNull }.map { ($0.key, $0.value) })
    if let content { object["content"] = content }
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
    case "image_url" where takesMedia: return try add(MediaPart.image(&part))
    case "input_audio" where takesMedia: return try add(MediaPart.audio(&part))
    case "file" where takesMedia:
      throw .unsupportedValue("\(path).type", "this server reads no files; send their text")
    case let type:
      throw .invalidValue(
        "\(path).type",
        "'\(APIError.shortened(type))' is not a content part of \(role == "assistant" ? "an" : "a") \(role) message"
      )
    }
    return value
  }

  private mutating func add(_ part: MediaPart) throws(APIError) -> JSONValue {
    guard media.count < limits.mediaParts else {
      throw .invalidValue(part.path, "a request holds at most \(limits.mediaParts) images and audio")
    }
    media.append(part)
    return part.placeholder(index: media.count - 1)
  }

  // MARK: Assistant

  private mutating func checkAssistant(_ message: inout Fields, callIDs: inout Set<ByteKey>) throws(APIError)
  {
    // Without content it is an empty turn: histories hold such turns when a limit fell inside the reasoning.
    if let content = message.value("content"), content != [] {
      _ = try readContent(&message, role: "assistant")
    }
    _ = try message.string("refusal")
    _ = try message.string("reasoning_content")
    _ = try message.string("reasoning")
    try message.refuse("function_call", because: "it is deprecated; use 'tool_calls'")
    let calls = try message.array("tool_calls", maxCount: limits.tools) ?? []
    for (index, value) in calls.enumerated() {
      let path = "\(message.name(of: "tool_calls"))[\(index)]"
      var call = try Fields(value, path: path)
      callIDs.insert(ByteKey(try call.requiredString("id")))
      let type = try call.string("type") ?? "function"
      guard type == "function" else {
        throw .unsupportedValue("\(path).type", "'\(APIError.shortened(type))' calls cannot be used here")
      }
      guard var function = try call.fields("function") else { throw .missing("\(path).function") }
      _ = try function.requiredString("name")
      _ = try function.requiredString("arguments")
    }
  }
}
