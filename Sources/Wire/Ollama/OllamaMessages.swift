// The messages of a request of Ollama's wire, as the chat template gets them.

import JSON

/// Images become parts. Which call a result answers is found out where the prompt is made.
struct OllamaMessages {
  private let limits: RequestLimits
  private var transcript: Transcript

  init(limits: RequestLimits) {
    self.limits = limits
    transcript = Transcript(limits: limits)
  }

  mutating func read(_ fields: inout Fields) throws(APIError) -> Transcript {
    let messages = try fields.array("messages", of: Shape.named("OllamaMessage"), maxCount: limits.messages)
    for (index, value) in (messages ?? []).enumerated() {
      var message = try Fields(value, path: "messages[\(index)]")
      transcript.append(try read(message: &message))
    }
    return transcript
  }

  private mutating func read(message: inout Fields) throws(APIError) -> JSONValue {
    let role = try message.requiredString("role").lowercased()
    let text = try message.string("content") ?? ""
    var out = JSONObject([("role", .string(role)), ("content", .string(text))])
    switch role {
    case "system", "user": break
    case "developer": out["role"] = "system"
    case "assistant":
      if let thinking = try message.string("thinking"), !thinking.utf8.isEmpty {
        out["reasoning_content"] = .string(thinking)
      }
      let made = try readCalls(&message)
      if !made.isEmpty { out["tool_calls"] = .array(made) }
    case "tool":
      let old = try message.string("name")
      out["name"] = (try message.string("tool_name") ?? old).map(JSONValue.string)
      out["tool_call_id"] = try message.string("tool_call_id").map(JSONValue.string)
    default:
      throw .invalidValue(
        message.name(of: "role"), "'\(APIError.shortened(role))' is none of system, user, assistant, tool")
    }
    let parts = try readImages(&message)
    if !parts.isEmpty {
      let words: [JSONValue] = text.utf8.isEmpty ? [] : [["type": "text", "text": .string(text)]]
      out["content"] = .array(parts + words)
    }
    return .object(out)
  }

  private mutating func readImages(_ message: inout Fields) throws(APIError) -> [JSONValue] {
    var parts: [JSONValue] = []
    for (index, value) in (try message.array("images", maxCount: limits.mediaParts) ?? []).enumerated() {
      let field = "\(message.name(of: "images"))[\(index)]"
      guard let text = value.stringValue else {
        throw .wrongType(field, expected: "a string in base64", found: value)
      }
      parts.append(
        try transcript.placeholder(
          of: MediaPart(
            content: .image(url: try Self.url(text, field), detail: .auto), path: field, field: field)))
    }
    return parts
  }

  /// The bytes say what they are: a PNG begins with \x89PNG, a JPEG with \xFF\xD8\xFF.
  private static func url(_ text: String, _ field: String) throws(APIError) -> String {
    if text.utf8.starts(with: "data:".utf8) { return text }
    if text.utf8.starts(with: "iVBORw".utf8) { return "data:image/png;base64," + text }
    if text.utf8.starts(with: "/9j/".utf8) { return "data:image/jpeg;base64," + text }
    throw .invalidValue(field, "it is neither PNG nor JPEG in base64")
  }

  private mutating func readCalls(_ message: inout Fields) throws(APIError) -> [JSONValue] {
    var made: [JSONValue] = []
    for (index, value) in (try message.array("tool_calls", maxCount: limits.tools) ?? []).enumerated() {
      var call = try Fields(value, path: "\(message.name(of: "tool_calls"))[\(index)]")
      var function = try call.requiredFields("function")
      let name = try function.requiredString("name")
      let id = try call.string("id")
      let arguments = function.value("arguments") ?? .object(JSONObject())
      guard arguments.objectValue != nil || arguments.stringValue != nil else {
        throw .wrongType(function.name(of: "arguments"), expected: "an object", found: arguments)
      }
      made.append([
        "id": id.map(JSONValue.string) ?? .null, "type": "function",
        "function": ["name": .string(name), "arguments": .string(arguments.stringValue ?? arguments.text)],
      ])
    }
    return made
  }
}
